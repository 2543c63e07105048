// The numbers of series in the store: finds them, and adds those that are missing, in transactions of their own before the batch's.
//
// Series are added under one lock, so that their numbers are committed in ascending order: a store that has the largest number that a writer knows, added at
// the same time, has all that the writer knows.

import type { Database, SqlRow, SqlValue, Transaction } from '../../../database/database.ts'
import { SinkError } from '../../sink-error.ts'

/** A series to find or to add. Without subtopic, protocol and name it is the rest of the thing. */
export interface WantedSeries {
  readonly channel: string
  readonly publisher: string
  readonly subtopic: string | undefined
  readonly protocol: string | undefined
  readonly name: string | undefined
  readonly unit: string | undefined
}

export interface FoundSeries {
  readonly id: number
  readonly channel: number
  /** When it was added, in microseconds since 1970. */
  readonly addedUs: bigint
}

/** What a cache of numbers knows of its store; the batch's transaction compares it. */
export interface DictionaryState {
  readonly generation: string
  /** The largest number that the cache knows. */
  readonly witness: number
  readonly witnessAddedUs: bigint
}

export interface FoundNumbers {
  readonly generation: string
  /** In the order of what was wanted; undefined where the channel has its most series. */
  readonly series: readonly (FoundSeries | undefined)[]
}

export interface SeriesStoreOptions {
  readonly seriesPerChannelMax: number
  readonly lockTimeoutMs: number
  /** Of the transactions, so that an aborted one is found. */
  readonly applicationName: string
}

/** Finds and adds series, at most 5,000 at once. */
export type FindNumbers = (wanted: readonly WantedSeries[], signal: AbortSignal) => Promise<FoundNumbers>

/** Holds back all others that add series, until the transaction ends. */
export const addingSeries = `SELECT pg_advisory_xact_lock(hashtextextended('sluice.series', 0))`

/**
 * The table grows faster than its statistics, and than plans that were made for a small one. Without a sequential scan a plan looks so expensive that the
 * server would compile it, which takes a hundred times as long as the look-up.
 */
const byIndex = ['enable_seqscan', 'jit'].map(setting => `set_config('${setting}', 'off', true)`).join(', ')

export function seriesStore(database: Database, { seriesPerChannelMax, lockTimeoutMs, applicationName }: SeriesStoreOptions): FindNumbers {
  return async (wanted, signal) => {
    const json = JSON.stringify(wanted.map((series, nth) => ({ nth, ...series })))
    const begin = (transaction: Transaction) =>
      transaction.query(`SELECT set_config('lock_timeout', $1, true), set_config('application_name', $2, true), ${byIndex}`, [
        String(lockTimeoutMs),
        applicationName,
      ])
    const found = await database.transaction(async transaction => {
      await begin(transaction)
      return await find(transaction, wanted, json, seriesPerChannelMax)
    }, signal)
    if (!found.isIncomplete) return found
    return await database.transaction(async transaction => {
      await begin(transaction)
      await transaction.query(addingSeries)
      await add(transaction, json, seriesPerChannelMax)
      return await find(transaction, wanted, json, seriesPerChannelMax)
    }, signal)
  }
}

/** SQL that is true if the dictionary has this state; its values, from this parameter on, are `stateValues`. */
export function isState(first: number): string {
  return `($${first}::uuid IS NULL OR (
    EXISTS (SELECT FROM sluice.dictionary WHERE generation = $${first}::uuid)
    AND EXISTS (SELECT FROM sluice.series WHERE id = $${first + 1}::int AND (extract(epoch FROM added_at) * 1000000)::bigint = $${first + 2}::bigint)))`
}

export function stateValues(state: DictionaryState | undefined): SqlValue[] {
  return [state?.generation ?? null, state?.witness ?? null, state?.witnessAddedUs ?? null]
}

/**
 * To be called when the transaction has changed or locked a row: from then on maintenance waits for it before it removes a series.
 *
 * @throws SinkError (stale) if the dictionary has another state
 */
export async function checkState(transaction: Transaction, state: DictionaryState | undefined): Promise<void> {
  const [checked] = await transaction.query<{ same: boolean }>(`SELECT ${isState(1)} AS same`, stateValues(state))
  if (checked?.same === true) return
  throw new SinkError(
    'stale',
    'the numbers of series are no longer those of the store, which removes unused ones or was put back to an older state: look them up again',
  )
}

const wantedSeries = `wanted AS MATERIALIZED (
  SELECT * FROM json_to_recordset($1::json)
    AS wanted (nth integer, channel text, publisher text, subtopic text, protocol text, name text, unit text)
)`
/**
 * With OFFSET, so that each is looked up by all columns of the index: a join may read all series of a thing for each of them. The rests are searched by their
 * own condition, since the index has no entry for "both are NULL".
 */
