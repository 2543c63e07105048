// Builds the queries of the InfluxDB reader in Flux, from fixed text and escaped literals. Pure.
//
// A row is found by one field of its point, since the storage compares one field at a time: the field of the filter, or the position, which every
// point has. The other fields are read only for rows that are needed. `group()` comes directly after the filter, where the storage itself merges the
// series: otherwise each series is a table, which costs more than its rows.

import { exactText, fluxFrom, fluxOf, fluxText, fluxWhere, type Range } from '../../sinks/influxdb/connection.ts'
import { physicalName } from '../../sinks/influxdb/encode.ts'
import { isDocumentText, isNoDocumentText, typeEnds } from '../../sinks/influxdb/points.ts'
import { doubleOf } from '../../transformers/json/canonical.ts'
import { type Comparator, type Direction, type Filter, type PayloadFilter, senmlFormat } from '../reader.ts'
import { millisecond, nsPerMs, type Span } from './windows.ts'

/** A foreign topic may have this channel, but hardly a message in the one millisecond that is read. */
const noChannel = '-'

/** Tags of a point, as rows and groups have them; an empty one means that the tag is missing. */
export interface SeriesTags {
  readonly publisher?: string
  readonly subtopic?: string
  readonly name?: string
  readonly unit?: string
}

/** Rows to read: of the filter's series, or of the series with these tags. */
export interface RowRange extends Span {
  readonly tags?: SeriesTags
  /** Only this part of the range. */
  readonly part?: Required<Range>
}

/** The range, or its part, in nanoseconds. */
export function nanosecondsOf({ startMs, endMs, part }: RowRange): Required<Range> {
  return part ?? { startNs: BigInt(startMs) * nsPerMs, stopNs: BigInt(endMs) * nsPerMs }
}

/** The measurement that holds the rows of a format. */
export function measurementOf(format: string): string {
  return format === senmlFormat ? senmlFormat : physicalName(format)
}

/** The points of a filter in a span that match the finder. */
function found(bucket: string, filter: Filter, finder: Finder, span: Span, tags?: SeriesTags): string {
  return `${candidates(bucket, filter, finder, span, tags)}${finder.rowFilter}`
}

/** The points that match as far as the storage can compare; where Flux compares the rest, they may be more. */
function candidates(bucket: string, filter: Filter, finder: Finder, span: Span, tags?: SeriesTags): string {
  return `${pointsOf(bucket, filter, span, tags)} |> filter(fn: (r) => r._field == ${fluxText(finder.field)})${finder.filter}`
}

/** The filters that the tags of a series decide. */
type SeriesOf = Pick<Filter, 'channel' | 'format'> & Partial<Pick<Filter, 'publisher' | 'subtopic' | 'name' | 'unit'>>

/** The filter always contains channel and measurement. */
function pointsOf(bucket: string, filter: SeriesOf, range: RowRange, tags: SeriesTags = {}): string {
  const { channel, format, publisher, subtopic, name, unit } = filter
  const seriesFilter = tagged(channel, { publisher, subtopic, name, unit, ...tags })
  return `${fluxFrom(bucket, nanosecondsOf(range))}${fluxOf([measurementOf(format)])}${seriesFilter}`
}

function tagged(channel: string, tags: Readonly<Record<string, string | undefined>>): string {
  const terms = [`r["channel"] == ${fluxText(channel)}`]
  for (const [tag, text] of Object.entries(tags)) {
    // Tags are never empty: such a tag is missing.
    if (text !== undefined) terms.push(text === '' ? `not exists r["${tag}"]` : `r["${tag}"] == ${fluxText(text)}`)
  }
  return ` |> filter(fn: (r) => ${terms.join(' and ')})`
}

/** The storage knows the first and last point of several series together. If Flux filters rows, these come one series after another. */
function endOf({ rowFilter }: Finder, end: 'first' | 'last'): string {
  return `${rowFilter === '' ? '' : ' |> sort(columns: ["_time"])'} |> ${end}()`
}

