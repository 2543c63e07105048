// Writes a page as the canonical answer: the same bytes from every store.
//
// The text is made by hand: times and payloads have forms of their own, and rows that lie together mostly share where they come
// from, which is then printed once.

import { canonicalPayload, numberText } from './payload-json.ts'
import type { Query } from './query.ts'
import type { DocumentRow, Page, Row, SenmlRow } from './reader.ts'

/**
 * `{"total","offset","limit","format","messages"}`. Where the store counted only so far, `"total_is_lower_bound":true` follows the
 * total.
 */
export function pageJson({ offset, limit, format }: Pick<Query, 'offset' | 'limit' | 'format'>, { rows, total, totalExact }: Page): string {
  let text = `{"total":${total}${totalExact ? '' : ',"total_is_lower_bound":true'},"offset":${offset},"limit":${limit}`
  text += `,"format":${JSON.stringify(format)},"messages":[`
  let divider = ''
  let above: Row | undefined
  let origin = ''
  for (const row of rows) {
    if (above === undefined || !haveOneOrigin(row, above)) origin = originJson(row)
    above = row
    text += divider + (row.kind === 'senml' ? recordJson(row, origin) : documentJson(row, origin))
    divider = ','
  }
  return `${text}]}`
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
function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}
