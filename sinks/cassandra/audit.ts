// The audit of a Cassandra store: what its tables hold of a log, in the order of positions, which no key has.
//
// So all tables are read, page by page, and what belongs to the asked range is kept as a number for each row. Where that would be more than fits, the
// range is read in parts: as many times over as it takes, with bounded memory.

import { senmlFormat } from '../../transformers/record-batch.ts'
import type { AuditedLog, AuditedMessage, StoreAudit, Whereabouts } from '../audit.ts'
import { positionHigh, positionLow } from '../sink.ts'
import type { Connection } from './connection.ts'
import { dateBytes } from './date.ts'
import { isSchemaFault } from './errors.ts'
import { readLogs } from './logs.ts'
import type { SinkOptions } from './options.ts'
import { physicalName } from './physical-name.ts'

/** 8 bytes each, twice over while they are sorted. */
const rowsKeptMax = 4_000_000
const dayUs = 86_400_000_000

export interface AuditLimits {
  readonly rowsMax?: number
}

/** @param connection stays the caller's */
export function openAudit(connection: Connection, { bucketDays }: SinkOptions, { rowsMax = rowsKeptMax }: AuditLimits = {}): StoreAudit {
  /** The tables that are there: a format's may have been dropped. */
  async function tables(): Promise<string[]> {
    const there = new Set<string>()
    const all = 'SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?'
    for await (const rows of connection.pages(all, [connection.keyspace])) for (const row of rows) there.add(row['table_name'] as string)
    const names = [senmlFormat]
    for await (const rows of connection.pages(`SELECT table_name FROM ${connection.table('sluice_formats')}`)) {
      for (const row of rows) if (there.has(row['table_name'] as string)) names.push(row['table_name'] as string)
    }
    return names
  }

  /** The rows of `[from, to)` as sorted keys, of as much of it as fits. */
  async function scan(names: readonly string[], first: bigint, from: number, to: number): Promise<{ keys: Float64Array; end: number }> {
    const kept = new KeptRows(from, to, rowsMax)
    for (const name of names) {
      for await (const rows of connection.pages(`SELECT position, "index" FROM ${connection.table(name)}`)) {
        for (const row of rows) {
          const distance = (row['position'] as bigint) - first
          if (distance >= 0n && distance < kept.length) kept.add(Number(distance), row['index'] as number)
        }
      }
    }
    return { keys: kept.sorted(), end: kept.end }
  }

  async function replayed(first: bigint, length: number): Promise<Set<number>> {
    const found = new Set<number>()
    for await (const rows of connection.pages(`SELECT position FROM ${connection.table('sluice_replayed')}`)) {
      for (const row of rows) {
        const distance = (row['position'] as bigint) - first
        if (distance >= 0n && distance < length) found.add(Number(distance))
      }
    }
    return found
  }

  async function* messages(log: number, partition: number, from: number, to: number): AsyncGenerator<AuditedMessage> {
    const names = await tables()
    for (let start = from; start < to; ) {
      const first = packed(log, partition, start)
      const { keys, end } = await scan(names, first, start, to)
      const again = keys.length === 0 ? new Set<number>() : await replayed(first, end - start)
      yield* messagesOf(keys, start, again)
      start = end
    }
  }

  return {
    async logs() {
      const logs = await readLogs(connection)
      return logs.map(({ number, name, id, writer }): AuditedLog => ({ number, name, id, writer, partitions: new Map() }))
    },

    messages,

    async rowsOf(log, partition, offset, { channel, format, earliestUs, latestUs }: Whereabouts) {
      const position = packed(log, partition, offset)
      const scale = format === senmlFormat ? 1n : 1000n
      const [column, table] = format === senmlFormat ? ['time_us', senmlFormat] : ['created', physicalName(format)]
      const earliest = BigInt(earliestUs) * scale
      const latest = BigInt(latestUs) * scale + (scale - 1n)
      const days = `SELECT day FROM ${connection.table('sluice_channel_days')} WHERE channel = ? AND format = ? AND day >= ? AND day <= ?`
      const count = `SELECT count(*) AS rows FROM ${connection.table(table)}
        WHERE channel = ? AND day = ? AND ${column} >= ? AND ${column} <= ? AND position = ? ALLOW FILTERING`
      let rows = 0
      try {
        for await (const page of connection.pages(days, [channel, format, bucketOf(earliestUs), bucketOf(latestUs)])) {
          for (const { day } of page) {
            const [found] = await connection.query(count, [channel, day, earliest, latest, position], {
              consistency: connection.levels.rows,
            })
            rows += Number(found?.['rows'] ?? 0)
          }
        }
      } catch (error) {
        // A format's table that was dropped has no rows.
        if (format === senmlFormat || !isSchemaFault(error)) throw error
      }
      return rows
    },
  }

  function bucketOf(timeUs: number): Buffer {
    return dateBytes(Math.floor(Math.floor(timeUs / dayUs) / bucketDays) * bucketDays)
  }
}

/** An index is the ordinal of a record in a message of at most some hundred thousand bytes. */
const indexRoom = 2 ** 20

/** Rows as `distance of the offset × 2^20 + index`; of a range that becomes shorter when there are too many. */
class KeptRows {
  readonly #from: number
  readonly #most: number
  #keys = new Float64Array(1024)
  #count = 0
  /** How many offsets the range has. */
  length: number

  constructor(from: number, to: number, most: number) {
    this.#from = from
    this.#most = most
    this.length = to - from
  }

  get end(): number {
    return this.#from + this.length
  }

  add(distance: number, index: number): void {
    if (index < 0 || index >= indexRoom)
      throw new RangeError(`a row at offset ${this.#from + distance} has the index ${index}, which no sink writes`)
    if (this.#count === this.#keys.length) this.#makeRoom()
    if (distance < this.length) this.#keys[this.#count++] = distance * indexRoom + index
  }

  sorted(): Float64Array {
    return this.#keys.subarray(0, this.#count).sort()
  }

  /** Twice as much, or the nearer half of the offsets that have rows; a single message is kept whole, however many rows it has. */
  #makeRoom(): void {
    if (this.#count >= this.#most) {
      const keys = this.sorted()
      const middle = Math.floor(keys[keys.length >> 1]! / indexRoom)
      if (middle > 0) {
        this.length = middle
        this.#count = keys.findIndex(key => key >= middle * indexRoom)
        return
      }
    }
    const larger = new Float64Array(this.#keys.length * 2)
    larger.set(this.#keys)
    this.#keys = larger
  }
}

function* messagesOf(keys: Float64Array, from: number, replayed: ReadonlySet<number>): Generator<AuditedMessage> {
  for (let at = 0; at < keys.length; ) {
    const distance = Math.floor(keys[at]! / indexRoom)
    const first = at
    let doubled = 0
    for (at++; at < keys.length && Math.floor(keys[at]! / indexRoom) === distance; at++) if (keys[at] === keys[at - 1]) doubled++
    yield { offset: from + distance, rows: at - first, doubled, replayed: replayed.has(distance) }
  }
}

function packed(log: number, partition: number, offset: number): bigint {
  return (BigInt(positionHigh(log, partition, offset)) << 32n) | BigInt(positionLow(offset))
}
