// Frames a message as Confluent's serializers do: the hot path of ingest.
//
//   value     magic int8 = 0 · schema id int32 · record
//   record    channel · subtopic · publisher · protocol · created · content_type · payload    in the order of envelope-schema.ts
//             a text or bytes: length long · bytes;   created: long
//
// The key stays the channel, and the sender's headers stay as they are; none is written for the envelope.

import type { Header, OutgoingMessage } from '../../log.ts'
import { writeInstant, writeLength } from './avro-long.ts'

/** What stands before the record. */
export const frameBytes = 5
const longBytesMax = 10
const lengths = 6
/** UTF-8 takes no more for a UTF-16 unit. */
const bytesPerUnit = 3
/** A length that fits into one byte. */
const shortMax = 63

const none: readonly Header[] = []

/** A message that is to be framed under this schema. One that has a key of its own is not touched: it lies as it was. */
export function frame(message: OutgoingMessage, schemaId: number): OutgoingMessage {
  if (message.key !== undefined) return message
  const { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, headers } = message
  const key = channel === '' ? null : Buffer.from(channel)
  const payload = encodeFrame(message, schemaId)
  // Not by spread, which costs as much as the frame.
  return { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload, headers: headers ?? none, key }
}

/** The value as it lies in the log, in bytes of its own. Lone surrogates become U+FFFD. */
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
  at = writeInstant(bytes, at, message.createdUs, message.createdRestNs)
  at = writeText(bytes, at, contentType)
  at = writeLength(bytes, at, payload.length)
  bytes.set(payload, at)
  return bytes.subarray(0, at + payload.length)
}

/** A text as UTF-8. Short ones are ASCII mostly, for which a call into the engine costs more than the loop. */
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
