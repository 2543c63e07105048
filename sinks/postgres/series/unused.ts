// Removes series that have no rows any longer: with a retention, devices and names that are gone would otherwise count against their channel for ever.
//
// It takes two runs, hours apart, since a writer may be about to write a row of the series. The first marks it and changes the generation, so that writers
// look their series up again, and that takes the mark away. The next removes what is still marked, once all transactions have ended that may have read
// an earlier generation. Writers wait for nothing here, but those with a new series for a DELETE.

import type { Database, Transaction } from '../../../database/database.ts'
import { addingSeries } from './store.ts'

/** How many series one statement looks at: the embedded database runs nothing beside it. */
const seriesAtOnce = { server: 10_000, embedded: 1_000 }
/** How many one run marks; what is left is marked by the next. */
const markedMax = 100_000

/**
 * Marks series without rows, and removes those that were marked before. Does nothing where an operator has replaced the index by series: each series
 * would be searched in all rows.
 *
 * @throws DatabaseError 42501 if the role lacks the permission
 */
export async function removeUnusedSeries(database: Database): Promise<void> {
  if (!(await hasSeriesIndex(database))) return
  for await (const ids of unusedSeries(database, isRemovable)) await remove(database, ids)
  const unused: number[] = []
  for await (const ids of unusedSeries(database, isUnmarked)) {
    unused.push(...ids)
    if (unused.length >= markedMax) break
  }
  if (unused.length > 0) await changingMarks(database, transaction => mark(transaction, unused))
  await noteEarlier(database)
}

/** New series are left alone: their first rows may be under way. */
const isUnmarked = `NOT is_unused AND added_at < clock_timestamp() - interval '1 day'`
const isRemovable = 'is_unused AND (SELECT earlier_below <= pg_snapshot_xmin(pg_current_snapshot()) FROM sluice.dictionary)'

async function hasSeriesIndex(database: Database): Promise<boolean> {
  const [found] = await database.query(
    `SELECT 1 FROM pg_index JOIN pg_class AS own ON own.oid = indexrelid JOIN pg_am AS method ON method.oid = own.relam
     WHERE indrelid = 'sluice.records'::regclass AND indisvalid AND method.amname = 'btree'
       AND indkey[0] = (SELECT attnum FROM pg_attribute WHERE attrelid = indrelid AND attname = 'series')`,
  )
  return found !== undefined
}

/** The ids of series without rows that meet the condition, a piece at a time. */
async function* unusedSeries(database: Database, condition: string): AsyncGenerator<number[]> {
  const [last] = await database.query<{ id: number | null }>('SELECT max(id) AS id FROM sluice.series')
  const atOnce = seriesAtOnce[database.kind]
  for (let from = 1; from <= (last?.id ?? 0); from += atOnce) {
    const found = await database.transaction(async transaction => {
      // Each series is searched by the index, whatever the planner thinks of the number of its rows.
      await transaction.execute('SET LOCAL enable_seqscan = off; SET LOCAL jit = off')
      return await transaction.query<{ id: number }>(
        `SELECT id FROM sluice.series WHERE id >= $1 AND id < $2 AND ${condition}
           AND (SELECT 1 FROM sluice.records WHERE records.series = series.id LIMIT 1) IS NULL`,
        [from, from + atOnce],
      )
    })
    if (found.length > 0) yield found.map(({ id }) => id)
  }
}

/** One process at a time, so that no series is marked again while another process decides to remove it. */
function changingMarks<Result>(database: Database, work: (transaction: Transaction) => Promise<Result>): Promise<Result> {
  return database.transaction(async transaction => {
    await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.unused', 0))`)
    return await work(transaction)
  })
}

async function mark(transaction: Transaction, ids: readonly number[]): Promise<void> {
  await transaction.query('UPDATE sluice.series SET is_unused = true WHERE id = ANY ($1::int[]) AND NOT is_unused', [ids])
  await transaction.query('UPDATE sluice.dictionary SET generation = gen_random_uuid(), earlier_below = NULL')
}

/**
 * After the commit of the marks: what begins from now on reads their generation. A number that the server has not reached yet is of another server, whose
 * dump was restored here, and is noted again.
 */
async function noteEarlier(database: Database): Promise<void> {
  const isToNote = '(earlier_below IS NULL OR earlier_below > pg_snapshot_xmax(pg_current_snapshot()))'
  const [now] = await database.query<{ generation: string }>(`SELECT generation::text FROM sluice.dictionary WHERE ${isToNote}`)
  if (now === undefined) return
  // Another process may have marked more meanwhile, and notes it itself.
  await database.query(
    `UPDATE sluice.dictionary SET earlier_below = pg_snapshot_xmax(pg_current_snapshot()) WHERE ${isToNote} AND generation = $1::uuid`,
    [now.generation],
  )
}

/** What a writer looks up at this moment is left to the next run. */
async function remove(database: Database, ids: readonly number[]): Promise<void> {
  await changingMarks(database, async transaction => {
    // Searched once more under the lock, since a series may have got a row and a new mark meanwhile.
    await transaction.execute(`SET LOCAL enable_seqscan = off; SET LOCAL jit = off; ${addingSeries}`)
    await transaction.query(
      `WITH removed AS (
         DELETE FROM sluice.series WHERE id IN (
           SELECT id FROM sluice.series WHERE id = ANY ($1::int[]) AND ${isRemovable}
             AND (SELECT 1 FROM sluice.records WHERE records.series = series.id LIMIT 1) IS NULL
           FOR UPDATE SKIP LOCKED
         ) RETURNING channel, name
       ), fewer AS (
         UPDATE sluice.channels SET series = channels.series - named.count
         FROM (SELECT channel, count(name)::int FROM removed GROUP BY channel) AS named WHERE channels.id = named.channel
       )
       -- Only a store that went back needs this: there a series may be marked that a writer has looked up since.
       UPDATE sluice.dictionary SET generation = gen_random_uuid() WHERE EXISTS (SELECT FROM removed)`,
      [ids],
    )
  })
}
