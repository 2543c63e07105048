// Serializes a page as canonical JSON: the same bytes for every store.
//
// The bytes are written directly: times and payloads have special forms, and adjacent rows usually have the same origin,
// which is then serialized once and copied.

import { canonicalPayload, numberText } from '../../transformers/json/canonical.ts'
import type { Total } from '../cursor.ts'
import type { Bucket, DocumentRow, Row, SenmlRow } from '../reader.ts'
import { JsonBytes, secondsText } from './json-bytes.ts'
import { type KeyParts, keyName, keyParts, type RecordKeys } from './record-keys.ts'

/** The parts of a response before and after its messages. */
export interface Frame {
  readonly total: Total | undefined
  readonly offset: number
  readonly limit: number | 'all'
  readonly format: string
  readonly nextCursor?: string | undefined
  /** Default: capitals. */
  readonly keys?: RecordKeys
}

/**
 * `{"total","offset","limit","format","messages"}`. If the store stopped counting at a bound, `"total_is_lower_bound":true` follows the
 * total; without a count there is no total. `"next_cursor"` comes last, if there are more rows.
 */
export function pageBytes(frame: Frame, rows: readonly Row[]): Buffer {
  const json = openJson(rows)
  json.json(frameStart(frame))
  writeRows(json, rows, comma, frame.keys)
  json.json(frameEnd(frame))
  return json.finish()
}

/** The response up to its first message. */
export function frameStart({ total, offset, limit, format }: Frame): string {
  const counted = total === undefined ? '' : `"total":${total.total},${total.isExact ? '' : '"total_is_lower_bound":true,'}`
  return `{${counted}"offset":${offset},"limit":${JSON.stringify(limit)},"format":${JSON.stringify(format)},"messages":[`
}

/** The response after its last message. */
export function frameEnd({ nextCursor }: Pick<Frame, 'nextCursor'>): string {
  return nextCursor === undefined ? ']}' : `],"next_cursor":${JSON.stringify(nextCursor)}}`
}

/**
 * Each row as JSON, separated by commas.
 *
 * @param isContinued true if other rows precede: starts with a comma
 */
export function rowsBytes(rows: readonly Row[], isContinued = false, keys?: RecordKeys): Buffer {
  const json = openJson(rows)
  if (isContinued) json.bytes[json.at++] = comma
  writeRows(json, rows, comma, keys)
  return json.finish()
}

/** Each row as a line of JSON (NDJSON). */
export function linesBytes(rows: readonly Row[], keys?: RecordKeys): Buffer {
  const json = openJson(rows)
  writeRows(json, rows, lineEnd, keys)
  if (rows.length > 0) json.bytes[json.at++] = lineEnd
  return json.finish()
}

const comma = 0x2c
const lineEnd = 0x0a

/** A buffer with space for typical rows. */
function openJson(rows: readonly Row[]): JsonBytes {
  return new JsonBytes(1024 + rows.length * 320)
}

function writeRows(json: JsonBytes, rows: readonly Row[], divider: number, keys: RecordKeys = 'capitals'): void {
  const parts = keyParts(keys)
  const documentKeys = { created: `,"${keyName('created', keys)}":`, payload: `,"${keyName('payload', keys)}":` }
  let above: Above | undefined
  for (const row of rows) {
    if (above !== undefined) json.bytes[json.at++] = divider
    above = row.kind === 'senml' ? writeRecord(json, row, above, parts) : writeDocument(json, row, above, parts, documentKeys)
  }
}

/** The previous row, and where its parts end in the bytes: adjacent rows usually share them, and copying takes a third of the time. */
interface Above {
  row: Row
  start: number
  subtopicEnd: number
  publisherEnd: number
  end: number
}

