// The audit of an InfluxDB store: lists the rows of a log in the order of positions, for which there is no index, so it scans all measurements. The
// server streams the rows series by series; this process keeps the counters of a slice, and the longest series. Rows with all their columns are read
// window by window, since the fields of a point come one after the other: this process keeps the points of a window.

import { printJson } from '../../transformers/json/canonical.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { unitsDown } from '../../transformers/time-units.ts'
import type { StoreAudit, Whereabouts } from '../audit.ts'
import { textOf } from '../contents.ts'
import { type AddRow, openScanAudit } from '../scan-audit.ts'
import { packedPosition } from '../sink.ts'
import {
  type Connection,
  cell,
  columnIndex,
  exactText,
  type FluxTableMetaData,
  fluxFrom,
  fluxText,
  fluxWhere,
  nsOf,
  ownColumns,
  type Row,
  typeOf,
} from './connection.ts'
import { physicalName } from './encode.ts'
import type { SinkOptions } from './options.ts'
import { documentEntries, isNoDocumentText, msOf, ordinalOf, restNsOf, restUsOf } from './points.ts'
import { type FieldValue, readErasures, readFormats, readLogs, replayedOffsets, valueOf } from './registry.ts'

const bothFields = ' |> filter(fn: (r) => r._field == "/index" or r._field == "/position")'
/** The columns of a pivoted answer besides measurement and tags: result, table, start, stop, time, position and index. */
const pivotedColumns = 7

/** A point, in the measurement of a format. */
interface Point {
  readonly format: string
  readonly tags: Readonly<Record<string, string>>
  readonly ns: bigint
  readonly fields: Map<string, FieldValue>
}