/** Returns no row, but fails if the bucket is missing or may not be read. */
export function selectNothing(bucket: string): string {
  return `${pointsOf(bucket, { channel: noChannel, format: senmlFormat }, millisecond(0))} |> limit(n: 1)`
}

/** For each finder, the time of the first point in the direction that may match. */
export function selectFirst(bucket: string, filter: Filter, finders: readonly Finder[], span: Span, direction: Direction): string {
  const first = ` |> group() |> ${direction === 'desc' ? 'last' : 'first'}() |> keep(columns: ["_time"])`
  return yields(finders.map(finder => candidates(bucket, filter, finder, span) + first))
}

const seriesColumns = '"publisher", "subtopic", "name", "unit"'

/** The times of the first `limit` points in the direction. */
export function selectTimes(
  bucket: string,
  filter: Filter,
  finders: readonly Finder[],
  span: Span,
  { direction, limit }: { direction: Direction; limit: number },
): string {
  const first = ` |> group() |> keep(columns: ["_time"]) |> sort(columns: ["_time"], desc: ${direction === 'desc'}) |> limit(n: ${limit})`
  return yields(finders.map(finder => found(bucket, filter, finder, span) + first))
}

/** The times and series of all points. */
export function selectSeries(bucket: string, filter: Filter, finders: readonly Finder[], span: Span): string {
  return yields(finders.map(finder => `${found(bucket, filter, finder, span)} |> keep(columns: ["_time", ${seriesColumns}])`))
}

/** The field `/index`, which has the exact time, of all points in the spans, with their subtopics. */
export function selectIndexes(bucket: string, filter: Filter, spans: readonly Span[]): string {
  const indexes = ` |> filter(fn: (r) => r._field == "/index") |> keep(columns: ["_time", "_value", "subtopic"])`
  return yields(spans.map(span => pointsOf(bucket, filter, span) + indexes))
}

/** The number of points. */
export function selectCount(bucket: string, filter: Filter, finders: readonly Finder[], span: Span): string {
  return yields(finders.map(finder => `${found(bucket, filter, finder, span)} |> group() |> count() |> keep(columns: ["_value"])`))
}

/** For each series of rows, its tags and the time of its newest point. */
export function selectNewest(bucket: string, filter: Filter, finders: readonly Finder[], span: Span): string {
  const series = filter.format === senmlFormat ? '"publisher", "subtopic", "name"' : '"publisher", "subtopic"'
  const [group, kept] = [` |> group(columns: [${series}])`, ` |> keep(columns: ["_time", ${series}])`]
  return yields(finders.map(finder => `${found(bucket, filter, finder, span)}${group}${endOf(finder, 'last')}${kept}`))
}

/** For each measurement and subtopic, the time of the newest point. */
export function selectSubtopics(bucket: string, { channel, publisher }: Pick<Filter, 'channel' | 'publisher'>, span: Span): string {
  const points = `${fluxFrom(bucket, nanosecondsOf(span))}${fluxWhere({ _field: everyPoint.field })}${tagged(channel, { publisher })}`
  return `${points} |> group(columns: ["_measurement", "subtopic"]) |> last() |> keep(columns: ["_time", "_measurement", "subtopic"])`
}

/** Aggregations that the storage computes itself. */
export type StoreAggregate = 'count' | 'sum' | 'min' | 'max'

/**
 * One number for each series and time bucket: `_value`, and `_time`, which is in the bucket. Each aggregation is a result, and has its name.
 */
export function selectBuckets(
  bucket: string,
  filter: Filter,
  finder: Finder,
  span: Span,
  { intervalUs, aggregates }: { intervalUs: number; aggregates: readonly StoreAggregate[] },
): string {
  return aggregates
    .map(
      aggregate =>
        `${found(bucket, filter, finder, span)} |> aggregateWindow(every: ${intervalUs}us, fn: ${aggregate}, createEmpty: false, timeSrc: "_start")` +
        ` |> keep(columns: ["_time", "_value", ${seriesColumns}]) |> yield(name: "${aggregate}")`,
    )
    .join('\n')
}

