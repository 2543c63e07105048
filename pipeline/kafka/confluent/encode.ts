// Frames a message like Confluent's serializers. This is on the hot path of ingest.
//
//   value     magic int8 = 0 · schema id int32 · record
//   record    channel · subtopic · publisher · protocol · created · content_type · payload    in the order of envelope-schema.ts
//             string or bytes: length long · bytes;   created: long
//
// The key stays the channel, and the sender's headers are unchanged; there are no envelope headers.

import type { Header, OutgoingMessage } from '../../log.ts'
import { writeLength, writeTimestamp } from './avro/long.ts'

/** Bytes before the record. */
export const frameBytes = 5
const longBytesMax = 10
const lengths = 6
/** UTF-8 takes at most this many bytes per UTF-16 code unit. */
const bytesPerUnit = 3
/** The largest length that fits into one byte. */
const shortMax = 63

const none: readonly Header[] = []

/** Prepares a message to be framed with this schema. A message with its own key is returned unchanged: it is already encoded. */
export function frame(message: OutgoingMessage, schemaId: number): OutgoingMessage {
  if (message.key !== undefined) return message
  const { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, headers } = message
  const key = channel === '' ? null : Buffer.from(channel)
  const payload = encodeFrame(message, schemaId)
  // Without spread, which would cost as much as framing.
  return { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload, headers: headers ?? none, key }
}

/** Encodes the value for the log, in a new buffer. Lone surrogates become U+FFFD. */
export function encodeFrame(message: OutgoingMessage, schemaId: number): Buffer {
  const { channel, subtopic, publisher, protocol, contentType, payload } = message
  const units = channel.length + subtopic.length + publisher.length + protocol.length + contentType.length
  const bytes = Buffer.allocUnsafe(frameBytes + (lengths + 1) * longBytesMax + units * bytesPerUnit + payload.length)
  bytes[0] = 0
  bytes.writeInt32BE(schemaId, 1)
  let at = writeText(bytes, frameBytes, channel)
  at = writeText(bytes, at, subtopic)
  at = writeText(bytes, at, publisher)
  at = writeText(bytes, at, protocol)
  at = writeTimestamp(bytes, at, message.createdUs, message.createdRestNs)
  at = writeText(bytes, at, contentType)
  at = writeLength(bytes, at, payload.length)
  bytes.set(payload, at)
  return bytes.subarray(0, at + payload.length)
}

/** Writes a text as UTF-8. Short texts are mostly ASCII, for which a loop is faster than a call into the engine. */
function writeText(bytes: Buffer, at: number, text: string): number {
  const units = text.length
  if (units <= shortMax) {
    let unit = 0
    for (; unit < units; unit++) {
      const code = text.charCodeAt(unit)
      if (code > 0x7f) break
      bytes[at + 1 + unit] = code
    }
    if (unit === units) {
      bytes[at] = 2 * units
      return at + 1 + units
    }
  }
  at = writeLength(bytes, at, Buffer.byteLength(text))
  return at + bytes.write(text, at)
}
