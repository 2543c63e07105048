// Checks after a power cut that the files of the embedded database are consistent: PGlite never syncs them.

import { type Database, DatabaseError, type Transaction } from '../database.ts'
import { DamagedDatabaseError } from './damaged.ts'

/**
 * Reads every page of every table and index, including the catalogs (checksums), and compares tables with indexes: a power
 * cut leaves zeroed pages, outdated pages and shorter files, which all have valid checksums. The rows of each table are checked
 * by amcheck's `verify_heapam`, each b-tree by `bt_index_check` with a lookup of every row, and each b-tree's entries against the rows
 * of the table. Takes about 7 µs per row and index, during which the database is busy. Leaves nothing behind in the database.
 *
 * @throws DamagedDatabaseError that says what is wrong first
 */
export async function checkIntegrity(database: Database & { folder: string }): Promise<void> {
  const nothingStays = new Error('the check has finished')
  try {
    await database.transaction(async transaction => {
      await transaction.execute('CREATE EXTENSION IF NOT EXISTS amcheck; CREATE EXTENSION IF NOT EXISTS pageinspect')
      const finding = await firstFault(transaction)
      if (finding !== undefined) throw new DamagedDatabaseError(database.folder, finding, undefined)
      throw nothingStays
    })
  } catch (error) {
    if (error === nothingStays) return
    // A page that cannot be read, or a row that a b-tree lacks, is an error of the statement that finds it.
    if (!(error instanceof DatabaseError) || error instanceof DamagedDatabaseError) throw error
    throw new DamagedDatabaseError(database.folder, (error.cause instanceof Error ? error.cause : error).message, error)
  }
}

async function firstFault(transaction: Transaction): Promise<string | undefined> {
  const [table] = await transaction.query<{ name: string; block: bigint; message: string }>(faultsOfTables)
  if (table !== undefined) return `the table ${table.name}, block ${table.block}: ${table.message}`
  for (const { name, table } of await transaction.query<{ name: string; table: string }>(trees)) {
    await transaction.query('SELECT bt_index_check($1::text::regclass, heapallindexed := true)::text', [name])
    const [lost] = await transaction.query<{ count: bigint }>(entriesWithoutRow, [name, table])
    if (lost !== undefined && lost.count > 0n) return `the table ${table} lacks ${lost.count} rows that its index ${name} has`
  }
  await transaction.query(pagesOfOtherIndexes)
  return undefined
}

/** Another session's temporary tables cannot be here: there is one session. */
const faultsOfTables = `
  SELECT c.oid::regclass::text AS name, fault.blkno AS block, fault.msg AS message
  FROM pg_class c CROSS JOIN LATERAL verify_heapam(c.oid, on_error_stop := true, check_toast := true) AS fault
  WHERE c.relkind IN ('r', 'm', 't')
  LIMIT 1`

const trees = `
  SELECT i.indexrelid::regclass::text AS name, i.indrelid::regclass::text AS "table"
  FROM pg_index i JOIN pg_class c ON c.oid = i.indexrelid
  WHERE c.relkind = 'i' AND i.indisvalid AND c.relam = (SELECT oid FROM pg_am WHERE amname = 'btree')
  ORDER BY i.indrelid, i.indexrelid`

/** Other kinds than b-trees have no checker; reading a page checks its checksum. */
const pagesOfOtherIndexes = `
  SELECT count(get_raw_page(c.oid::regclass::text, block::int4))
  FROM pg_class c CROSS JOIN LATERAL generate_series(0, pg_relation_size(c.oid) / 8192 - 1) AS block
  WHERE c.relkind = 'i' AND c.relam <> (SELECT oid FROM pg_am WHERE amname = 'btree')`

/**
 * Counts the entries of an index ($1) that point to a place where its table ($2) has no row, live or dead. PostgreSQL removes an entry before
 * it frees its row's place, so an intact database has none. In a leaf page with a right neighbour the first item is a bound, not an entry.
 */
const entriesWithoutRow = `
  WITH leaf AS MATERIALIZED (
    SELECT block, stats.btpo_next <> 0 AS bounded
    FROM generate_series(1, pg_relation_size($1::text::regclass) / 8192 - 1) AS block
      CROSS JOIN LATERAL bt_page_stats($1::text, block) AS stats
    WHERE stats.type = 'l'
  ), entry AS (
    SELECT unnest(coalesce(item.tids, ARRAY[item.htid]))::text::point AS at
    FROM leaf CROSS JOIN LATERAL bt_page_items($1::text, leaf.block) AS item
    WHERE NOT (leaf.bounded AND item.itemoffset = 1)
  ), place AS (
    SELECT block * 2048 + lp AS id
    FROM generate_series(0, pg_relation_size($2::text::regclass) / 8192 - 1) AS block
      CROSS JOIN LATERAL heap_page_items(get_raw_page($2::text, block))
    WHERE lp_flags <> 0
  )
  SELECT count(*) AS count
  FROM (SELECT (at[0] * 2048 + at[1])::int8 AS id FROM entry WHERE at IS NOT NULL) AS entry
  WHERE NOT EXISTS (SELECT FROM place WHERE place.id = entry.id)`
