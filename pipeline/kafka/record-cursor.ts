// Walks the records of a run and reads the envelope of each (Kafka protocol guide, "Record"): the hot path of a writer.
//
//   record    length varint · attributes int8 · timestampDelta varlong · offsetDelta varint · key · value · headerCount varint · headers
//   key       length varint, negative for null · bytes;   value and a header's value likewise
//   header    nameLength varint · name · value
//
// The key is the channel. Of the headers, five are the envelope's: a name that comes twice has its last value, and one that is null or
// empty counts as missing. Plain loops without an object for a record: only its payload is a view, and its texts are mostly known.
//
// The lengths of records are known to be right (record-steps.ts); what is inside is not.

import type { Header } from '../log.ts'
import { emptyMessage, noKey, type RawCursor } from '../source.ts'
import { corruptBatch } from './corrupt-batch.ts'
import { created, readCreated } from './created.ts'
import { EnvelopeHeader, envelopeHeaderAt, headerFaults, keyFault, noValue, timestampFault } from './envelope-header.ts'
import { RecentText, repeatedTextAt, textAt, textOf } from './known-texts.ts'
import { mediaType } from './media-type.ts'
import type { RunContent, Segment } from './run.ts'
import { readVarint, signedLongAt, varint } from './varint.ts'

const defaultProtocol = 'kafka'
/** A header of two bytes costs a hundred once it is read, and a batch that expands can hold millions. */
const headersMax = 1000
/** Milliseconds whose microseconds are safe integers. */
const timestampMsMax = Math.floor(Number.MAX_SAFE_INTEGER / 1000)

export function openRecordCursor({ topic, partition, bytes, segments }: RunContent): RawCursor {
  const { buffer, byteOffset } = bytes
  const view = new DataView(buffer, byteOffset, bytes.byteLength)
  const recentSubtopic = new RecentText()
  const recentProtocol = new RecentText()
  const recentContentType = new RecentText()
  let nextSegment = 0
  let segment: Segment | undefined
  let at = 0
  let segmentEnd = 0
  // Of the record at hand, for dead letters.
  let keyAt = 0
  let keyLength = -1
  let headersAt = 0
  let headerCount = 0
  const message = emptyMessage()

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
    const timestampAt = ++here
    while (bytes[here++]! > 0x7f);
    here = readVarint(bytes, here)
    message.offset = segment!.baseOffset + (varint.value >>> 1)
    message.fault = undefined

    here = readVarint(bytes, here)
    keyLength = (varint.value >>> 1) ^ -(varint.value & 1)
    keyAt = here
    if (keyLength > 0) {
      if (keyLength > end - here) throw corrupt('the key')
      const channel = textAt(bytes, view, here, keyLength)
      here += keyLength
      message.channel = channel ?? ''
      if (channel === undefined) message.fault = keyFault
    } else {
      message.channel = ''
      message.fault = noKey
    }

    here = readVarint(bytes, here)
    const valueLength = (varint.value >>> 1) ^ -(varint.value & 1)
    if (Math.max(valueLength, 0) > end - here) throw corrupt('the value')
    if (valueLength >= 0) {
      message.payload = new Uint8Array(buffer, byteOffset + here, valueLength)
      here += valueLength
    } else {
      message.payload = bytes.subarray(0, 0)
      message.fault ??= noValue
    }

    here = readVarint(bytes, here)
    if ((varint.value & 1) !== 0 || here > end) throw corrupt('the number of headers')
    headersAt = here
    headerCount = varint.value >>> 1
    if (2 * headerCount > end - here) throw corrupt('the number of headers')
    if (headerCount > headersMax) refuseHeaders(headerCount)
    else readEnvelope(end, timestampAt)
    at = end
    return true
  }

  /** Nothing of them is read, and nothing of them gets into the dead letter: each costs a hundred times its two bytes. */
  function refuseHeaders(count: number): void {
    headerCount = 0
    message.subtopic = ''
    message.publisher = ''
    message.protocol = defaultProtocol
    message.contentType = ''
    message.createdUs = 0
    message.createdRestNs = 0
    message.fault = {
      rule: 'header-limit',
      reason: `the message has ${count} headers, and ${headersMax} are allowed`,
      hint: 'send fewer; the dead letter has none of them',
    }
  }

  /** Reads the headers into the message and fills in what is missing. */
  function readEnvelope(end: number, timestampAt: number): void {
    // Undefined is what is no text.
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
          publisher = textAt(bytes, view, here, length)
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
    if (subtopic === undefined) message.fault ??= headerFaults[EnvelopeHeader.subtopic]
    if (publisher === undefined) message.fault ??= headerFaults[EnvelopeHeader.publisher]
    if (protocol === undefined) message.fault ??= headerFaults[EnvelopeHeader.protocol]
    if (contentType === undefined) message.fault ??= headerFaults[EnvelopeHeader.contentType]
    if (createdLength === 0) {
      readTimestamp(timestampAt)
    } else if (readCreated(bytes, view, createdAt, createdAt + createdLength)) {
      message.createdUs = created.us
      message.createdRestNs = created.restNs
    } else {
      message.createdUs = 0
      message.createdRestNs = 0
      message.fault ??= headerFaults[EnvelopeHeader.created]
    }
  }

  /** `created` from the record's own timestamp, or the broker's where the topic has that. */
  function readTimestamp(timestampAt: number): void {
    const { timestampMs, appendTime } = segment!
    const ms = appendTime ? timestampMs : timestampMs + signedLongAt(bytes, timestampAt)
    message.createdRestNs = 0
    message.createdUs = 0
    // A record without a timestamp.
    if (ms === -1) return
    if (ms >= -timestampMsMax && ms <= timestampMsMax) message.createdUs = ms * 1000
    else message.fault ??= timestampFault
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
    key: () => (keyLength < 0 ? null : copyOf(keyAt, keyLength)),
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
