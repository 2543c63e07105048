// Walks the messages of a run whose values are framed Avro records: the hot path of a writer with `encoding = "confluent"`.
//
//   value   magic int8 = 0 · schema id int32 · record
//
// The record's parts become the message. Without a channel the key is one; without an instant it is that of the message around the
// frame; what else is missing is as everywhere (../README.md). Headers are the sender's, and none speaks for the envelope.
//
// Plain loops without an object for a record, as in ../record-cursor.ts: only the payload is a view, and texts are mostly known.

import { emptyMessage, type MessageFault, type RawCursor } from '../../source.ts'
import { noValue, timestampFault } from '../envelope-header.ts'
import { RecentText, repeatedTextAt, textAt } from '../known-texts.ts'
import { mediaType } from '../media-type.ts'
import { instant, length, longToInstant, readLength, readLong } from './avro-long.ts'
import { branchOf, Kind, skip } from './avro-shape.ts'
import { frameBytes } from './encode.ts'
import { brokenRecord, createdFault, noMagic, noPayload, noText, tombstone } from './faults.ts'
import { Part, type RecordPlan, type Step } from './record-plan.ts'

/** How the messages of a schema are read, or why they are not. */
export type Decoding = RecordPlan | MessageFault

/** By the id of the schema: at least those of the run. */
export type Decodings = ReadonlyMap<number, Decoding>

const defaultProtocol = 'kafka'
const noBytes = new Uint8Array(0)

/**
 * The id of the schema that a value is framed under.
 *
 * @returns -1 where it is not framed
 */
export function schemaIdOf(value: Uint8Array): number {
  if (value.length < frameBytes || value[0] !== 0) return -1
  const id = (value[1]! << 24) | (value[2]! << 16) | (value[3]! << 8) | value[4]!
  return id < 0 ? -1 : id
}

/** @param cursor of the same run without its framing; nobody else may move it */
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
  // Of the record at hand: what it had, by the bits of its parts.
  let found = 0
  let notText = false
  let outOfRange = false
  const message = emptyMessage()

  function next(): boolean {
    if (!cursor.next()) return false
    const value = raw.payload
    message.offset = raw.offset
    message.subtopic = ''
    message.publisher = ''
    message.protocol = defaultProtocol
    message.contentType = ''
    message.createdRestNs = 0
    const id = schemaIdOf(value)
    if (id === -1) {
      refuse(raw.fault === noValue ? tombstone : noMagic)
      return true
    }
    if (id !== decodingId || decoding === undefined) {
      decodingId = id
      decoding = decodings.get(id)
      if (decoding === undefined) throw new Error(`the schema ${id} was not looked up before its run was handed out`)
    }
    if ('rule' in decoding) {
      refuse(decoding)
      return true
    }
    found = 0
    notText = false
    outOfRange = false
    message.fault = undefined
    if (!readRecord(decoding, value)) refuse(notText ? noText : brokenRecord)
    else if ((found & (1 << Part.payload)) === 0) refuse(noPayload)
    else fillIn()
    return true
  }

  /** What the record lacks. */
  function fillIn(): void {
    if ((found & (1 << Part.channel)) === 0) {
      message.channel = raw.channel
      if (raw.channel === '') message.fault = raw.fault
    }
    if ((found & (1 << Part.created)) === 0) {
      message.createdUs = raw.createdUs
      message.createdRestNs = raw.createdRestNs
      if (raw.fault === timestampFault) message.fault ??= timestampFault
    }
    if (outOfRange) message.fault ??= createdFault
  }

  /** Nothing of the record counts, not even its channel: who looks for the message has its key. */
  function refuse(why: MessageFault): void {
    message.fault = why
    message.channel = raw.channel
    message.subtopic = ''
    message.publisher = ''
    message.protocol = defaultProtocol
    message.contentType = ''
    message.createdUs = raw.createdUs
    message.createdRestNs = raw.createdRestNs
    message.payload = noBytes
  }

  /** Reads the record of a value into the message; false where it is none of its schema. */
  function readRecord({ steps, unitNs }: RecordPlan, value: Uint8Array): boolean {
    if (value.buffer !== buffer) turnTo(value.buffer)
    const end = value.byteOffset + value.length
    let at = value.byteOffset + frameBytes
    for (let each = 0; each < steps.length; each++) {
      const step = steps[each]!
      at = step.part === Part.none ? skip(step.shape, bytes, at, end) : readPart(step, at, end, unitNs)
      if (at > end) return false
    }
    return at === end
  }

  /** Mostly once for each run: its values lie in one piece of memory. */
  function turnTo(memory: ArrayBufferLike): void {
    buffer = memory
    bytes = Buffer.from(memory)
    view = new DataView(memory)
    recentSubtopic = new RecentText()
    recentProtocol = new RecentText()
    recentContentType = new RecentText()
  }

  /** The place behind it; beyond `end` where it cannot be read. */
  function readPart({ part, shape }: Step, at: number, end: number, unitNs: number): number {
    let kind = shape.kind
    if (kind === Kind.union) {
      at = readLong(bytes, at, end)
      const branch = at > end ? undefined : branchOf(shape)
      if (branch === undefined) return end + 1
      kind = branch.kind
      if (kind === Kind.nothing) return at
    }
    if (part === Part.created) {
      if (kind !== Kind.long) return end + 1
      at = readLong(bytes, at, end)
      if (at > end) return at
      found |= 1 << part
      if (longToInstant(unitNs)) {
        message.createdUs = instant.us
        message.createdRestNs = instant.restNs
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
      part === Part.channel || part === Part.publisher
        ? textAt(bytes, view, at, size)
        : repeatedTextAt(bytes, view, recentOf(part), at, size)
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

  return { message, next, key: () => cursor.key(), headers: () => cursor.headers(), value: () => new Uint8Array(raw.payload) }
}
