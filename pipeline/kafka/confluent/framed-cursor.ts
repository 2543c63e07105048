// Walks the messages of a chunk whose values are framed Avro records or framed JSON. This is on the hot path of a writer with `encoding = "confluent"`.
//
//   value   magic int8 = 0 · schema id int32 · record or JSON
//
// The message is built from the record's fields; JSON is its payload. A missing channel is taken from the key, a missing time from the Kafka
// message; other missing fields get the usual defaults (../README.md). Headers are the sender's; none is read as part of the envelope.
//
// Plain loops without an object per record, as in ../records/record-cursor.ts: the payload is a view, and most texts are cached.

import { emptyMessage, headerLimitRule, type MessageFault, type RawCursor } from '../../source.ts'
import { noValue, timestampFault } from '../records/envelope-header.ts'
import { idAt, RecentText, repeatedTextAt } from '../records/known-texts.ts'
import { mediaType } from '../records/media-type.ts'
import { length, long, longToTimestamp, readLength, readLong, timestamp } from './avro/long.ts'
import { branchOf, Kind, skip } from './avro/shape.ts'
import { frameBytes } from './encode.ts'
import { brokenRecord, farCreated, noMagic, noPayload, noText, tombstone } from './faults.ts'
import { Part, type RecordPlan, type Step } from './record-plan.ts'

/** How to decode messages of a schema, or why they cannot be decoded. */
export type Decoding = RecordPlan | MessageFault

/** By schema id; contains at least those of the chunk. */
export type Decodings = ReadonlyMap<number, Decoding>

const defaultProtocol = 'kafka'
const noBytes = new Uint8Array(0)

/**
 * The schema id of a framed value.
 *
 * @returns -1 if it is not framed
 */
export function schemaIdOf(value: Uint8Array): number {
  if (value.length < frameBytes || value[0] !== 0) return -1
  const id = (value[1]! << 24) | (value[2]! << 16) | (value[3]! << 8) | value[4]!
  return id < 0 ? -1 : id
}

