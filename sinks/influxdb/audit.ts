// The audit of an InfluxDB store: lists the rows of a log in the order of positions, for which there is no index, so it scans all measurements. The
// server streams the rows series by series; this process keeps the counters of a slice, and the longest series.

import { senmlFormat } from '../../transformers/record-batch.ts'
import type { StoreAudit, Whereabouts } from '../audit.ts'
import { type AddRow, openScanAudit } from '../scan-audit.ts'
import { packedPosition } from '../sink.ts'
import { type Connection, cell, columnIndex, type FluxTableMetaData, fluxFrom, fluxWhere, ownColumns, type Row } from './connection.ts'
import { physicalName } from './encode.ts'
import type { SinkOptions } from './options.ts'
import { msOf, ordinalOf } from './points.ts'
import { readLogs, replayedOffsets } from './registry.ts'

const bothFields = ' |> filter(fn: (r) => r._field == "/index" or r._field == "/position")'
/** The columns of a pivoted answer besides measurement and tags: result, table, start, stop, time, position and index. */
const pivotedColumns = 7

/** @param connection the caller closes it */
export function openAudit(connection: Connection, _options: SinkOptions): StoreAudit {
  async function scan(add: AddRow): Promise<void> {
    const pairs = pairedRows((position, index) => add(BigInt(position), ordinalOf(Number(index))))
    for await (const rows of connection.query(fluxFrom(connection.bucket) + bothFields)) for (const row of rows) pairs.add(row)
    for (const tags of pairs.finish()) await scanSeries(tags, add)
  }

  /** Reads a series again that was written to while its two fields were read, so that they cannot be paired by their order. */
  async function scanSeries(tags: Readonly<Record<string, string>>, add: AddRow): Promise<void> {
    const paired = '|> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
    for await (const rows of connection.query(`${fluxFrom(connection.bucket)}${fluxWhere(tags)}${bothFields} ${paired}`)) {
      for (const row of rows) {
        const [position, index] = [cell(row, '/position'), cell(row, '/index')]
        // Another series may have these tags and further ones.
        const isIt = Object.keys(tags).length === row.tableMeta.columns.length - pivotedColumns
        if (isIt && position && index) add(BigInt(position), ordinalOf(Number(index)))
      }
    }
  }

  return openScanAudit({
    logs: () => readLogs(connection),
    scan,
    replayed: (log, partition, from, to) => replayedOffsets(connection, log, partition, from, to),

    async rowsOf(log, partition, offset, { channel, format, earliestUs, latestUs }: Whereabouts) {
      const range = { startNs: BigInt(msOf(earliestUs)) * 1_000_000n, stopNs: BigInt(msOf(latestUs) + 1) * 1_000_000n }
      const measurement = format === senmlFormat ? senmlFormat : physicalName(format)
      const where = fluxWhere({ _measurement: measurement, channel, _field: '/position' })
      const isIt = ` |> filter(fn: (r) => r._value == ${packedPosition(log, partition, offset)})`
      let found = 0
      for await (const rows of connection.query(fluxFrom(connection.bucket, range) + where + isIt)) found += rows.length
      return found
    },
  })
}

interface PairedRows {
  /** Adds a row of either field. The rows of a series and field come together, in the order of their times. */
  add(row: Row): void
  /** @returns the series, by measurement and tags, whose two fields have different numbers of points; `give` was not called for these */
  finish(): Record<string, string>[]
}

interface Series {
  readonly tags: Record<string, string>
  readonly values: { readonly '/index': string[]; readonly '/position': string[] }
}

/**
 * Pairs the two integers of each point, which come one after the other: all indexes of a series, then all its positions. A `pivot` on the server does
 * the same, but takes several times as long if there are many series.
 *
 * @param give called for each point of a series that is complete
 */
export function pairedRows(give: (position: string, index: string) => void): PairedRows {
  /** Series whose other field has not come, or not completely. Usually two: one is complete only when the next one begins. */
  const waiting = new Map<string, Series>()
  let meta: FluxTableMetaData | undefined
  let names: readonly (readonly [name: string, column: number])[] = []
  let [table, field, value] = [-1, -1, -1]
  let tableBefore = ''
  let series: Series | undefined
  let values: string[] = []

  function settle(): void {
    for (const [key, { values }] of waiting) {
      const [positions, indexes] = [values['/position'], values['/index']]
      if (positions.length === 0 || positions.length !== indexes.length) continue
      for (let at = 0; at < positions.length; at++) give(positions[at]!, indexes[at]!)
      waiting.delete(key)
    }
  }

  function begin(row: Row): void {
    const tags = Object.fromEntries(names.map(([name, column]) => [name, row.values[column]!]))
    const key = JSON.stringify(tags)
    series = waiting.get(key)
    if (series === undefined) {
      settle()
      series = { tags, values: { '/index': [], '/position': [] } }
      waiting.set(key, series)
    }
    values = series.values[row.values[field] as '/index' | '/position']
  }

  return {
    add(row) {
      const { tableMeta } = row
      if (tableMeta !== meta) {
        meta = tableMeta
        names = tableMeta.columns.map(({ label, index }) => [label, index] as const).filter(([name]) => !ownColumns.has(name))
        ;[table, field, value] = ['table', '_field', '_value'].map(name => columnIndex(tableMeta, name)!) as [number, number, number]
        tableBefore = ''
      }
      if (row.values[table] !== tableBefore) {
        tableBefore = row.values[table]!
        begin(row)
      }
      values.push(row.values[value]!)
    },
    finish() {
      settle()
      return [...waiting.values()].map(({ tags }) => tags)
    },
  }
}
