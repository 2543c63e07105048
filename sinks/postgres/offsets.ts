// The offsets protocol: each partition's next offset is stored beside the rows, and advances in their transaction.

import type { Database, SqlValue, Step, Transaction } from '../../database/database.ts'
import { type LogPartition, logOf, logPartition, partitionName, partitionOf } from '../../transformers/log-partition.ts'
import type { Range } from '../../transformers/record-batch.ts'
import type { LogNumbers, MessageCounts, Positions } from '../sink.ts'
import { SinkError } from '../sink-error.ts'
import type { ConnectionNames } from './connection.ts'
import { checkState, type DictionaryState, isState, stateValues } from './series/store.ts'

export interface Offsets {
  /** The offsets to resume at. A partition that the store does not know is absent, and `prepare` may add it. */
  positions(of: readonly LogPartition[]): Promise<Positions>
  /** The ranges that are kept: those of logs with a number. */
  kept(ranges: readonly Range[]): Range[]
  /** Remembers the counts of a range of a log without a number, to add them to the partition's row when there is one. */
  pass(range: Range, counts: MessageCounts): void
  /**
   * Adds the rows of partitions that the store does not know, with the start of the range as their offset and the counts of what was
   * passed before. It runs before the batch's transaction and outside of it, so that a transaction that holds a partition holds a row
   * that others can see. The row is correct with or without the batch.
   *
   * A row that existed once is added again only after `positions` has found that it is missing. Otherwise a store that was put back to a state before
   * that row would treat everything below the range as stored.
   */
  prepare(ranges: readonly Range[], abort: AbortSignal): Promise<void>
  /**
   * Locks the ranges' partitions, in order, until the transaction ends.
   *
   * @returns the offset below which everything is settled, by log and partition
   * @param state what the numbers of the batch's series depend on, if it has any
   * @throws SinkError (fenced) if a range starts above it, (stale) if the numbers are no longer those of the store
   */
  lock(transaction: Transaction, ranges: readonly Range[], state: DictionaryState | undefined): Promise<Positions>
  /** Advances the partitions to the ends of the ranges, and adds the counts, one for each range. */
  advance(transaction: Transaction, ranges: readonly Range[], counts: readonly MessageCounts[]): Promise<void>
  /**
   * Both as steps that can be sent in advance. They fail (22012) if a partition's next offset is not the start of its range, or the numbers of series are
   * no longer those of the store.
   */
  steps(ranges: readonly Range[], counts: readonly MessageCounts[], state: DictionaryState | undefined): Step[]
  /** Takes what the partitions have up to here as copied, which is in no count. */
  beginCounts(): Promise<void>
  /** Terminates the connections of this same writer that have held the partitions for longer than a lock is waited for. Returns how many. */
  endHolders(ranges: readonly Range[]): Promise<number>
}

interface OffsetRow extends Record<string, number | bigint> {
  log: number
  partition: number
  next_offset: bigint
}

export interface OffsetsOf {
  readonly writer: string
  readonly logNumbers: LogNumbers
  /** The names of the same logs, for error messages. */
  readonly logNames: readonly string[]
  readonly names: ConnectionNames
  readonly lockTimeoutMs: number
}

/** Selects the rows of logs and partitions that are passed as two parallel arrays. */
const isOurs = 'writer = $1 AND (log, partition) IN (SELECT * FROM unnest($2::int[], $3::int[]))'

/** One statement, and yet in order: rows are locked as they leave the sort, after the time limit was set. */
const lockSql = `
  WITH settings AS MATERIALIZED (SELECT set_config('lock_timeout', $4, true), set_config('application_name', $5, true))
  SELECT offsets.log, offsets.partition, offsets.next_offset FROM sluice.offsets, settings
  WHERE ${isOurs}
  ORDER BY log, partition FOR UPDATE OF offsets`

/**
 * Divides by zero unless every partition's next offset is the start of its range and the numbers of series are the store's, so that the steps after it are
 * not executed.
 */
const advanceSql = (guard: boolean) => `
  WITH advanced AS (
    UPDATE sluice.offsets SET
      next_offset = greatest(next_offset, batch.to_offset), received = offsets.received + batch.received,
      stored = offsets.stored + batch.stored, empty = offsets.empty + batch.empty,
      filtered = offsets.filtered + batch.filtered, skipped = offsets.skipped + batch.skipped,
      duplicate = offsets.duplicate + batch.duplicate, dead_lettered = offsets.dead_lettered + batch.dead_lettered,
      lost = offsets.lost + batch.lost
    FROM unnest($2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::int[], $7::int[], $8::int[], $9::int[], $10::bigint[], $11::int[], $12::int[], $13::bigint[])
      AS batch (log, partition, from_offset, to_offset, received, stored, empty, filtered, skipped, duplicate, dead_lettered, lost)
    WHERE writer = $1 AND offsets.log = batch.log AND offsets.partition = batch.partition ${guard ? 'AND next_offset = batch.from_offset' : ''}
    RETURNING 1
  )
  SELECT ${guard ? `1 / (count(*) = cardinality($3::int[]) AND ${isState(14)})::int` : 'count(*)'} FROM advanced`

const countNames = ['received', 'stored', 'empty', 'filtered', 'skipped', 'duplicate', 'deadLettered', 'lost'] as const

/** Parallel arrays for `unnest`, in the order of the columns. */
function countArrays(counts: readonly (MessageCounts | undefined)[]): number[][] {
  return countNames.map(name => counts.map(count => count?.[name] ?? 0))
}

