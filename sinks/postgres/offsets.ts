// The offsets protocol: where each partition goes on is kept beside the rows, and moves on in their transaction.

import type { Database, SqlValue, Step, Transaction } from '../../config/postgres/database.ts'
import { DatabaseError } from '../../config/postgres/database.ts'
import type { Range } from '../../transformers/record-batch.ts'
import type { MessageCounts, Positions } from '../sink.ts'
import { SinkError } from '../sink-error.ts'
import type { ConnectionNames } from './connections.ts'

export interface Offsets {
  /** By partition, where the store says to go on. One that it does not know is absent, and may be begun by `prepare`. */
  positions(partitions: readonly number[]): Promise<Positions>
  /**
   * Makes the rows of partitions that the store does not know: they go on where the range begins. On its own and before the
   * transaction, so that whoever holds a partition holds a row that others can see; what it says is true with or without the batch.
   *
   * A row that was there once is never made again unless `positions` has found that it is not: a store that has gone back to before it
   * would take the rows below the range for stored.
   */
  prepare(ranges: readonly Range[], cut: AbortSignal): Promise<void>
  /**
   * Locks the ranges' partitions, in their order, until the transaction ends.
   *
   * @returns by partition, the offset below which everything is settled
   * @throws SinkError (fenced) where a range begins above it
   */
  lock(transaction: Transaction, ranges: readonly Range[]): Promise<Positions>
  /** Moves the partitions on to where the ranges end, and adds the counts, one for each range. */
  advance(transaction: Transaction, ranges: readonly Range[], counts: readonly MessageCounts[]): Promise<void>
  /** Both as steps known beforehand, which fail (22012) where a partition does not go on where its range begins. */
  steps(ranges: readonly Range[], counts: readonly MessageCounts[]): Step[]
  /** Asked after a lock timed out: ends the connections of this same writer that hold the partitions. Returns how many. */
  endHolders(ranges: readonly Range[]): Promise<number>
}

interface OffsetRow extends Record<string, number | bigint> {
  partition: number
  next_offset: bigint
}

export interface OffsetsOf {
  readonly writer: string
  readonly log: number
  readonly names: ConnectionNames
  readonly lockTimeoutMs: number
}

/** One statement, and still in order: the rows are locked as they leave the sort, long after the time limit was set. */
const lockSql = `
  WITH settings AS MATERIALIZED (SELECT set_config('lock_timeout', $4, true), set_config('application_name', $5, true))
  SELECT offsets.partition, offsets.next_offset FROM sluice.offsets, settings
  WHERE writer = $1 AND log = $2 AND partition = ANY ($3::int[])
  ORDER BY partition FOR UPDATE OF offsets`

/** Divides by zero where not every partition goes on where its range begins, so that the steps behind it come to nothing. */
const advanceSql = (guard: boolean) => `
  WITH advanced AS (
    UPDATE sluice.offsets SET
      next_offset = greatest(next_offset, batch.to_offset), received = offsets.received + batch.received,
      stored = offsets.stored + batch.stored, empty = offsets.empty + batch.empty,
      filtered = offsets.filtered + batch.filtered, skipped = offsets.skipped + batch.skipped,
      duplicate = offsets.duplicate + batch.duplicate, dead_lettered = offsets.dead_lettered + batch.dead_lettered,
      lost = offsets.lost + batch.lost
    FROM unnest($3::int[], $4::bigint[], $5::bigint[], $6::int[], $7::int[], $8::int[], $9::int[], $10::bigint[], $11::int[], $12::int[], $13::bigint[])
      AS batch (partition, from_offset, to_offset, received, stored, empty, filtered, skipped, duplicate, dead_lettered, lost)
    WHERE writer = $1 AND log = $2 AND offsets.partition = batch.partition ${guard ? 'AND next_offset = batch.from_offset' : ''}
    RETURNING 1
  )
  SELECT ${guard ? '1 / (count(*) = cardinality($3::int[]))::int' : 'count(*)'} FROM advanced`

