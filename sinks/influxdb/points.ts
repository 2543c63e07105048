// The points of a batch. A point is identified by its series and time, so the time also keeps messages apart: it is the row's millisecond, and below it a
// number from the message's offset. What the millisecond lacks is in the field `/index`: the ordinal of the row × 1000 + the microseconds below it. They
// share a field because each field of a point has its own copy of the time (README.md has the bytes).
//
// Messages need the same point if they have a series and millisecond in common and offsets a multiple of a million apart, or are of two partitions or logs
// whose numbers meet. The second write would take the point, and leave fields that only the first had, so where it is seen the later message is rejected.
//
// Also the names of a document's fields, which say the types of their values.

import { logOf, partitionOf } from '../../transformers/log-partition.ts'
import type { Range, RecordBatch } from '../../transformers/record-batch.ts'
import type { KeyedBatch } from '../keyed-sink.ts'
import { type LogNumbers, packedPosition, type Rejection } from '../sink.ts'
import { type Connection, cell, fluxFrom, fluxWhere, ownColumns } from './connection.ts'
import { faults } from './errors.ts'

/** How many nanoseconds there are below a millisecond. */
const restNsCount = 1_000_000

/**
 * The nanoseconds below the millisecond of a message's points, 0 to 999,999. They differ for any million consecutive offsets of a partition; in
 * partition 0 of the first log they are the offset mod 1,000,000. Each log and partition begins at another number, far from the others, since offsets
 * of the partitions of a topic grow alike, and those of a recreated topic begin at 0 again.
 */
export function restNsOf(log: number, partition: number, offset: number): number {
  return (offset + partition * 632_787 + (log - 1) * 217_581) % restNsCount
}

/** The millisecond of a time in microseconds. */
export function msOf(timeUs: number): number {
  return Math.floor(timeUs / 1000)
}

/** The value of `/index`. */
export function indexField(index: number, timeUs: number): number {
  return index * 1000 + (timeUs - msOf(timeUs) * 1000)
}

/** The ordinal of the row in its message, from the value of `/index`. */
export function ordinalOf(indexField: number): number {
  return Math.floor(indexField / 1000)
}

/** The microseconds below the millisecond, from the value of `/index`. */
export function restUsOf(indexField: number): number {
  return indexField - ordinalOf(indexField) * 1000
}

/**
 * The ends of a document's fields, by the type of their values; that of a number has none. InfluxDB gives a field one type in each shard, and drops points
 * with another, so a key has a field for each type. No key contains `//`: its parts are not empty.
 */
export const typeEnds = { text: '//text', boolean: '//bool' } as const

const textFields = `/${typeEnds.text.replaceAll('/', String.raw`\/`)}$/`
/** In Flux, whether a field of a document is a text. */
export const isDocumentText = `r._field =~ ${textFields} or r._field == "/protocol"`
export const isNoDocumentText = `r._field !~ ${textFields} and r._field != "/protocol"`

function keyOf(field: string): string {
  if (field.endsWith(typeEnds.text)) return field.slice(0, -typeEnds.text.length)
  return field.endsWith(typeEnds.boolean) ? field.slice(0, -typeEnds.boolean.length) : field
}

/**
 * The keys of a document, in order, and their values, from all fields of its point. If a key has a second value, which another message has left that
 * needed the same point, it stands under the name of its field.
 */
export function documentEntries<Value>(fields: Iterable<readonly [field: string, value: Value]>): [key: string, value: Value][] {
  const entries: { readonly key: string; readonly field: string; readonly value: Value }[] = []
  for (const [field, value] of fields) if (!field.startsWith('/')) entries.push({ key: keyOf(field), field, value })
  entries.sort((one, other) => (one.key < other.key || (one.key === other.key && one.field < other.field) ? -1 : 1))
  return entries.map(({ key, field, value }, nth) => [key === entries[nth - 1]?.key ? field : key, value])
}

/** InfluxDB's times range from -9223372036854775806 to 9223372036854775806 ns; doubles represent whole microseconds up to slightly less. */
const timeUsMax = Number.MAX_SAFE_INTEGER

export function timeIsKept(timeUs: number): boolean {
  return timeUs >= -timeUsMax && timeUs <= timeUsMax
}

/** Lines of line protocol, one for each row. The lines of a message are consecutive. */
export interface EncodedLines {
  readonly length: number
  readonly bytes: Uint8Array
  /** By line, where it begins in `bytes`; one more entry for the end of the last. */
  readonly start: Uint32Array
  /** By line, the index of its message. */
  readonly message: Uint32Array
  /** By line, the record's ordinal in its message. */
  readonly record: Uint32Array
  /** By line, microseconds since 1970. */
  readonly timeUs: Float64Array
}

/** A line without its line end. */
export function textOf({ bytes, start }: EncodedLines, line: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start[line]!, start[line + 1]! - start[line]! - 1).toString('utf8')
}

/** The time of a line written here, nanoseconds since 1970. */
export function nsOfLine(line: string): bigint {
  return BigInt(line.slice(line.lastIndexOf(' ') + 1))
}

/** Measurement and tags of a line, up to its fields. A space after a backslash is always escaped: no tag ends in a backslash. */
export function seriesOfLine(line: string): string {
  return line.slice(0, line.search(/(?<!\\) /))
}

