// The questions of the InfluxDB reader in Flux, pure: fixed words and escaped literals.
//
// Where a row is found says one field of its point: the one that is asked for, or the position, which every point has. What else a point
// holds is read where its rows are needed. `group()` stands right behind the filter, since the storage itself then merges the series: without
// it each series is a table, which costs more than its rows.

import { exactText, fluxFrom, fluxOf, fluxText, fluxWhere, type Range } from '../../sinks/influxdb/flux.ts'
import { physicalName } from '../../sinks/influxdb/physical-name.ts'
import type { Direction, Selection } from '../query.ts'
import { senmlFormat } from '../reader.ts'
import { everyPoint, type Finder, type Search } from './finders.ts'
import { microsecond, type Span } from './span.ts'

/** An id has 36 characters. */
const noChannel = '-'

/** Tags of a point, as rows and groups have them; an empty one is a tag that is absent. */
export interface SeriesTags {
  readonly publisher?: string
  readonly subtopic?: string
  readonly name?: string
  readonly unit?: string
}

/** Rows to be read: of the selection's series, or of those with these tags. */
export interface RowRange extends Span {
  readonly tags?: SeriesTags
  /** Of it this part alone. */
  readonly part?: Required<Range>
}

export function nanosecondsOf({ startUs, endUs, part }: RowRange): Required<Range> {
  return part ?? { startNs: BigInt(startUs) * 1000n, stopNs: BigInt(endUs) * 1000n }
}

export function measurementOf(format: string): string {
  return format === senmlFormat ? senmlFormat : physicalName(format)
}

/** The points of a selection within a span whose field has what is asked for. */
function found(bucket: string, selection: Selection, finder: Finder, span: Span, tags?: SeriesTags): string {
  return `${candidates(bucket, selection, finder, span, tags)}${finder.rowFilter}`
}

/** Those that the storage takes for such: where Flux compares what the storage cannot, they may be more. */
function candidates(bucket: string, selection: Selection, finder: Finder, span: Span, tags?: SeriesTags): string {
  return `${pointsOf(bucket, selection, span, tags)} |> filter(fn: (r) => r._field == ${fluxText(finder.field)})${finder.filter}`
}

/** By its tags. */
type SeriesOf = Pick<Selection, 'channel' | 'format'> & Partial<Pick<Selection, 'publisher' | 'subtopic' | 'name' | 'unit'>>

/** Channel and measurement are always there. */
function pointsOf(bucket: string, selection: SeriesOf, range: RowRange, tags: SeriesTags = {}): string {
  const { channel, format, publisher, subtopic, name, unit } = selection
  const ofSeries = tagged(channel, { publisher, subtopic, name, unit, ...tags })
  return `${fluxFrom(bucket, nanosecondsOf(range))}${fluxOf([measurementOf(format)])}${ofSeries}`
}

function tagged(channel: string, tags: Readonly<Record<string, string | undefined>>): string {
  const terms = [`r["channel"] == ${fluxText(channel)}`]
  for (const [tag, text] of Object.entries(tags)) {
    // A tag is never empty: it is absent then.
    if (text !== undefined) terms.push(text === '' ? `not exists r["${tag}"]` : `r["${tag}"] == ${fluxText(text)}`)
  }
  return ` |> filter(fn: (r) => ${terms.join(' and ')})`
}

/** The storage knows the first and last point of several series together; where Flux filters them, they come one series after another. */
function endOf({ rowFilter }: Finder, end: 'first' | 'last'): string {
  return `${rowFilter === '' ? '' : ' |> sort(columns: ["_time"])'} |> ${end}()`
}

/** Finds nothing, where the bucket is there and may be read. */
export function selectNothing(bucket: string): string {
  return `${pointsOf(bucket, { channel: noChannel, format: senmlFormat }, microsecond(0))} |> limit(n: 1)`
}

