// What the store keeps besides its rows: the number of each log, and the table of each JSON format, which is created when it is first needed, up to a limit.
//
// Devices name formats, so a name may be hostile: one device must not be able to create tables without limit. Tables are created in transactions of
// their own, by one writer at a time in the whole store, and used only after the commit.

import { createHash } from 'node:crypto'
import type { Database, Queries, Transaction } from '../../database/database.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { type AddFormats, admitFormats, type FormatRefusal, physicalName as nameBy, type WantedFormat } from '../formats.ts'
import { chooseLog, currentFirst, type LogIdentity, type LogRegistry, logToFree, type RegisteredLog, rowsLeft } from '../logs.ts'
import { limits, packedPosition } from '../sink.ts'
import { denied, isAnswer } from './errors.ts'
import { firstPartitions, formatTable } from './months.ts'
import type { SinkOptions } from './options.ts'

/**
 * A transaction holds about five locks for each table that it creates, of the table, its indexes and what it keeps long values in. A format has eight
 * tables with its partitions, so about forty locks, and the server's lock table is bounded: 64 for each connection by default.
 */
const createdAtOnceMax = 5

/** Finds the tables of formats, and creates those that are missing. */
export function formatAdder(database: Database, options: SinkOptions): AddFormats {
  return async (unknown, abort) => {
    const refused = new Map<string, FormatRefusal>()
    const found = new Set(await database.transaction(transaction => findTables(transaction, unknown), abort))
    const missing = unknown.filter(({ format }) => !found.has(format))
    for (let start = 0; start < missing.length; start += createdAtOnceMax) {
      const some = missing.slice(start, start + createdAtOnceMax)
      const created = await database.transaction(transaction => createTables(transaction, some, options), abort).catch(refusedAll(some))
      for (const [format, refusal] of created) refused.set(format, refusal)
    }
    return refused
  }
}

/** The quoted name of a format's table. */
export function tableOf(format: string): string {
  return quoted(physicalName(format))
}

// In the order of the encoder, which writes what all rows of a message share first.
const recordColumns =
  '(channel, position, series, time, index, value, string_value, bool_value, data_value, sum, update_time, subtopic, protocol, name, unit)'
const documentColumns = '(channel, subtopic, publisher, protocol, position, created, payload, index)'

/** The table and columns that rows of a format are copied to; undefined if the format has no table: all its messages are then rejected. */
export function targetOf(format: string, refused: { has(format: string): boolean }): string | undefined {
  if (format === senmlFormat) return `sluice.records ${recordColumns}`
  return refused.has(format) ? undefined : `${tableOf(format)} ${documentColumns}`
}

/**
 * If the role may not create tables, messages of new formats are rejected and the writer goes on: devices name formats, and one device must not keep
 * the messages of others from being stored. A replay stores the rejected ones once an operator has granted the permission.
 */
function refusedAll(wanted: readonly WantedFormat[]): (error: unknown) => ReadonlyMap<string, FormatRefusal> {
  return error => {
    if (!isAnswer(error, denied)) throw error
    const refusal: FormatRefusal = {
      rule: 'format-not-allowed',
      reason: `the format has no table, and the writer's role may not create one (SQLSTATE ${error.sqlState}): ${error.message}`,
      hint: 'grant CREATE on the schemas "formats" and "sluice" to the role of the writer, then replay the message',
    }
    return new Map(wanted.map(({ format }) => [format, refusal]))
  }
}

/** The formats that are registered and whose table exists. */
async function findTables(queries: Queries, wanted: readonly WantedFormat[]): Promise<string[]> {
  const rows = await queries.query<{ format: string }>(
    `SELECT format FROM sluice.formats
     WHERE format = ANY ($1::text[]) AND to_regclass(format('formats.%I', table_name)) IS NOT NULL`,
    [wanted.map(({ format }) => format)],
  )
  return rows.map(({ format }) => format)
}

