// The audit of an InfluxDB store: what its measurements hold of a log, counted over a scan, since nothing is indexed by position.
//
// The rows of a partition lie in the order of their series and not of their offsets. So they are counted into arrays over a slice of the
// asked offsets, several partitions in one scan where they fit into a slice together; a range of more slices than one is scanned once for each.
// Memory here is that of a slice, and of the longest series; the server streams.

import { senmlFormat } from '../../transformers/record-batch.ts'
import type { AuditedLog, AuditedMessage, AuditedRange, StoreAudit, Whereabouts } from '../audit.ts'
import { limits } from '../sink.ts'
import { cell } from './annotated-csv.ts'
import type { Connection } from './connection.ts'
import { fluxFrom, fluxWhere } from './flux.ts'
import { readLogs } from './logs.ts'
import type { SinkOptions } from './options.ts'
import { pairedRows } from './paired-rows.ts'
import { physicalName } from './physical-name.ts'
import { packedPosition } from './position-text.ts'
import { replayedOffsets } from './replays.ts'
import { RowCounts } from './row-counts.ts'

/** A partition of usual size is one scan: 48 MB of counters here. */
const sliceOffsets = 6_000_000
/** The low bits of a packed position. */
const offsetMask = 0xfff_ffff_ffffn
const bothFields = ' |> filter(fn: (r) => r._field == "/index" or r._field == "/position")'
/** Beside the measurement and the tags: the annotation, result, table, start, stop, time, position and index. */
const pivotedColumns = 8

type Add = (position: bigint, index: number) => void

/** @param connection stays the caller's */
export function openAudit(connection: Connection, _options: SinkOptions): StoreAudit {
  /** Ranges that were counted with another one, and not asked for yet. */
  const ahead = new Map<string, RowCounts>()

  /** Counts the rows of a range, and in the same scan those of ranges that are asked for next: of all that there is room for. */
  async function countRows(log: number, range: AuditedRange, after: readonly AuditedRange[]): Promise<RowCounts> {
    const known = ahead.get(nameOf(log, range))
    if (known !== undefined) {
      ahead.delete(nameOf(log, range))
      return known
    }
    ahead.clear()
    const counts = new RowCounts(range.from, range.to)
    const byPartition = new Map([[packedPosition(log, range.partition, 0), counts]])
    const next = new Map<string, RowCounts>()
    let room = sliceOffsets - (range.to - range.from)
    for (const other of after) {
      const first = packedPosition(log, other.partition, 0)
      room -= other.to - other.from
      if (room < 0 || byPartition.has(first)) break
      const others = new RowCounts(other.from, other.to)
      byPartition.set(first, others)
      next.set(nameOf(log, other), others)
    }
    await scan((position, index) => {
      const counted = byPartition.get(position & ~offsetMask)
      const offset = Number(position & offsetMask)
      if (counted?.covers(offset) === true) counted.add(offset, index)
    })
    // Only now: who asks while it is being counted, or after it has failed, must not be told of a part.
    for (const [name, counted] of next) ahead.set(name, counted)
    return counts
  }

  async function scan(add: Add): Promise<void> {
    const pairs = pairedRows((position, index) => add(BigInt(position), Number(index)))
    for await (const rows of connection.query(fluxFrom(connection.bucket) + bothFields)) for (const row of rows) pairs.add(row)
    for (const tags of pairs.finish()) await scanSeries(tags, add)
  }

  /** A series that was written to while its two fields were being read, so that they cannot be paired by their order. */
  async function scanSeries(tags: Readonly<Record<string, string>>, add: Add): Promise<void> {
    const paired = '|> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
    for await (const rows of connection.query(`${fluxFrom(connection.bucket)}${fluxWhere(tags)}${bothFields} ${paired}`)) {
      for (const row of rows) {
        const [position, index] = [cell(row, '/position'), cell(row, '/index')]
        // Another series may have these tags and more.
        const isIt = Object.keys(tags).length === row.columns.places.size - pivotedColumns
        if (isIt && position && index) add(BigInt(position), Number(index))
      }
    }
  }

  return {
    async logs() {
      const logs = await readLogs(connection)
      return logs.map(({ number, name, id, writer }): AuditedLog => ({ number, name, id, writer, partitions: new Map() }))
    },

    async *messages(log, partition, from, to, after = []): AsyncGenerator<AuditedMessage> {
      if (log > limits.log || partition > limits.partition) return
      const end = Math.min(to, limits.offset)
      for (let start = from; start < end; start += sliceOffsets) {
        const stop = Math.min(start + sliceOffsets, end)
        const counts = await countRows(log, { partition, from: start, to: stop }, stop === end ? after : [])
        const replayed = await replayedOffsets(connection, log, partition, start, stop)
        for (let offset = start; offset < stop; offset++) {
          const rows = counts.rowsAt(offset)
          if (rows > 0) yield { offset, rows, doubled: counts.doubledAt(offset), replayed: replayed.has(offset) }
        }
      }
    },

    async rowsOf(log, partition, offset, { channel, format, earliestUs, latestUs }: Whereabouts) {
      const range = { startNs: BigInt(earliestUs) * 1000n, stopNs: BigInt(latestUs) * 1000n + 1000n }
      const measurement = format === senmlFormat ? senmlFormat : physicalName(format)
      const where = fluxWhere({ _measurement: measurement, channel, _field: '/position' })
      const isIt = ` |> filter(fn: (r) => r._value == ${packedPosition(log, partition, offset)})`
      let found = 0
      for await (const rows of connection.query(fluxFrom(connection.bucket, range) + where + isIt)) found += rows.length
      return found
    },
  }
}

function nameOf(log: number, { partition, from, to }: AuditedRange): string {
  return `${log}/${partition}/${from}/${to}`
}