/** The time of the first point in the direction that may have what is asked for. */
export function selectFirst(bucket: string, selection: Selection, finder: Finder, span: Span, direction: Direction): string {
  const end = direction === 'desc' ? 'last' : 'first'
  return `${candidates(bucket, selection, finder, span)} |> group() |> ${end}() |> keep(columns: ["_time"])`
}

const seriesColumns = '"publisher", "subtopic", "name", "unit"'

/** The times of the first `limit` points in the direction. */
export function selectPlaces(
  bucket: string,
  selection: Selection,
  finders: readonly Finder[],
  span: Span,
  { direction, limit }: { direction: Direction; limit: number },
): string {
  const first = ` |> group() |> keep(columns: ["_time"]) |> sort(columns: ["_time"], desc: ${direction === 'desc'}) |> limit(n: ${limit})`
  return yields(finders.map(finder => found(bucket, selection, finder, span) + first))
}

/** The first `limit` positions in the direction. */
export function selectPositions(
  bucket: string,
  selection: Selection,
  finder: Finder,
  span: Span,
  { direction, limit }: { direction: Direction; limit: number },
): string {
  const first = ` |> unique(column: "_value") |> sort(columns: ["_value"], desc: ${direction === 'desc'}) |> limit(n: ${limit})`
  return `${found(bucket, selection, finder, span)} |> group() |> keep(columns: ["_value"])${first}`
}

/** The times and the series of all points. */
export function selectSeries(bucket: string, selection: Selection, finders: readonly Finder[], span: Span): string {
  return yields(finders.map(finder => `${found(bucket, selection, finder, span)} |> keep(columns: ["_time", ${seriesColumns}])`))
}

export function selectCount(bucket: string, selection: Selection, finders: readonly Finder[], span: Span): string {
  return yields(finders.map(finder => `${found(bucket, selection, finder, span)} |> group() |> count() |> keep(columns: ["_value"])`))
}

/** The time of the newest point of each series of rows, and its tags. */
export function selectNewest(bucket: string, selection: Selection, { finders, mixesTypes }: Search, span: Span): string {
  const series = selection.format === senmlFormat ? '"publisher", "subtopic", "name"' : '"publisher", "subtopic"'
  const [group, kept] = [` |> group(columns: [${series}])`, ` |> keep(columns: ["_time", ${series}])`]
  // For the last point the storage also opens the shard that begins where the span ends, first, and takes the type that the field has there.
  const newest = mixesTypes ? `${kept} |> sort(columns: ["_time"]) |> last(column: "_time")` : undefined
  return yields(finders.map(finder => `${found(bucket, selection, finder, span)}${group}${newest ?? endOf(finder, 'last') + kept}`))
}

/** The time of the newest point of each measurement and subtopic, and both. */
export function selectSubtopics(bucket: string, { channel, publisher }: Pick<Selection, 'channel' | 'publisher'>, span: Span): string {
  const points = `${fluxFrom(bucket, nanosecondsOf(span))}${fluxWhere({ _field: everyPoint.field })}${tagged(channel, { publisher })}`
  return `${points} |> group(columns: ["_measurement", "subtopic"]) |> last() |> keep(columns: ["_time", "_measurement", "subtopic"])`
}

export type StoreAggregate = 'count' | 'sum' | 'min' | 'max'

/**
 * One number of each series in each bucket of time: `_value`, and `_time`, which lies in its bucket. What is asked for with several aggregates
 * comes in results of their names.
 */
export function selectBuckets(
  bucket: string,
  selection: Selection,
  finder: Finder,
  span: Span,
  { intervalUs, aggregates }: { intervalUs: number; aggregates: readonly StoreAggregate[] },
): string {
  return aggregates
    .map(
      aggregate =>
        `${found(bucket, selection, finder, span)} |> aggregateWindow(every: ${intervalUs}us, fn: ${aggregate}, createEmpty: false, timeSrc: "_start")` +
        ` |> keep(columns: ["_time", "_value", ${seriesColumns}]) |> yield(name: "${aggregate}")`,
    )
    .join('\n')
}

