// The audit of an InfluxDB store: what its measurements hold of a log, counted over a scan, since nothing is indexed by position.
//
// The rows of a partition lie in the order of their series and not of their offsets. So they are counted into arrays over a slice of the
// asked offsets, and a range of more slices than one is scanned once for each. Memory here is that of a slice, and of the longest series; the
// server streams.

import { senmlFormat } from '../../transformers/record-batch.ts'
import type { AuditedLog, AuditedMessage, StoreAudit, Whereabouts } from '../audit.ts'
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
/** Beside the measurement and the tags: the annotation, result, table, start, stop, time, position and index. */
const pivotedColumns = 8

/** @param connection stays the caller's */
export function openAudit(connection: Connection, _options: SinkOptions): StoreAudit {
  async function countRows(log: number, partition: number, from: number, to: number): Promise<RowCounts> {
    const counts = new RowCounts(from, to)
    const first = packedPosition(log, partition, 0)
    const pairs = pairedRows((position, index) => {
      const offset = Number(BigInt(position) - first)
      if (offset >= from && offset < to) counts.add(offset, Number(index))
    })
    const both = ' |> filter(fn: (r) => r._field == "/index" or r._field == "/position")'
    for await (const rows of connection.query(fluxFrom(connection.bucket) + both)) for (const row of rows) pairs.add(row)
    for (const tags of pairs.finish()) await countSeries(counts, tags, first)
    return counts
  }

  /** A series that was written to while its two fields were being read, so that they cannot be paired by their order. */
  async function countSeries(counts: RowCounts, tags: Readonly<Record<string, string>>, first: bigint): Promise<void> {
    const both = ' |> filter(fn: (r) => r._field == "/index" or r._field == "/position")'
    const paired = '|> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
    for await (const rows of connection.query(`${fluxFrom(connection.bucket)}${fluxWhere(tags)}${both} ${paired}`)) {
      for (const row of rows) {
        const [position, index] = [cell(row, '/position'), cell(row, '/index')]
        // Another series may have these tags and more.
        const isIt = Object.keys(tags).length === row.columns.places.size - pivotedColumns
        if (!isIt || !position || !index) continue
        const offset = Number(BigInt(position) - first)
        if (counts.covers(offset)) counts.add(offset, Number(index))
      }
    }
  }

  return {
    async logs() {
      const logs = await readLogs(connection)
      return logs.map(({ number, name, id, writer }): AuditedLog => ({ number, name, id, writer, partitions: new Map() }))
    },

    async *messages(log, partition, from, to): AsyncGenerator<AuditedMessage> {
      if (log > limits.log || partition > limits.partition) return
      const end = Math.min(to, limits.offset)
      for (let start = from; start < end; start += sliceOffsets) {
        const stop = Math.min(start + sliceOffsets, end)
        const counts = await countRows(log, partition, start, stop)
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