export function openOffsets(database: Database, { writer, logNumbers, logNames, names, lockTimeoutMs }: OffsetsOf): Offsets {
  /** Partitions whose row existed once, even if it is gone now. */
  const prepared = new Set<LogPartition>()
  /** What became of the messages of partitions while their log had no number. */
  const passed = new Map<LogPartition, MessageCounts>()
  /** The writer, then the store's numbers of the logs, and the partitions. */
  const keysOf = (of: readonly LogPartition[]) => [writer, of.map(at => logNumbers[logOf(at)]!), of.map(partitionOf)]
  const rangeKeysOf = (ranges: readonly Range[]) => keysOf(ranges.map(({ at }) => at))
  const atOf = ({ log, partition }: OffsetRow) => logPartition(logNumbers.indexOf(log), partition)
  const positionsOf = (rows: readonly OffsetRow[]) => new Map(rows.map(row => [atOf(row), Number(row.next_offset)]))
  const lockValues = (ranges: readonly Range[]) => [...rangeKeysOf(ranges), String(lockTimeoutMs), names.sink]

  function advanceValues(ranges: readonly Range[], counts: readonly MessageCounts[]): SqlValue[] {
    return [...rangeKeysOf(ranges), ranges.map(range => range.from), ranges.map(range => range.to), ...countArrays(counts)]
  }

  return {
    async positions(of) {
      const sql = `SELECT log, partition, next_offset FROM sluice.offsets WHERE ${isOurs}`
      const known = of.filter(at => logNumbers[logOf(at)] !== undefined)
      const positions = known.length === 0 ? new Map() : positionsOf(await database.query<OffsetRow>(sql, keysOf(known)))
      for (const at of of) {
        // What was passed without a position is read again.
        passed.delete(at)
        if (positions.has(at)) prepared.add(at)
        else prepared.delete(at)
      }
      return positions
    },

    kept: ranges => ranges.filter(({ at }) => logNumbers[logOf(at)] !== undefined),

    pass({ at }, counts) {
      const before = passed.get(at)
      passed.set(at, before === undefined ? counts : sumOf(before, counts))
    },

    async prepare(ranges, abort) {
      const missing = ranges.filter(range => !prepared.has(range.at))
      if (missing.length === 0) return
      const settings = {
        sql: `SELECT set_config('lock_timeout', $1, true), set_config('application_name', $2, true)`,
        values: [String(lockTimeoutMs), names.sink],
      }
      const insert = {
        sql: `INSERT INTO sluice.offsets (writer, log, partition, next_offset, received, stored, empty, filtered, skipped, duplicate, dead_lettered, lost)
         SELECT $1, * FROM unnest($2::int[], $3::int[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[])
           AS missing (log, partition)
         ORDER BY log, partition
         ON CONFLICT DO NOTHING`,
        values: [...rangeKeysOf(missing), missing.map(range => range.from), ...countArrays(missing.map(({ at }) => passed.get(at)))],
      }
      await database.run([settings, insert], abort)
      for (const { at } of missing) {
        prepared.add(at)
        passed.delete(at)
      }
    },

    async lock(transaction, ranges, state) {
      const next = positionsOf(await transaction.query<OffsetRow>(lockSql, lockValues(ranges)))
      for (const { at, from } of ranges) {
        const settled = next.get(at)
        if (settled === undefined)
          throw new SinkError('fenced', `the store no longer knows ${partitionName(at, logNames)}: ask for its position again`)
        if (from > settled) {
          throw new SinkError(
            'fenced',
            `${partitionName(at, logNames)}: the batch starts at offset ${from}, but the store expects offset ${settled}`,
          )
        }
      }
      await checkState(transaction, state)
      return next
    },

    async advance(transaction, ranges, counts) {
      await transaction.query(advanceSql(false), advanceValues(ranges, counts))
    },

    steps: (ranges, counts, state) => [
      { sql: lockSql, values: lockValues(ranges) },
      { sql: advanceSql(true), values: [...advanceValues(ranges, counts), ...stateValues(state)] },
    ],

    async beginCounts() {
      await database.query(
        `UPDATE sluice.offsets SET
           copied_below = next_offset, received = 0, stored = 0, empty = 0, filtered = 0, skipped = 0, duplicate = 0, dead_lettered = 0, lost = 0
         WHERE writer = $1 AND log = ANY($2::int[])`,
        [writer, logNumbers.filter(number => number !== undefined)],
      )
    },

    async endHolders(ranges) {
      // A row's xmax is the transaction that holds it, and that transaction holds a lock on its own id.
      const ended = await database.query(
        `SELECT pg_terminate_backend(activity.pid)
         FROM sluice.offsets
         JOIN pg_locks AS held ON held.locktype = 'transactionid' AND held.granted AND held.transactionid = offsets.xmax
         JOIN pg_stat_activity AS activity ON activity.pid = held.pid
         WHERE ${isOurs}
           AND starts_with(activity.application_name, $5) AND activity.pid <> pg_backend_pid()
           AND activity.xact_start < clock_timestamp() - $4 * interval '1 millisecond'`,
        [...rangeKeysOf(ranges), lockTimeoutMs, names.writer],
      )
      return ended.length
    },
  }
}

function sumOf(some: MessageCounts, more: MessageCounts): MessageCounts {
  const sum = { ...some }
  for (const name of countNames) sum[name] += more[name]
  return sum
}