/** The first or last point of each range, in a result of its own called as its place. */
export function selectEnds(
  bucket: string,
  selection: Selection,
  finder: Finder,
  ranges: readonly RowRange[],
  end: 'first' | 'last',
): string {
  return yields(
    ranges.map(
      range => `${found(bucket, selection, finder, range, range.tags)} |> group()${endOf(finder, end)} |> keep(columns: ["_time"])`,
    ),
  )
}

const kept = ` |> keep(columns: ["_time", "_field", "_value", "exact", ${seriesColumns}, "nth", "/nth"])`
const grouped = ' |> group(columns: ["_field"])'
const recordTexts = ['protocol', 'stringValue', 'dataValue']
const isRecordText = recordTexts.map(field => `r._field == ${fluxText(field)}`).join(' or ')
const isNoRecordText = recordTexts.map(field => `r._field != ${fluxText(field)}`).join(' and ')
const isEvenText = 'r._value =~ /^[^\\r\\n]+$/'
const isOddText = 'r._value =~ /^$|[\\r\\n]/'

/** What a line of `selectRows` tells, by the beginning of its result's name. Behind it stands which range it is of. */
export type RowResult = 'even' | 'numbers' | 'odd' | 'empty' | 'exact'

/**
 * All fields of the points in the ranges, but for odd texts, of which it only says that they are there: texts with a line end, which CSV changes,
 * and empty ones. Of an array of texts Flux 0.196 loses the first that differs from those before it where it is empty, and moves the others up.
 *
 * - `even`: fields as they are
 * - `numbers`: fields of which only those are right that are no text
 * - `odd`: fields whose text is odd, without it
 */
export function selectRows(bucket: string, selection: Selection, ranges: readonly RowRange[]): string {
  const isRecords = selection.format === senmlFormat
  return ranges
    .flatMap((range, at) => {
      const points = pointsOf(bucket, selection, range, range.tags)
      const odd = `${textsOf(points, selection)} |> filter(fn: (r) => ${isOddText})${grouped} |> keep(columns: ["_time"])`
      const even = isRecords ? `(${isNoRecordText}) or ${isEvenText}` : isEvenText
      return [
        // Whether a field of a document is a text, only its value says.
        ...(isRecords ? [] : [resultOf('numbers', at, `${points}${grouped}${kept}`)]),
        resultOf('even', at, `${points} |> filter(fn: (r) => ${even})${grouped}${kept}`),
        resultOf('odd', at, odd),
      ]
    })
    .join('\n')
}

/**
 * The odd texts of the points in the ranges.
 *
 * - `empty`: fields that are empty
 * - `exact`: fields with their exact text; a series at a time, since of what Flux makes anew absent tags are such empty texts
 */
export function selectOddTexts(bucket: string, selection: Selection, ranges: readonly RowRange[]): string {
  const parts = ranges.flatMap((range, at) => {
    const texts = textsOf(pointsOf(bucket, selection, range, range.tags), selection)
    return [
      resultOf('empty', at, `${texts} |> filter(fn: (r) => r._value == "")${grouped}${kept}`),
      resultOf('exact', at, `${texts} |> filter(fn: (r) => r._value =~ /[\\r\\n]/)${exactText}${kept}`),
    ]
  })
  return `import "strings"\n${parts.join('\n')}`
}

function textsOf(points: string, { format }: Selection): string {
  return format === senmlFormat ? `${points} |> filter(fn: (r) => ${isRecordText})` : points
}

function resultOf(what: RowResult, at: number, flux: string): string {
  return `${flux} |> yield(name: "${what} ${at}")`
}

/** Results are told apart by the column `result`. */
function yields(parts: readonly string[]): string {
  return parts.map((part, at) => `${part} |> yield(name: "${at}")`).join('\n')
}