/** Reserves space for the row plus `characters`, and writes everything before its time or payload. */
function writeHead(json: JsonBytes, row: Row, above: Above | undefined, characters: number, parts: KeyParts): Above {
  const { channel, subtopic, publisher, protocol } = row
  json.reserve(channel.length + subtopic.length + publisher.length + protocol.length + characters)
  const start = json.at
  const isOfSubtopic = above?.row.channel === channel && above.row.subtopic === subtopic
  const isLike = above !== undefined && areAlike(row, above.row)
  if (isOfSubtopic && isLike && publisher === above.row.publisher) {
    json.again(above.start, above.end)
    const moved = start - above.start
    return { row, start, subtopicEnd: above.subtopicEnd + moved, publisherEnd: above.publisherEnd + moved, end: json.at }
  }
  if (isOfSubtopic) json.again(above.start, above.subtopicEnd)
  else {
    json.put(parts.channel)
    json.text(channel)
    json.put(parts.subtopic)
    json.text(subtopic)
    json.put(parts.publisher)
  }
  const subtopicEnd = json.at
  json.text(publisher)
  const publisherEnd = json.at
  if (isLike) json.again(above.publisherEnd, above.end)
  else {
    json.put(parts.protocol)
    json.text(protocol)
    if (row.kind === 'senml') writeName(json, row, parts)
  }
  return { row, start, subtopicEnd, publisherEnd, end: json.at }
}

function areAlike(row: Row, above: Row): boolean {
  if (row.protocol !== above.protocol || row.kind !== above.kind) return false
  return row.kind === 'document' || (row.name === (above as SenmlRow).name && row.unit === (above as SenmlRow).unit)
}

function writeName(json: JsonBytes, { name, unit }: SenmlRow, parts: KeyParts): void {
  json.put(parts.name)
  json.text(name)
  if (unit !== undefined) {
    json.put(parts.unit)
    json.text(unit)
  }
  json.put(parts.time)
}

/** Each bucket as JSON, separated by the divider. */
export function bucketsJson(buckets: readonly Bucket[], divider = ',', keys?: RecordKeys): string {
  return buckets.map(bucket => bucketJson(bucket, keys)).join(divider)
}

function bucketJson({ channel, publisher, subtopic, name, unit, timeUs, value, count }: Bucket, keys: RecordKeys | undefined): string {
  const key = (of: Parameters<typeof keyName>[0]): string => `"${keyName(of, keys)}":`
  const texts = { channel, publisher, subtopic, name, ...(unit === undefined ? {} : { unit }) }
  const head = Object.entries(texts).map(([of, text]) => key(of as keyof typeof texts) + JSON.stringify(text))
  return `{${head.join(',')},${key('time')}${secondsText(timeUs)},${key('value')}${numberText(value)},${key('count')}${count}}`
}

const quote = 0x22
const objectEnd = 0x7d

/**
 * A row: keys always in the same order. Channel, Subtopic, Publisher, Protocol, Name and Time of a record are always present, even if empty; the others
 * only if the record has them (0, false and "" are values). A document has Created in whole nanoseconds, and its payload in the canonical form.
 */
export function rowJson(row: Row): string {
  return rowsBytes([row]).toString()
}

function writeRecord(json: JsonBytes, row: SenmlRow, before: Above | undefined, parts: KeyParts): Above {
  const { name, unit, updateTime, value, stringValue, boolValue, dataValue, sum } = row
  const characters = ((stringValue?.length ?? 0) + (dataValue?.length ?? 0)) * parts.stringValue.length
  const above = writeHead(json, row, before, characters + name.length + (unit?.length ?? 0), parts)
  json.seconds(row.timeUs)
  if (updateTime !== undefined) {
    for (const key of parts.updateTime) {
      json.put(key)
      json.number(updateTime)
    }
  }
  if (value !== undefined) {
    json.put(parts.value)
    json.number(value)
  }
  if (stringValue !== undefined) {
    for (const key of parts.stringValue) {
      json.put(key)
      json.text(stringValue)
    }
  }
  if (boolValue !== undefined) for (const key of boolValue ? parts.true : parts.false) json.put(key)
  if (dataValue !== undefined) {
    for (const key of parts.dataValue) {
      json.put(key)
      json.at += json.bytes.write(base64url(dataValue), json.at, 'latin1')
      json.bytes[json.at++] = quote
    }
  }
  if (sum !== undefined) {
    json.put(parts.sum)
    json.number(sum)
  }
  json.bytes[json.at++] = objectEnd
  return above
}

function writeDocument(
  json: JsonBytes,
  row: DocumentRow,
  before: Above | undefined,
  parts: KeyParts,
  keys: { readonly created: string; readonly payload: string },
): Above {
  const above = writeHead(json, row, before, 0, parts)
  json.json(`${keys.created}${row.createdNs}${keys.payload}${canonicalPayload(row.payloadText)}}`)
  return above
}

/** RFC 4648 §5 without padding, as in SenML (RFC 8428 §4.3). */
export function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}