/** The first or last point of each range, in a result whose name is the range's index. */
export function selectEnds(bucket: string, filter: Filter, finder: Finder, ranges: readonly RowRange[], end: 'first' | 'last'): string {
  return yields(
    ranges.map(range => `${found(bucket, filter, finder, range, range.tags)} |> group()${endOf(finder, end)} |> keep(columns: ["_time"])`),
  )
}

const kept = ` |> keep(columns: ["_time", "_field", "_value", "exact", ${seriesColumns}, "nth", "/nth"])`
const grouped = ' |> group(columns: ["_field"])'
const recordTexts = ['protocol', 'stringValue', 'dataValue']
const isRecordText = recordTexts.map(field => `r._field == ${fluxText(field)}`).join(' or ')
const isNoRecordText = recordTexts.map(field => `r._field != ${fluxText(field)}`).join(' and ')
const isEvenText = 'r._value =~ /^[^\\r\\n]+$/'
const isOddText = 'r._value =~ /^$|[\\r\\n]/'

/** What a line of `selectRows` contains: the first word of its result's name, which is followed by the index of the range. */
export type RowResult = 'fields' | 'odd' | 'empty' | 'exact'

/**
 * All fields of the points in the ranges, except odd texts, of which only the existence is returned. Odd are texts with a line end, which CSV
 * changes, and empty texts: in an array of texts, Flux 0.196 loses an empty text that comes right after equal ones, and moves up the following texts.
 *
 * - `fields`: fields as they are
 * - `odd`: fields with an odd text, without the text
 */
export function selectRows(bucket: string, filter: Filter, ranges: readonly RowRange[]): string {
  const isNoText = filter.format === senmlFormat ? isNoRecordText : isNoDocumentText
  return ranges
    .flatMap((range, at) => {
      const points = pointsOf(bucket, filter, range, range.tags)
      const odd = `${textsOf(points, filter)} |> filter(fn: (r) => ${isOddText})${grouped} |> keep(columns: ["_time"])`
      return [
        resultOf('fields', at, `${points} |> filter(fn: (r) => (${isNoText}) or ${isEvenText})${grouped}${kept}`),
        resultOf('odd', at, odd),
      ]
    })
    .join('\n')
}

/**
 * The odd texts of the points in the ranges.
 *
 * - `empty`: fields that are empty
 * - `exact`: fields with their exact text, one series at a time, since a missing tag is such an empty text in what Flux builds
 */
export function selectOddTexts(bucket: string, filter: Filter, ranges: readonly RowRange[]): string {
  const parts = ranges.flatMap((range, at) => {
    const texts = textsOf(pointsOf(bucket, filter, range, range.tags), filter)
    return [
      resultOf('empty', at, `${texts} |> filter(fn: (r) => r._value == "")${grouped}${kept}`),
      resultOf('exact', at, `${texts} |> filter(fn: (r) => r._value =~ /[\\r\\n]/)${exactText}${kept}`),
    ]
  })
  return `import "strings"\n${parts.join('\n')}`
}

function textsOf(points: string, { format }: Filter): string {
  return `${points} |> filter(fn: (r) => ${format === senmlFormat ? isRecordText : isDocumentText})`
}

function resultOf(what: RowResult, at: number, flux: string): string {
  return `${flux} |> yield(name: "${what} ${at}")`
}

/** Results are distinguished by the column `result`. */
function yields(parts: readonly string[]): string {
  return parts.map((part, at) => `${part} |> yield(name: "${at}")`).join('\n')
}

/** A condition on one field, by which points are found. */
export interface Finder extends Compared {
  readonly field: string
}

/** How the rows of a filter are found. */
export interface Search {
  /** A row matches exactly one of these. If there are none, no row can match. */
  readonly finders: readonly Finder[]
  /** False if points that are found need not match: their rows have to be matched here. */
  readonly isExact: boolean
  /** True if a value is compared, so that few of all points may be found. */
  readonly comparesValue: boolean
}