/** @param cursor of the same chunk, undecoded; no other code may move it */
export function openFramedCursor(cursor: RawCursor, decodings: Decodings): RawCursor {
  const raw = cursor.message
  let buffer: ArrayBufferLike | undefined
  let bytes: Buffer = Buffer.alloc(0)
  let view = new DataView<ArrayBufferLike>(bytes.buffer)
  let recentSubtopic = new RecentText()
  let recentProtocol = new RecentText()
  let recentContentType = new RecentText()
  let decodingId = -1
  let decoding: Decoding | undefined
  // The fields present in the current record, as bits of their parts.
  let found = 0
  let notText = false
  let outOfRange = false
  /** All faults of the present message; the first one is the message's. */
  const faults: MessageFault[] = []
  const message = emptyMessage()

  function next(): boolean {
    if (!cursor.next()) return false
    const value = raw.payload
    faults.length = 0
    message.fault = undefined
    message.offset = raw.offset
    message.subtopic = ''
    message.publisher = ''
    message.protocol = defaultProtocol
    message.contentType = ''
    message.createdRestNs = 0
    if (raw.fault?.rule === headerLimitRule) {
      refuse(raw.fault)
      return true
    }
    const id = schemaIdOf(value)
    if (id === -1) {
      refuse(raw.fault === noValue ? tombstone : noMagic)
      return true
    }
    if (id !== decodingId || decoding === undefined) {
      decodingId = id
      decoding = decodings.get(id)
      if (decoding === undefined) throw new Error(`the schema ${id} was not looked up before its chunk was returned`)
    }
    if ('rule' in decoding) {
      refuse(decoding)
      return true
    }
    found = 0
    notText = false
    outOfRange = false
    if (!readRecord(decoding, value)) refuse(notText ? noText : brokenRecord)
    else if ((found & (1 << Part.payload)) === 0) refuse(noPayload)
    else fillIn()
    return true
  }

  /** Fills in missing fields of the record. */
  function fillIn(): void {
    if ((found & (1 << Part.channel)) === 0) {
      message.channel = raw.channel
      if (raw.channel === '') note(raw.fault!)
    }
    if ((found & (1 << Part.created)) === 0) {
      message.createdUs = raw.createdUs
      message.createdRestNs = raw.createdRestNs
      if (raw.fault === timestampFault) note(timestampFault)
    }
    if (outOfRange) note(farCreated)
  }

  function note(fault: MessageFault): void {
    faults.push(fault)
    message.fault = faults[0]
  }

  /** Ignores all fields of the record, including its channel; the message can still be found by its key. */
  function refuse(why: MessageFault): void {
    note(why)
    message.channel = raw.channel
    message.subtopic = ''
    message.publisher = ''
    message.protocol = defaultProtocol
    message.contentType = ''
    message.createdUs = raw.createdUs
    message.createdRestNs = raw.createdRestNs
    message.payload = noBytes
  }

  /** Decodes the record of a value into the message; returns false if it does not match its schema. */
  function readRecord({ steps, createdUnitsNs, isPayload }: RecordPlan, value: Uint8Array): boolean {
    if (value.buffer !== buffer) turnTo(value.buffer)
    const end = value.byteOffset + value.length
    let at = value.byteOffset + frameBytes
    if (isPayload) {
      message.payload = new Uint8Array(buffer!, at, end - at)
      found = 1 << Part.payload
      return true
    }
    for (let each = 0; each < steps.length; each++) {
      const step = steps[each]!
      at = step.part === Part.none ? skip(step.shape, bytes, at, end) : readPart(step, at, end, createdUnitsNs)
      if (at > end) return false
    }
    return at === end
  }

  /** Usually called once per chunk, whose values are in one buffer. */
  function turnTo(memory: ArrayBufferLike): void {
    buffer = memory
    bytes = Buffer.from(memory)
    view = new DataView(memory)
    recentSubtopic = new RecentText()
    recentProtocol = new RecentText()
    recentContentType = new RecentText()
  }

  /** Reads one part. Returns the index after it; beyond `end` if it cannot be read. */
  function readPart({ part, shape }: Step, at: number, end: number, createdUnitsNs: readonly number[]): number {
    let kind = shape.kind
    let branchAt = 0
    if (kind === Kind.union) {
      at = readLong(bytes, at, end)
      const branch = at > end ? undefined : branchOf(shape)
      if (branch === undefined) return end + 1
      branchAt = long.low
      kind = branch.kind
      if (kind === Kind.nothing) return at
    }
    if (part === Part.created) {
      const unitNs = createdUnitsNs[branchAt]!
      if (unitNs === 0) return end + 1
      at = readLong(bytes, at, end)
      if (at > end) return at
      found |= 1 << part
      if (longToTimestamp(unitNs)) {
        message.createdUs = timestamp.us
        message.createdRestNs = timestamp.restNs
      } else {
        message.createdUs = 0
        message.createdRestNs = 0
        outOfRange = true
      }
      return at
    }
    if (kind !== Kind.bytes) return end + 1
    at = readLength(bytes, at, end)
    if (at > end) return at
    const size = length.value
    if (part === Part.payload) {
      message.payload = new Uint8Array(buffer!, at, size)
      found |= 1 << part
      return at + size
    }
    if (size === 0) return at
    const text =
      part === Part.channel || part === Part.publisher ? idAt(bytes, view, at, size) : repeatedTextAt(bytes, view, recentOf(part), at, size)
    if (text === undefined) {
      notText = true
      return end + 1
    }
    found |= 1 << part
    if (part === Part.channel) message.channel = text
    else if (part === Part.subtopic) message.subtopic = text
    else if (part === Part.publisher) message.publisher = text
    else if (part === Part.protocol) message.protocol = text
    else message.contentType = mediaType(text)
    return at + size
  }

  function recentOf(part: Part): RecentText {
    return part === Part.subtopic ? recentSubtopic : part === Part.protocol ? recentProtocol : recentContentType
  }

  return {
    message,
    next,
    key: () => cursor.key(),
    headers: () => cursor.headers(),
    isRetained: () => cursor.isRetained?.() === true,
    value: () => new Uint8Array(raw.payload),
    ...(cursor.parts === undefined
      ? {}
      : { parts: { ...cursor.parts, faultOutside: parts => faults.find(({ part }) => part === undefined || !parts.has(part)) } }),
  }
}
