// Writes a page as the canonical answer: the same bytes from every store.
//
// The text is made by hand: times and payloads have forms of their own, and rows that lie together mostly share where they come
// from, which is then printed once.

import type { Total } from './cursor.ts'
import { canonicalPayload, numberText } from './payload-json.ts'
import type { Bucket, DocumentRow, Row, SenmlRow } from './reader.ts'

/** What stands before and behind the messages of an answer. */
export interface Frame {
  readonly total: Total | undefined
  readonly offset: number
  readonly limit: number | 'all'
  readonly format: string
  readonly nextCursor?: string | undefined
}

/**
 * `{"total","offset","limit","format","messages"}`. Where the store counted only so far, `"total_is_lower_bound":true` follows the
 * total; there is none where nobody counted. `"next_cursor"` comes last, where there are more.
 */
export function pageJson(frame: Frame, rows: readonly Row[]): string {
  return frameStart(frame) + rowsJson(rows) + frameEnd(frame)
}

export function frameStart({ total, offset, limit, format }: Frame): string {
  const counted = total === undefined ? '' : `"total":${total.total},${total.isExact ? '' : '"total_is_lower_bound":true,'}`
  return `{${counted}"offset":${offset},"limit":${JSON.stringify(limit)},"format":${JSON.stringify(format)},"messages":[`
}

export function frameEnd({ nextCursor }: Pick<Frame, 'nextCursor'>): string {
  return nextCursor === undefined ? ']}' : `],"next_cursor":${JSON.stringify(nextCursor)}}`
}

/** Each row as JSON, with `divider` between them: a comma, or the end of a line for NDJSON. */
export function rowsJson(rows: readonly Row[], divider = ','): string {
  let text = ''
  let above: Row | undefined
  let origin = ''
  for (const row of rows) {
    if (above === undefined || !haveOneOrigin(row, above)) origin = originJson(row)
    if (above !== undefined) text += divider
    above = row
    text += row.kind === 'senml' ? recordJson(row, origin) : documentJson(row, origin)
  }
  return text
}

export function bucketsJson(buckets: readonly Bucket[], divider = ','): string {
  return buckets.map(bucketJson).join(divider)
}

function bucketJson({ channel, publisher, subtopic, name, unit, timeUs, value, count }: Bucket): string {
  let text = `{"Channel":${JSON.stringify(channel)},"Publisher":${JSON.stringify(publisher)},"Subtopic":${JSON.stringify(subtopic)},"Name":${JSON.stringify(name)}`
  if (unit !== undefined) text += `,"Unit":${JSON.stringify(unit)}`
  return `${text},"Time":${secondsText(timeUs)},"Value":${numberText(value)},"Count":${count}}`
}

/**
 * A SenML record, its keys always in this order. Channel, Subtopic, Publisher, Protocol, Name and Time are always there, even when
 * empty; the others where the record has them (0, false and "" are values).
 */
export function recordJson(row: SenmlRow, origin = originJson(row)): string {
  let text = `${origin},"Name":${JSON.stringify(row.name)}`
  if (row.unit !== undefined) text += `,"Unit":${JSON.stringify(row.unit)}`
  text += `,"Time":${secondsText(row.timeUs)}`
  if (row.updateTime !== undefined) text += `,"UpdateTime":${numberText(row.updateTime)}`
  if (row.value !== undefined) text += `,"Value":${numberText(row.value)}`
  if (row.stringValue !== undefined) text += `,"StringValue":${JSON.stringify(row.stringValue)}`
  if (row.boolValue !== undefined) text += `,"BoolValue":${row.boolValue}`
  if (row.dataValue !== undefined) text += `,"DataValue":"${base64url(row.dataValue)}"`
  if (row.sum !== undefined) text += `,"Sum":${numberText(row.sum)}`
  return `${text}}`
}

/** A JSON document: Created in whole nanoseconds, the payload in its canonical form. */
export function documentJson(row: DocumentRow, origin = originJson(row)): string {
  return `${origin},"Created":${row.createdNs},"Payload":${canonicalPayload(row.payloadText)}}`
}

function originJson({ channel, subtopic, publisher, protocol }: Row): string {
  return `{"Channel":${JSON.stringify(channel)},"Subtopic":${JSON.stringify(subtopic)},"Publisher":${JSON.stringify(publisher)},"Protocol":${JSON.stringify(protocol)}`
}

function haveOneOrigin(row: Row, above: Row): boolean {
  return (
    row.publisher === above.publisher && row.subtopic === above.subtopic && row.protocol === above.protocol && row.channel === above.channel
  )
}

/** Up to here (the year 2242) doubles lie closer than the microseconds, so the shortest text of the quotient is the exact one. */
const exactQuotientUsMax = 2 ** 33 * 1_000_000

/** Seconds with as many decimals as the microseconds need, none to six: 1600000000250000 is `1600000000.25`. */
export function secondsText(timeUs: number): string {
  const magnitude = Math.abs(timeUs)
  if (magnitude < exactQuotientUsMax) return String(timeUs / 1_000_000)
  const rest = magnitude % 1_000_000
  const seconds = `${timeUs < 0 ? '-' : ''}${(magnitude - rest) / 1_000_000}`
  return rest === 0 ? seconds : `${seconds}.${String(rest).padStart(6, '0').replace(/0+$/, '')}`
}

/** RFC 4648 §5, without padding, as SenML has it (RFC 8428 §4.3). */
export function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}