/** Matches every point. */
export const everyPoint: Finder = { field: '/position', filter: '', rowFilter: '' }
/** Matches every record with a number. */
export const everyNumber: Finder = { field: 'value', filter: '', rowFilter: '' }

/** Filters of tags are separate, since the index has them. */
export function searchOf(filter: Filter): Search {
  const fields = filter.format === senmlFormat ? recordFields(filter) : documentFields(filter)
  const [first] = fields
  if (first === undefined) return { finders: [everyPoint], isExact: true, comparesValue: false }
  // If one condition cannot be met, no row matches.
  const finders = fields.some(one => one.length === 0) ? [] : first
  return { finders, isExact: fields.length === 1, comparesValue: true }
}

function recordFields({ value, boolValue, stringValue, dataValue, protocol }: Filter): Finder[][] {
  const fields: Finder[] = []
  if (value !== undefined) fields.push({ field: 'value', ...fluxCompared(value.comparator, value.number) })
  if (boolValue !== undefined) fields.push(equal('boolValue', String(boolValue)))
  if (stringValue !== undefined) fields.push(equal('stringValue', fluxText(stringValue)))
  if (dataValue !== undefined) fields.push(equal('dataValue', fluxText(base64url(dataValue))))
  if (protocol !== undefined) fields.push(equal('protocol', fluxText(protocol)))
  return fields.map(field => [field])
}

function documentFields({ payload, protocol }: Filter): Finder[][] {
  const fields = payload.map(payloadFinders)
  if (protocol !== undefined) fields.push([equal('/protocol', fluxText(protocol))])
  return fields
}

/** Finds the values with this text: the text itself, and a number or boolean that is printed as this text. Keys contain no `/`. */
function payloadFinders({ path, text }: PayloadFilter): Finder[] {
  if (path.some(key => key === '' || key.includes('/'))) return []
  const key = path.join('/')
  const finders = [equal(key + typeEnds.text, fluxText(text))]
  if (text === 'true' || text === 'false') finders.push(equal(key + typeEnds.boolean, text))
  const number = doubleOf(text)
  if (number !== undefined) finders.push({ field: key, ...fluxCompared('eq', number) })
  return finders
}

function equal(field: string, literal: string): Finder {
  return { field, filter: ` |> filter(fn: (r) => r._value == ${literal})`, rowFilter: '' }
}

function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}

const operators: Readonly<Record<Comparator, string>> = { eq: '==', lt: '<', le: '<=', gt: '>', ge: '>=' }

/** Two filters, either of which may be empty: what the storage compares, and what Flux then compares row by row. */
export interface Compared {
  readonly filter: string
  readonly rowFilter: string
}

/** Keeps rows whose `_value` compares like this. The storage compares only with literals, and a negative number is not a literal. */
export function fluxCompared(comparator: Comparator, number: number): Compared {
  const operator = operators[comparator]
  if (number >= 0) return { filter: ` |> filter(fn: (r) => r._value ${operator} ${fluxNumber(number)})`, rowFilter: '' }
  const isAbove = comparator === 'gt' || comparator === 'ge'
  return {
    filter: isAbove ? '' : ' |> filter(fn: (r) => r._value < 0.0)',
    rowFilter: ` |> filter(fn: (r) => r._value ${operator} -${fluxNumber(number)})`,
  }
}

/** The absolute value: all digits of the shortest text of this double, with a decimal point and without an exponent. */
function fluxNumber(number: number): string {
  const [, whole = '', fraction = '', exponent = '0'] = /^(\d+)(?:\.(\d+))?(?:e([+-]\d+))?$/.exec(String(Math.abs(number)))!
  const digits = whole + fraction
  const point = whole.length + Number(exponent)
  if (point <= 0) return `0.${'0'.repeat(-point)}${digits}`
  return `${digits.slice(0, point).padEnd(point, '0')}.${digits.slice(point) || '0'}`
}