const inThing = 'series.channel = channels.id AND series.publisher = wanted.publisher'
const named = `SELECT * FROM sluice.series WHERE ${inThing} AND series.name = wanted.name AND series.subtopic = wanted.subtopic
  AND series.protocol = wanted.protocol AND series.unit IS NOT DISTINCT FROM wanted.unit OFFSET 0`
const rest = `SELECT * FROM sluice.series WHERE ${inThing} AND series.name IS NULL OFFSET 0`

const foundColumns = `wanted.nth, channels.id AS channel, series.id, series.is_unused, (extract(epoch FROM series.added_at) * 1000000)::bigint AS added_us`
const wantedIn = 'FROM wanted JOIN sluice.channels ON channels.channel = wanted.channel'

/** First a row with the generation, of the same snapshot as the series. A full channel, which may lack some, has a row without an id. */
const findSql = `WITH ${wantedSeries}
  SELECT generation::text, NULL::int AS nth, NULL::int AS channel, NULL::int AS id, NULL::boolean AS is_unused, NULL::bigint AS added_us FROM sluice.dictionary
  UNION ALL SELECT NULL, min(nth), id, NULL, NULL, NULL FROM wanted JOIN sluice.channels USING (channel) WHERE series >= $2 GROUP BY id
  UNION ALL SELECT NULL, ${foundColumns} ${wantedIn} CROSS JOIN LATERAL (${named}) AS series WHERE wanted.name IS NOT NULL
  UNION ALL SELECT NULL, ${foundColumns} ${wantedIn} CROSS JOIN LATERAL (${rest}) AS series WHERE wanted.name IS NULL`

type FoundRow = SqlRow & {
  generation: string | null
  nth: number | null
  channel: number
  id: number | null
  is_unused: boolean
  added_us: bigint
}

/** Also takes away the marks of maintenance, so that it does not remove what is going to be used. */
async function find(
  transaction: Transaction,
  wanted: readonly WantedSeries[],
  json: string,
  seriesPerChannelMax: number,
): Promise<FoundNumbers & { readonly isIncomplete: boolean }> {
  let rows = await transaction.query<FoundRow>(findSql, [json, seriesPerChannelMax])
  // Of the first look: what is marked after it belongs to a later one.
  const generation = rows.find(row => row.generation !== null)!.generation!
  const marked = rows.filter(row => row.is_unused).map(({ id }) => id!)
  if (marked.length > 0) {
    await transaction.query(
      `UPDATE sluice.series SET is_unused = false
       WHERE id IN (SELECT id FROM sluice.series WHERE id = ANY ($1::int[]) AND is_unused ORDER BY id FOR UPDATE)`,
      [marked],
    )
    // Some may have been removed meanwhile.
    rows = await transaction.query<FoundRow>(findSql, [json, seriesPerChannelMax])
  }
  const series = Array.from({ length: wanted.length }, (): FoundSeries | undefined => undefined)
  const full = new Set<string>()
  for (const { nth, channel, id, added_us } of rows) {
    if (nth === null) continue
    if (id !== null) series[nth] = { id, channel, addedUs: added_us }
    else full.add(wanted[nth]!.channel)
  }
  const isMissing = ({ channel, name }: WantedSeries, nth: number) =>
    series[nth] === undefined && (name === undefined || !full.has(channel))
  return { generation, series, isIncomplete: wanted.some(isMissing) }
}

/** Adds the missing series of each channel as far as its limit goes, and all missing rests, which do not count. */
async function add(transaction: Transaction, json: string, seriesPerChannelMax: number): Promise<void> {
  await transaction.query(
    `WITH ${wantedSeries} INSERT INTO sluice.channels (channel)
     SELECT DISTINCT channel FROM wanted WHERE NOT EXISTS (SELECT FROM sluice.channels WHERE channels.channel = wanted.channel)`,
    [json],
  )
  await transaction.query(
    `WITH ${wantedSeries}, missing AS (
       SELECT wanted.*, channels.id AS number,
         channels.series + row_number() OVER (PARTITION BY channels.id, wanted.name IS NULL ORDER BY wanted.nth) AS count
       ${wantedIn} WHERE CASE WHEN wanted.name IS NULL THEN NOT EXISTS (${rest}) ELSE NOT EXISTS (${named}) END
     ), added AS (
       INSERT INTO sluice.series (channel, publisher, subtopic, protocol, name, unit)
       SELECT number, publisher, subtopic, protocol, name, unit FROM missing WHERE name IS NULL OR count <= $2 ORDER BY nth
       RETURNING channel, name
     )
     UPDATE sluice.channels SET series = channels.series + named.count
     FROM (SELECT channel, count(name)::int FROM added GROUP BY channel) AS named
     WHERE channels.id = named.channel AND named.count > 0`,
    [json, seriesPerChannelMax],
  )
}
