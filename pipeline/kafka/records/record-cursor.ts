// Walks the records of a chunk and reads the envelope of each (Kafka protocol guide, "Record"). This is on the hot path of a writer.
//
//   record    length varint · attributes int8 · timestampDelta varlong · offsetDelta varint · key · value · headerCount varint · headers
//   key       length varint, negative for null · bytes;   value and a header's value likewise
//   header    nameLength varint · name · value
//
// The key is the channel. Five headers belong to the envelope: of repeated names the last one counts, and a null or empty value
// counts as missing. Plain loops without an object per record: the payload is a view, and most texts are cached.
//
// The lengths of records were checked before (record-steps.ts), but not their content.

import { retainHeader } from '../../envelope-headers.ts'
import type { Header } from '../../log.ts'
import { emptyMessage, headerLimitRule, type MessageFault, noKey, type RawCursor, type RecordParts } from '../../source.ts'
import { corruptBatch } from './corrupt-batch.ts'
import { created, readCreated } from './created-header.ts'
import { EnvelopeHeader, envelopeHeaderAt, headerFaults, keyFault, noValue, timestampFault } from './envelope-header.ts'
import { idAt, RecentText, repeatedTextAt, textAt, textOf } from './known-texts.ts'
import { mediaType } from './media-type.ts'
import { readVarint, signedLongAt, varint } from './varint.ts'

const defaultProtocol = 'kafka'
const retainHeaderName = Buffer.from(retainHeader.key)
/** Milliseconds whose microseconds are safe integers. */
const timestampMsMax = Math.floor(Number.MAX_SAFE_INTEGER / 1000)

/** Records that lie together and count from the same offset and time: those of a batch, or of a part of it. */
export interface Segment {
  /** Places in the bytes. */
  readonly start: number
  readonly end: number
  readonly baseOffset: number
  /** As in the batch's head. */
  readonly timestampMs: number
  readonly appendTime: boolean
}

/** What a cursor walks. */
export interface ChunkContent {
  readonly topic: string
  readonly partition: number
  readonly bytes: Buffer
  readonly segments: readonly Segment[]
  /** A message with more has the fault `header-limit`, and none. */
  readonly headersMax: number
}