async function createTables(
  transaction: Transaction,
  wanted: readonly WantedFormat[],
  options: SinkOptions,
): Promise<ReadonlyMap<string, FormatRefusal>> {
  await transaction.query(`SELECT set_config('lock_timeout', $1, true)`, [String(options.lockTimeoutMs)])
  await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.formats', 0))`)
  const registered = await transaction.query<{ format: string; channel: string }>('SELECT format, channel FROM sluice.formats')
  const { added, refused } = admitFormats(registered, wanted, options)
  if (added.length > 0) {
    await transaction.query(
      'INSERT INTO sluice.formats (format, table_name, channel) SELECT * FROM unnest($1::text[], $2::text[], $3::text[])',
      [added.map(({ format }) => format), added.map(({ format }) => physicalName(format)), added.map(({ channel }) => channel)],
    )
  }
  // The table of a registered format is created again if it was dropped, and that of a format that is registered again has its partitions.
  const accepted = await transaction.query<{ id: number; format: string; exists: boolean }>(
    `SELECT id, format, ${tableExists} AS exists FROM sluice.formats WHERE format = ANY ($1::text[])`,
    [wanted.map(({ format }) => format)],
  )
  const statements = accepted.map(({ id, format, exists }) => {
    const partitions = exists ? '' : firstPartitions(formatTable(tableOf(format), `format_${id}`), options)
    return tableStatements(physicalName(format)) + partitions
  })
  if (statements.length > 0) await transaction.execute(statements.join(''))
  return refused
}

/**
 * Creates what is missing of a format's table; `firstPartitions` creates its partitions. People read `time`; readers and the indexes go by `created`.
 * PostgreSQL generates no column from a timestamptz and an interval, whose sum may depend on the time zone of the session, so the sum is that of a
 * timestamp in UTC.
 */
export function tableStatements(table: string): string {
  return `
    CREATE TABLE IF NOT EXISTS ${quoted(table)} (
      created bigint NOT NULL, channel text NOT NULL, subtopic text NOT NULL, publisher text NOT NULL, protocol text NOT NULL,
      payload jsonb NOT NULL, position bigint NOT NULL, index integer NOT NULL,
      time timestamptz GENERATED ALWAYS AS ((timestamp 'epoch' + created / 1000 * interval '1 microsecond') AT TIME ZONE 'UTC') STORED
    ) PARTITION BY RANGE (created);
    CREATE INDEX IF NOT EXISTS "$${table}" ON ${quoted(table)} (channel, created);
    CREATE INDEX IF NOT EXISTS "${publisherIndexName(table)}" ON ${quoted(table)} (${publisherKey()}, created);`
}

/** A table's name may have 62 of the 63 bytes of a name, and `$` and the table's name is already the other index. */
function publisherIndexName(table: string): string {
  return `$$publisher$${createHash('sha256').update(table).digest('hex').slice(0, 32)}`
}

/** The table of a format, quoted with its schema. */
export function quoted(table: string): string {
  return `formats."${table.replaceAll('"', '""')}"`
}

type LogRow = Record<string, string | number | bigint | null> & { content_types: string | null; accepted_us: bigint } & Readonly<
    Record<'name' | 'id' | 'writer', string>
  > & { number: number }

/** All logs; of those with the same name and writer, the one that is written from now comes first. */
export async function readLogs(queries: Queries): Promise<RegisteredLog[]> {
  const rows = await queries.query<LogRow>(
    `SELECT number, name, id, writer, to_json(content_types)::text AS content_types, (extract(epoch FROM accepted_at) * 1000000)::bigint AS accepted_us
     FROM sluice.logs`,
  )
  return currentFirst(
    rows.map(({ number, name, id, writer, content_types: types, accepted_us: us }) => ({
      number,
      name,
      id,
      writer,
      contentTypes: types === null ? undefined : (JSON.parse(types) as string[]),
      acceptedMs: Number(us) / 1000,
    })),
  )
}

/** Serializes all changes of the logs, so that each sees what those before it have written. */
function changingLogs<Result>(database: Database, work: (transaction: Transaction) => Promise<Result>): Promise<Result> {
  return database.transaction(async transaction => {
    await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.logs', 0))`)
    return await work(transaction)
  })
}