export function openOffsets(database: Database, { writer, log, names, lockTimeoutMs }: OffsetsOf): Offsets {
  /** Partitions that had their row, whatever may have become of it. */
  const prepared = new Set<number>()
  const partitionsOf = (ranges: readonly Range[]) => ranges.map(range => range.partition)
  const positionsOf = (rows: readonly OffsetRow[]) => new Map(rows.map(row => [row.partition, Number(row.next_offset)]))
  const lockValues = (ranges: readonly Range[]) => [writer, log, partitionsOf(ranges), String(lockTimeoutMs), names.sink]

  function advanceValues(ranges: readonly Range[], counts: readonly MessageCounts[]): SqlValue[] {
    return [
      writer,
      log,
      partitionsOf(ranges),
      ranges.map(range => range.from),
      ranges.map(range => range.to),
      counts.map(count => count.received),
      counts.map(count => count.stored),
      counts.map(count => count.empty),
      counts.map(count => count.filtered),
      counts.map(count => count.skipped),
      counts.map(count => count.duplicate),
      counts.map(count => count.deadLettered),
      counts.map(count => count.lost),
    ]
  }

  return {
    async positions(partitions) {
      const positions = positionsOf(
        await database.query<OffsetRow>(
          'SELECT partition, next_offset FROM sluice.offsets WHERE writer = $1 AND log = $2 AND partition = ANY ($3::int[])',
          [writer, log, partitions],
        ),
      )
      for (const partition of partitions) {
        if (positions.has(partition)) prepared.add(partition)
        else prepared.delete(partition)
      }
      return positions
    },

    async prepare(ranges, cut) {
      const missing = ranges.filter(range => !prepared.has(range.partition))
      if (missing.length === 0) return
      const settings = {
        sql: `SELECT set_config('lock_timeout', $1, true), set_config('application_name', $2, true)`,
        values: [String(lockTimeoutMs), names.sink],
      }
      const insert = {
        sql: `INSERT INTO sluice.offsets (writer, log, partition, next_offset)
         SELECT $1, $2, partition, next_offset FROM unnest($3::int[], $4::bigint[]) AS missing (partition, next_offset)
         ORDER BY partition
         ON CONFLICT DO NOTHING`,
        values: [writer, log, partitionsOf(missing), missing.map(range => range.from)],
      }
      await database.run([settings, insert], cut)
      for (const { partition } of missing) prepared.add(partition)
    },

    async lock(transaction, ranges) {
      const next = positionsOf(await transaction.query<OffsetRow>(lockSql, lockValues(ranges)))
      for (const { partition, from } of ranges) {
        const settled = next.get(partition)
        if (settled === undefined)
          throw new SinkError('fenced', `the store no longer knows partition ${partition}: ask for its position again`)
        if (from > settled) {
          throw new SinkError('fenced', `partition ${partition}: the batch begins at offset ${from} and the store goes on at ${settled}`)
        }
      }
      return next
    },

    async advance(transaction, ranges, counts) {
      await transaction.query(advanceSql(false), advanceValues(ranges, counts))
    },

    steps: (ranges, counts) => [
      { sql: lockSql, values: lockValues(ranges) },
      { sql: advanceSql(true), values: advanceValues(ranges, counts) },
    ],

    async endHolders(ranges) {
      // A row's xmax is the transaction that holds it, and that transaction holds a lock on its own id.
      const ended = await database.query(
        `SELECT pg_terminate_backend(activity.pid)
         FROM sluice.offsets
         JOIN pg_locks AS held ON held.locktype = 'transactionid' AND held.granted AND held.transactionid = offsets.xmax
         JOIN pg_stat_activity AS activity ON activity.pid = held.pid
         WHERE writer = $1 AND log = $2 AND partition = ANY ($3::int[])
           AND starts_with(activity.application_name, $5) AND activity.pid <> pg_backend_pid()
           AND activity.xact_start < clock_timestamp() - $4 * interval '1 millisecond'`,
        [writer, log, partitionsOf(ranges), lockTimeoutMs, names.writer],
      )
      return ended.length
    },
  }
}

/** True for 55P03, lock_not_available: a lock was not had in time. */
export function isLockTimeout(error: unknown): error is DatabaseError {
  return error instanceof DatabaseError && error.sqlState === '55P03'
}