/** Measurement and tags of a line, by the names of their columns in a query. */
function columnsOfLine(line: string): Record<string, string> {
  const [measurement, ...tags] = seriesOfLine(line)
    .split(/(?<!\\),/)
    .map(part => part.replaceAll(/\\([,= ])/g, '$1'))
  const pairs = tags.map(tag => [tag.slice(0, tag.indexOf('=')), tag.slice(tag.indexOf('=') + 1)] as const)
  return { _measurement: measurement!, ...Object.fromEntries(pairs) }
}

/**
 * Rejects messages of a batch that need a point of an earlier one. Nearly always the offsets of the batch alone show that there is none: only otherwise
 * are messages compared.
 */
export function rejectCollisions(
  { messages, ranges }: Pick<RecordBatch, 'messages' | 'ranges'>,
  logNumbers: LogNumbers,
  lines: EncodedLines,
  rejected: Map<number, Rejection>,
): void {
  if (!mayCollide(ranges, logNumbers)) return
  const { at, offset } = messages
  const firstLines: number[] = []
  for (let line = 0; line < lines.length; line++) if (line === 0 || lines.message[line] !== lines.message[line - 1]) firstLines.push(line)
  const alike = Map.groupBy(firstLines, line => {
    const message = lines.message[line]!
    return restNsOf(logNumbers[logOf(at[message]!)]!, partitionOf(at[message]!), offset[message]!)
  })
  for (const some of alike.values()) if (some.length > 1) rejectTaken(some)

  function rejectTaken(firstLines: readonly number[]): void {
    const owners = new Map<string, number>()
    for (const first of firstLines) {
      const message = lines.message[first]!
      const points = new Map<string, number>()
      for (let line = first; line < lines.length && lines.message[line] === message; line++) points.set(pointOf(textOf(lines, line)), line)
      const taken = [...points].find(([point]) => owners.has(point))
      if (taken === undefined) for (const point of points.keys()) owners.set(point, message)
      else rejected.set(message, rejection(message, lines.record[taken[1]]!, nameOf(owners.get(taken[0])!)))
    }
  }

  function nameOf(message: number): string {
    return messageId(packedPosition(logNumbers[logOf(at[message]!)]!, partitionOf(at[message]!), offset[message]!))
  }
}

/** Whether two offsets of the ranges may have the same nanoseconds below the millisecond. */
function mayCollide(ranges: readonly Range[], logNumbers: LogNumbers): boolean {
  const spans: { readonly start: number; readonly end: number }[] = []
  for (const { at, from, to } of ranges) {
    const log = logNumbers[logOf(at)]
    // A log without a number has no rows here.
    if (log === undefined || from === to) continue
    const start = restNsOf(log, partitionOf(at), from)
    spans.push({ start, end: start + to - from })
  }
  if (spans.length === 0) return false
  spans.sort((one, other) => one.start - other.start)
  // The first one again, after the last: the numbers begin again at 0.
  const { start, end } = spans[0]!
  spans.push({ start: start + restNsCount, end: end + restNsCount })
  return spans.some((span, nth) => nth > 0 && span.start < spans[nth - 1]!.end)
}

/** What identifies the point of a line. */
function pointOf(line: string): string {
  return `${seriesOfLine(line)} ${nsOfLine(line)}`
}

function rejection(message: number, record: number, other: string): Rejection {
  return { message, record, ...faults.taken(other) }
}

/** As `./sluice trace` has it. */
function messageId(position: bigint): string {
  return `${position >> 56n}-${(position >> 44n) & 0xfffn}-${position & 0xfff_ffff_ffffn}`
}

/** Lines in one query. */
const linesMax = 100

/** Rejects the messages that need a point of another message in the store, which a replay would overwrite. */
export async function rejectStored(
  { messages, lines, rejected }: KeyedBatch & { readonly lines: EncodedLines },
  logNumber: number,
  connection: Pick<Connection, 'bucket' | 'query'>,
  signal: AbortSignal,
): Promise<void> {
  const positionOf = (line: number): bigint => {
    const message = lines.message[line]!
    return packedPosition(logNumber, partitionOf(messages.at[message]!), messages.offset[message]!)
  }
  for (let first = 0; first < lines.length; first += linesMax) {
    const asked = Array.from({ length: Math.min(linesMax, lines.length - first) }, (_, nth) => {
      const line = first + nth
      const text = textOf(lines, line)
      const ns = nsOfLine(text)
      const columns = columnsOfLine(text)
      const others = ` |> filter(fn: (r) => r._value != ${positionOf(line)})`
      const where = fluxWhere({ ...columns, _field: '/position' })
      return { line, columns, flux: `${fluxFrom(connection.bucket, { startNs: ns, stopNs: ns + 1n })}${where}${others}` }
    })
    const flux = asked.map(({ line, flux }) => `${flux} |> yield(name: "${line}")`).join('\n')
    for await (const rows of connection.query(flux, signal)) {
      for (const row of rows) {
        const line = Number(cell(row, 'result'))
        const { columns } = asked[line - first]!
        // Another series may have these tags and further ones.
        const isIt = row.tableMeta.columns.filter(({ label }) => !ownColumns.has(label)).every(({ label }) => Object.hasOwn(columns, label))
        const message = lines.message[line]!
        if (isIt && !rejected.has(message)) {
          rejected.set(message, rejection(message, lines.record[line]!, messageId(BigInt(cell(row, '_value')!))))
        }
      }
    }
  }
}
