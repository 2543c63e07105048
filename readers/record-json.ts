// Writes a page as the canonical answer: the same bytes from every store.
//
// The text is made by hand, as bytes: times and payloads have forms of their own, and rows that lie together mostly share where they come
// from, which is then printed once.

import type { Total } from './cursor.ts'
import { JsonBytes, secondsText } from './json-bytes.ts'
import { canonicalPayload, numberText } from './payload-json.ts'
import type { Bucket, DocumentRow, Row, SenmlRow } from './reader.ts'
import { type KeyParts, keyName, keyParts, type RecordKeys } from './record-keys.ts'
import { type Above, noHead, writeHead } from './row-head.ts'

/** What stands before and behind the messages of an answer. */
export interface Frame {
  readonly total: Total | undefined
  readonly offset: number
  readonly limit: number | 'all'
  readonly format: string
  readonly nextCursor?: string | undefined
  /** Capitals where it is left out. */
  readonly keys?: RecordKeys
}

/**
 * `{"total","offset","limit","format","messages"}`. Where the store counted only so far, `"total_is_lower_bound":true` follows the
 * total; there is none where nobody counted. `"next_cursor"` comes last, where there are more.
 */
export function pageBytes(frame: Frame, rows: readonly Row[]): Buffer {
  const json = openJson(rows)
  json.json(frameStart(frame))
  writeRows(json, rows, comma, frame.keys)
  json.json(frameEnd(frame))
  return json.finish()
}

export function frameStart({ total, offset, limit, format }: Frame): string {
  const counted = total === undefined ? '' : `"total":${total.total},${total.isExact ? '' : '"total_is_lower_bound":true,'}`
  return `{${counted}"offset":${offset},"limit":${JSON.stringify(limit)},"format":${JSON.stringify(format)},"messages":[`
}

export function frameEnd({ nextCursor }: Pick<Frame, 'nextCursor'>): string {
  return nextCursor === undefined ? ']}' : `],"next_cursor":${JSON.stringify(nextCursor)}}`
}

/**
 * Each row as JSON, with commas between them.
 *
 * @param isContinued others come before them: a comma does, too
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

/** Room for rows as they mostly are. */
function openJson(rows: readonly Row[]): JsonBytes {
  return new JsonBytes(1024 + rows.length * 320)
}

function writeRows(json: JsonBytes, rows: readonly Row[], divider: number, keys: RecordKeys = 'capitals'): void {
  const above = noHead()
  const parts = keyParts(keys)
  const ofDocument = { created: `,"${keyName('created', keys)}":`, payload: `,"${keyName('payload', keys)}":` }
  for (const row of rows) {
    if (above.row !== undefined) json.bytes[json.at++] = divider
    if (row.kind === 'senml') writeRecord(json, row, above, parts)
    else writeDocument(json, row, above, parts, ofDocument)
  }
}

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
 * A SenML record, its keys always in this order. Channel, Subtopic, Publisher, Protocol, Name and Time are always there, even when
 * empty; the others where the record has them (0, false and "" are values).
 */
export function recordJson(row: SenmlRow): string {
  return rowsBytes([row]).toString()
}

/** A JSON document: Created in whole nanoseconds, the payload in its canonical form. */
export function documentJson(row: DocumentRow): string {
  return rowsBytes([row]).toString()
}

function writeRecord(json: JsonBytes, row: SenmlRow, above: Above, parts: KeyParts): void {
  const { updateTime, value, stringValue, boolValue, dataValue, sum } = row
  const characters = (stringValue?.length ?? 0) + (dataValue?.length ?? 0)
  writeHead(json, row, above, characters * parts.stringValue.length, parts)
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
}

function writeDocument(
  json: JsonBytes,
  row: DocumentRow,
  above: Above,
  parts: KeyParts,
  keys: { readonly created: string; readonly payload: string },
): void {
  writeHead(json, row, above, 0, parts)
  json.json(`${keys.created}${row.createdNs}${keys.payload}${canonicalPayload(row.payloadText)}}`)
}

/** RFC 4648 §5, without padding, as SenML has it (RFC 8428 §4.3). */
export function base64url(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
}