/** @param connection the caller closes it */
export function openAudit(connection: Connection, _options: SinkOptions): StoreAudit {
  async function scan(add: AddRow<undefined>): Promise<void> {
    const pairs = pairedRows((position, index) => add(BigInt(position), ordinalOf(Number(index)), undefined))
    for await (const rows of connection.query(fluxFrom(connection.bucket) + bothFields)) for (const row of rows) pairs.add(row)
    for (const tags of pairs.finish()) await scanSeries(tags, add)
  }

  /** Reads a series again that was written to while its two fields were read, so that they cannot be paired by their order. */
  async function scanSeries(tags: Readonly<Record<string, string>>, add: AddRow<undefined>): Promise<void> {
    const paired = '|> pivot(rowKey: ["_time"], columnKey: ["_field"], valueColumn: "_value")'
    for await (const rows of connection.query(`${fluxFrom(connection.bucket)}${fluxWhere(tags)}${bothFields} ${paired}`)) {
      for (const row of rows) {
        const [position, index] = [cell(row, '/position'), cell(row, '/index')]
        // Another series may have these tags and further ones.
        const isIt = Object.keys(tags).length === row.tableMeta.columns.length - pivotedColumns
        if (isIt && position && index) add(BigInt(position), ordinalOf(Number(index)), undefined)
      }
    }
  }

  async function scanContents(add: AddRow<Point>): Promise<void> {
    const formats = new Map((await readFormats(connection)).map(({ format }) => [physicalName(format), format]))
    let widthNs = firstWindowNs
    for (let startNs = await nextNs(connection, undefined); startNs !== undefined; ) {
      const stopNs = startNs + widthNs
      const { points, bytes } = await readWindow(connection, formats, { startNs, stopNs })
      if (bytes > windowBytesMax && widthNs > 1n) {
        widthNs /= 2n
        continue
      }
      for (const point of points) {
        const [position, index] = [point.fields.get('/position'), point.fields.get('/index')]
        // Others are not sluice's.
        if (typeof position === 'bigint' && typeof index === 'bigint') add(position, ordinalOf(Number(index)), point)
      }
      if (bytes < windowBytesMax / 4 && widthNs <= windowNsMax / 2n) widthNs *= 2n
      startNs = points.length > 0 ? stopNs : await nextNs(connection, stopNs)
    }
  }

  return openScanAudit<Point | undefined>({
    logs: () => readLogs(connection),
    erasures: () => readErasures(connection),
    scan: (add, _ranges, contents) => (contents ? scanContents(add) : scan(add)),
    textOf: point => pointText(point!),
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

/** A day. The next windows are wider while they have few bytes. */
const firstWindowNs = 86_400_000_000_000n
/** No window is longer: rows end in 2255, and InfluxDB's times in 2262, so the end of a window is always one of these. */
const windowNsMax = 256n * firstWindowNs
/** About how many bytes the points of a window may have. */
const windowBytesMax = 32 * 1024 * 1024
const fieldBytes = 100

/** The time of the first point from a time on; undefined if there is none. */
async function nextNs(connection: Connection, startNs: bigint | undefined): Promise<bigint | undefined> {
  const from = fluxFrom(connection.bucket, startNs === undefined ? {} : { startNs })
  // The first of each series, which the storage knows; rows of several series have no order.
  const firsts = `${from}${fluxWhere({ _field: '/position' })} |> first() |> keep(columns: ["_time"])`
  const first = `${firsts} |> group() |> sort(columns: ["_time"]) |> limit(n: 1)`
  for await (const [row] of connection.query(first)) if (row !== undefined) return nsOf(cell(row, '_time')!)
  return undefined
}

const recordTexts = ['protocol', 'stringValue', 'dataValue'].map(field => `r._field == ${fluxText(field)}`).join(' or ')
const isRecord = `r._measurement == ${fluxText(senmlFormat)}`

/**
 * All fields of the points in a range, in results named after what is right in them. Texts with a line end are changed in CSV; and in a series Flux
 * 0.196 loses an empty text that comes right after equal ones, and moves up those that follow.
 */
function windowFlux(points: string): string {
  const without = ' |> drop(columns: ["_start", "_stop"])'
  const results = {
    numbers: ` |> filter(fn: (r) => not (${isRecord} and (${recordTexts})) and ${isNoDocumentText})${without}`,
    texts: ` |> filter(fn: (r) => r._value =~ /^[^\\r\\n]+$/)${without}`,
    empty: ` |> filter(fn: (r) => r._value == "")${without}`,
    exact: ` |> filter(fn: (r) => r._value =~ /[\\r\\n]/)${exactText}${without}`,
  }
  return `import "strings"\n${Object.entries(results)
    .map(([name, of]) => `${points}${of} |> yield(name: "${name}")`)
    .join('\n')}`
}

interface Window {
  /** Incomplete if there are more bytes than a window may have. */
  readonly points: readonly Point[]
  readonly bytes: number
}

/** Stops when a window of more than a nanosecond becomes too large. */
async function readWindow(
  connection: Connection,
  formats: ReadonlyMap<string, string>,
  range: { startNs: bigint; stopNs: bigint },
): Promise<Window> {
  const points = new Map<string, Point>()
  let bytes = 0
  let meta: FluxTableMetaData | undefined
  let table = ''
  let series = ''
  let tags: Record<string, string> = {}
  let result = ''
  for await (const rows of connection.query(windowFlux(fluxFrom(connection.bucket, range)))) {
    for (const row of rows) {
      // Each table has the points of one field of one series.
      if (row.tableMeta !== meta || cell(row, 'table') !== table || cell(row, 'result') !== result) {
        ;[meta, table, result] = [row.tableMeta, cell(row, 'table')!, cell(row, 'result')!]
        tags = tagsOf(row)
        series = JSON.stringify(tags)
      }
      const isText = typeOf(row, '_value') === 'string'
      if (isText === (result === 'numbers')) continue
      const time = cell(row, '_time')!
      let point = points.get(series + time)
      if (point === undefined) {
        const { _measurement: measurement = '' } = tags
        points.set(series + time, (point = { format: formats.get(measurement) ?? measurement, tags, ns: nsOf(time), fields: new Map() }))
        bytes += series.length + fieldBytes
      }
      const value = valueOf(row)
      point.fields.set(cell(row, '_field')!, value)
      bytes += fieldBytes + (typeof value === 'string' ? value.length : 0)
    }
    if (bytes > windowBytesMax && range.stopNs - range.startNs > 1n) break
  }
  return { points: [...points.values()], bytes }
}

/** With the measurement. */
function tagsOf({ tableMeta, values }: Row): Record<string, string> {
  return Object.fromEntries(
    tableMeta.columns.filter(({ label }) => !ownColumns.has(label) && label !== 'exact').map(({ label, index }) => [label, values[index]!]),
  )
}

function pointText({ format, tags, ns, fields }: Point): string {
  const indexField = Number(fields.get('/index'))
  const timeUs = timeUsOf(ns, fields.get('/position') as bigint, indexField)
  const origin = {
    index: ordinalOf(indexField),
    channel: tags['channel'] ?? '',
    subtopic: tags['subtopic'] ?? '',
    publisher: tags['publisher'] ?? '',
  }
  if (format === senmlFormat) {
    const data = fields.get('dataValue')
    return textOf(format, {
      ...origin,
      protocol: fields.get('protocol'),
      name: tags['name'] ?? '',
      unit: tags['unit'],
      time: timeUs,
      value: fields.get('value'),
      string_value: fields.get('stringValue'),
      bool_value: fields.get('boolValue'),
      data_value: typeof data === 'string' ? Buffer.from(data, 'base64url') : data,
      sum: fields.get('sum'),
      update_time: fields.get('updateTime'),
    })
  }
  const created = fields.get('/created')
  return textOf(format, {
    ...origin,
    protocol: fields.get('/protocol'),
    created: typeof created === 'bigint' && unitsDown(created, 1000n) === timeUs ? created : `${created}, but at ${ns}`,
    payload: printJson(Object.fromEntries(documentEntries(fields))),
  })
}

/** The time of a row by its point and `/index`; a text if the point is not where the sink puts the row. */
function timeUsOf(ns: bigint, position: bigint, indexField: number): bigint | string {
  const ms = unitsDown(ns, 1_000_000n)
  const rest = restNsOf(Number(position >> 56n), Number((position >> 44n) & 0xfffn), Number(position & 0xfff_ffff_ffffn))
  return ns - ms * 1_000_000n === BigInt(rest) ? ms * 1000n + BigInt(restUsOf(indexField)) : `at ${ns}`
}