export function openRecordCursor({ topic, partition, bytes, segments, headersMax }: ChunkContent): RawCursor {
  const { buffer, byteOffset } = bytes
  const view = new DataView(buffer, byteOffset, bytes.byteLength)
  const recentSubtopic = new RecentText()
  const recentProtocol = new RecentText()
  const recentContentType = new RecentText()
  let nextSegment = 0
  let segment: Segment | undefined
  let at = 0
  let segmentEnd = 0
  // Positions in the current record, for dead letters and other layouts.
  let timestampAt = 0
  let keyAt = 0
  let keyLength = -1
  let valueLength = -1
  let headersAt = 0
  let headerCount = 0
  const message = emptyMessage()
  /** All faults of the present message; the first one is the message's. */
  const faults: MessageFault[] = []

  function next(): boolean {
    while (at === segmentEnd) {
      segment = segments[nextSegment++]
      if (segment === undefined) {
        nextSegment = segments.length
        return false
      }
      at = segment.start
      segmentEnd = segment.end
    }
    let here = readVarint(bytes, at)
    const end = here + (varint.value >>> 1)
    timestampAt = ++here
    while (bytes[here++]! > 0x7f);
    here = readVarint(bytes, here)
    message.offset = segment!.baseOffset + (varint.value >>> 1)
    if (faults.length > 0) faults.length = 0
    message.fault = undefined

    here = readVarint(bytes, here)
    keyLength = (varint.value >>> 1) ^ -(varint.value & 1)
    keyAt = here
    if (keyLength > 0) {
      if (keyLength > end - here) throw corrupt('the key')
      const channel = idAt(bytes, view, here, keyLength)
      here += keyLength
      message.channel = channel ?? ''
      if (channel === undefined) note(keyFault)
    } else {
      message.channel = ''
      note(noKey)
    }

    here = readVarint(bytes, here)
    valueLength = (varint.value >>> 1) ^ -(varint.value & 1)
    if (Math.max(valueLength, 0) > end - here) throw corrupt('the value')
    if (valueLength >= 0) {
      message.payload = new Uint8Array(buffer, byteOffset + here, valueLength)
      here += valueLength
    } else {
      message.payload = bytes.subarray(0, 0)
      note(noValue)
    }

    here = readVarint(bytes, here)
    if ((varint.value & 1) !== 0 || here > end) throw corrupt('the number of headers')
    headersAt = here
    headerCount = varint.value >>> 1
    if (2 * headerCount > end - here) throw corrupt('the number of headers')
    if (headerCount > headersMax) refuseHeaders(headerCount)
    else readEnvelope(end)
    at = end
    return true
  }

  /** Rejects a message with too many headers. They are neither read nor copied into the dead letter, because each takes a hundred bytes. */
  function refuseHeaders(count: number): void {
    headerCount = 0
    message.subtopic = ''
    message.publisher = ''
    message.protocol = defaultProtocol
    message.contentType = ''
    message.createdUs = 0
    message.createdRestNs = 0
    faults.unshift({
      rule: headerLimitRule,
      reason: `the message has ${count} headers, but only ${headersMax} are allowed`,
      hint: 'send fewer headers; the dead letter contains none of them',
    })
    message.fault = faults[0]
  }

  function note(fault: MessageFault | undefined): void {
    faults.push(fault!)
    message.fault = faults[0]
  }

  /** Reads the headers into the message and fills in missing fields. */
  function readEnvelope(end: number): void {
    // Undefined means not UTF-8.
    let subtopic: string | undefined = ''
    let publisher: string | undefined = ''
    let protocol: string | undefined = ''
    let contentType: string | undefined = ''
    let createdLength = 0
    let createdAt = 0
    let here = headersAt
    for (let left = headerCount; left > 0; left--) {
      here = readVarint(bytes, here)
      const nameLength = (varint.value & 1) === 0 ? varint.value >>> 1 : 0
      if (nameLength > end - here) throw corrupt("a header's name")
      const header = envelopeHeaderAt(view, here, nameLength)
      here = readVarint(bytes, here + nameLength)
      const length = (varint.value & 1) === 0 ? varint.value >>> 1 : 0
      if (length > end - here) throw corrupt("a header's value")
      switch (header) {
        case EnvelopeHeader.none:
          break
        case EnvelopeHeader.created:
          createdAt = here
          createdLength = length
          break
        case EnvelopeHeader.subtopic:
          subtopic = repeatedTextAt(bytes, view, recentSubtopic, here, length)
          break
        case EnvelopeHeader.publisher:
          publisher = idAt(bytes, view, here, length)
          break
        case EnvelopeHeader.protocol:
          protocol = repeatedTextAt(bytes, view, recentProtocol, here, length)
          break
        case EnvelopeHeader.contentType:
          contentType = repeatedTextAt(bytes, view, recentContentType, here, length)
      }
      here += length
    }
    if (here !== end) throw corrupt('the end')
    message.subtopic = subtopic ?? ''
    message.publisher = publisher ?? ''
    message.protocol = protocol === '' ? defaultProtocol : (protocol ?? '')
    message.contentType = mediaType(contentType ?? '')
    if (subtopic === undefined) note(headerFaults[EnvelopeHeader.subtopic])
    if (publisher === undefined) note(headerFaults[EnvelopeHeader.publisher])
    if (protocol === undefined) note(headerFaults[EnvelopeHeader.protocol])
    if (contentType === undefined) note(headerFaults[EnvelopeHeader.contentType])
    if (createdLength === 0) {
      readTimestamp()
    } else if (readCreated(bytes, view, createdAt, createdAt + createdLength)) {
      message.createdUs = created.us
      message.createdRestNs = created.restNs
    } else {
      message.createdUs = 0
      message.createdRestNs = 0
      note(headerFaults[EnvelopeHeader.created])
    }
  }

  /** Sets `created` from the record's timestamp, or from the broker's if the topic uses append times. */
  function readTimestamp(): void {
    const us = timestampUs()
    message.createdRestNs = 0
    message.createdUs = us ?? 0
    if (us === undefined) note(timestampFault)
  }

  function timestampUs(): number | undefined {
    const { timestampMs, appendTime } = segment!
    const ms = appendTime ? timestampMs : timestampMs + signedLongAt(bytes, timestampAt)
    // A record without a timestamp.
    if (ms === -1) return 0
    return ms >= -timestampMsMax && ms <= timestampMsMax ? ms * 1000 : undefined
  }

  const parts: RecordParts = {
    keyText: () => (keyLength > 0 ? textAt(bytes, view, keyAt, keyLength) : null),
    headerText(name) {
      let valueAt = 0
      let valueBytes = 0
      let here = headersAt
      for (let left = headerCount; left > 0; left--) {
        here = readVarint(bytes, here)
        const nameAt = here
        const nameLength = varint.value >>> 1
        here = readVarint(bytes, nameAt + nameLength)
        const length = Math.max((varint.value >>> 1) ^ -(varint.value & 1), 0)
        if (nameLength === name.length && isAt(name, nameAt)) {
          valueAt = here
          valueBytes = length
        }
        here += length
      }
      return valueBytes === 0 ? null : textAt(bytes, view, valueAt, valueBytes)
    },
    timestampUs,
    faultOutside: parts => faults.find(({ part }) => part === undefined || !parts.has(part)),
  }

  function isAt(name: Uint8Array, nameAt: number): boolean {
    for (let at = 0; at < name.length; at++) if (bytes[nameAt + at] !== name[at]) return false
    return true
  }

  function copyOf(start: number, length: number): Uint8Array {
    return new Uint8Array(bytes.subarray(start, start + length))
  }

  function corrupt(part: string): Error {
    const where = { topic, partition, offset: message.offset }
    return corruptBatch(where, `${part} of the record at offset ${message.offset} does not fit into its length`)
  }

  return {
    message,
    next,
    parts,
    key: () => (keyLength < 0 ? null : copyOf(keyAt, keyLength)),
    isRetained: () => parts.headerText(retainHeaderName) === retainHeader.value,
    headers() {
      const headers: Header[] = []
      let here = headersAt
      for (let left = headerCount; left > 0; left--) {
        here = readVarint(bytes, here)
        const nameLength = (varint.value & 1) === 0 ? varint.value >>> 1 : 0
        const key = bytes.toString('utf8', here, here + nameLength)
        here = readVarint(bytes, here + nameLength)
        const length = (varint.value >>> 1) ^ -(varint.value & 1)
        if (length < 0) {
          headers.push({ key, value: null })
          continue
        }
        const value = textOf(bytes, here, here + length)
        headers.push({ key, value: value ?? copyOf(here, length) })
        here += length
      }
      return headers
    },
  }
}