export function openLogRegistry(database: Database): LogRegistry {
  function settled(identity: LogIdentity, isTaken: boolean): Promise<number | undefined> {
    const { logName, logId, writer, contentTypes = null, acceptNewLog } = identity
    return changingLogs(database, async transaction => {
      const { number, state } = chooseLog(await readLogs(transaction), identity)
      if (state === 'new' && !isTaken && acceptNewLog !== logId) return undefined
      if (state === 'changed')
        await transaction.query('UPDATE sluice.logs SET content_types = $2 WHERE number = $1', [number, contentTypes])
      if (state === 'again') {
        const again = 'UPDATE sluice.logs SET accepted_at = clock_timestamp(), content_types = $2 WHERE number = $1'
        await transaction.query(again, [number, contentTypes])
      }
      if (state === 'new') {
        await transaction.query('INSERT INTO sluice.logs (number, name, id, writer, content_types) VALUES ($1, $2, $3, $4, $5)', [
          number,
          logName,
          logId,
          writer,
          contentTypes,
        ])
      }
      return number
    })
  }

  return {
    find: identity => settled(identity, false),
    take: async identity => (await settled(identity, true))!,
  }
}

/**
 * Frees the number of a log, with its offsets and the notes of its replays.
 *
 * @param isIdle as for `logToFree`
 * @throws SinkError (systemic) that says why it cannot be freed
 * @throws DatabaseError
 */
export function freeLog(database: Database, number: number, isIdle = false): Promise<void> {
  return changingLogs(database, async transaction => {
    const log = logToFree(await readLogs(transaction), number, isIdle)
    if (await hasRows(transaction, number)) throw rowsLeft(log)
    await transaction.query('DELETE FROM sluice.replayed WHERE position >= $1 AND position <= $2', positionsOf(number))
    await transaction.query('DELETE FROM sluice.offsets WHERE log = $1', [number])
    await transaction.query('DELETE FROM sluice.logs WHERE number = $1', [number])
  })
}

export async function hasRows(queries: Queries, log: number): Promise<boolean> {
  for (const { table } of await rowTables(queries)) {
    const [row] = await queries.query(`SELECT 1 FROM ${table} WHERE position >= $1 AND position <= $2 LIMIT 1`, positionsOf(log))
    if (row !== undefined) return true
  }
  return false
}

/** The first and the last position that a row of the log can have. */
function positionsOf(log: number): bigint[] {
  return [packedPosition(log, 0, 0), packedPosition(log, limits.partition, limits.offset)]
}

/** Records that the messages at these positions were replayed and are stored. Idempotent. */
export async function noteReplays(queries: Queries, positions: readonly bigint[]): Promise<void> {
  if (positions.length === 0) return
  await queries.query('INSERT INTO sluice.replayed (position) SELECT unnest($1::bigint[]) ON CONFLICT DO NOTHING', [positions])
}

export interface RowTable {
  /** `messages` for SenML. */
  readonly format: string
  /** Quoted; of records the table that has only the numbers of their series. */
  readonly table: string
}

/** The tables of rows. A registered format whose table was dropped has no rows until the table is created again. */
export async function rowTables(queries: Queries): Promise<RowTable[]> {
  const formats = await queries.query<{ format: string; table_name: string }>(
    `SELECT format, table_name FROM sluice.formats WHERE ${tableExists} ORDER BY table_name`,
  )
  const records = { format: senmlFormat, table: 'sluice.records' }
  return [records, ...formats.map(({ format, table_name }) => ({ format, table: quoted(table_name) }))]
}

export const tableExists = `to_regclass(format('formats.%I', table_name)) IS NOT NULL`

/**
 * Lower case only, since people write names unquoted; without `$`, which only names made here contain. PostgreSQL silently truncates names to 63
 * bytes; one byte is left for the index, which is called `$` and the table's name.
 */
const rule = { harmless: /^[a-z_][a-z0-9_]{0,61}$/, foreign: /[^a-z0-9_]+/g, separator: '$', prefixLengthMax: 29 }

/** The table that a JSON format is stored in: no two formats share one. */
export function physicalName(format: string): string {
  return nameBy(format, rule)
}

/**
 * The key by which the documents of one publisher in one channel are indexed: an eight-byte hash of both texts, which costs the index half of what the
 * texts would. A search by it compares the texts too.
 *
 * Returned as SQL, of columns or values. PostgreSQL never changes this hash function, since its own hash partitions depend on it.
 */
export function publisherKey(publisher = 'publisher', channel = 'channel'): string {
  return `hashtextextended(${publisher}, hashtextextended(${channel}, 0))`
}
