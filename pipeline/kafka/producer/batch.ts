// Encodes messages into a record batch, message format 2 (Kafka protocol guide, "Record Batch"). This is on the hot path of ingest.
//
//   record batch    baseOffset int64 = 0 · batchLength int32 · partitionLeaderEpoch int32 · magic int8 = 2 · crc uint32
//                   attributes int16 = 0 · lastOffsetDelta int32 · baseTimestamp int64 · maxTimestamp int64
//                   producerId int64 · producerEpoch int16 · baseSequence int32 · count int32 · records
//   record          length varint · attributes int8 = 0 · timestampDelta varlong = 0 · offsetDelta varint · key · value
//                   headerCount varint · headers
//
// The key is the channel, or the given key bytes. The envelope headers follow the sender's own, because of repeated names
// the last one counts. All records have the batch's timestamp, the time of the append, on which retention is based.
//
// Plain loops and one growing buffer, without an object per message or header: the client's own encoder allocates a small buffer for
// each field.

import type { OutgoingMessage } from '../../log.ts'
import { crc32c } from '../records/crc32c.ts'
import { writeSigned } from '../records/varint.ts'

/** The producer of a batch, and the batch's sequence number in the partition: brokers accept each sequence number once. */
export interface ProducerSequence {
  readonly producerId: bigint
  readonly epoch: number
  readonly sequence: number
}

const recordsAt = 61
const crcAt = 17
const attributesAt = 21
/** The largest length in a one-byte varint, and the bytes reserved for a record's length, which usually takes two. */
const shortMax = 63
const lengthGuess = 2
const varintBytesMax = 5
/** Size of a record in addition to its texts, key, payload and headers: lengths, names and the timestamp. */
const recordOverheadMax = 192
const headerOverheadMax = 2 * varintBytesMax
/** UTF-8 takes at most this many bytes per UTF-16 code unit. */
const bytesPerUnit = 3

/** The most memory that is kept after a large batch. */
const keptBytesMax = 2 * 1024 * 1024

// Only one batch is encoded at a time, so the buffer and the index can be module variables, and the loops below need no object.
let bytes = Buffer.allocUnsafeSlow(256 * 1024)
let end = 0

/**
 * The encoded batch, in a new buffer.
 *
 * @param timestampMs of every record, milliseconds since 1970
 */
export function encodeBatch(messages: readonly OutgoingMessage[], producer: ProducerSequence, timestampMs: number): Buffer {
  end = recordsAt
  for (let at = 0; at < messages.length; at++) putRecord(messages[at]!, at)
  const lastOffsetDelta = messages.length - 1
  const timestamp = BigInt(timestampMs)
  bytes.fill(0, 0, recordsAt)
  bytes.writeInt32BE(end - 12, 8)
  bytes.writeInt32BE(-1, 12)
  bytes[16] = 2
  bytes.writeInt32BE(lastOffsetDelta, 23)
  bytes.writeBigInt64BE(timestamp, 27)
  bytes.writeBigInt64BE(timestamp, 35)
  bytes.writeBigInt64BE(producer.producerId, 43)
  bytes.writeInt16BE(producer.epoch, 51)
  bytes.writeInt32BE(producer.sequence, 53)
  bytes.writeInt32BE(messages.length, 57)
  bytes.writeUInt32BE(crc32c(bytes.subarray(attributesAt, end)), crcAt)
  const batch = Buffer.copyBytesFrom(bytes, 0, end)
  if (bytes.length > keptBytesMax) bytes = Buffer.allocUnsafeSlow(keptBytesMax)
  return batch
}

function putRecord(message: OutgoingMessage, offsetDelta: number): void {
  reserve(sizeMax(message))
  const start = end
  end += lengthGuess
  bytes[end++] = 0
  bytes[end++] = 0
  end = writeSigned(bytes, end, offsetDelta)
  if (message.key === null || (message.key === undefined && message.channel === '')) end = writeSigned(bytes, end, -1)
  else if (message.key !== undefined) putBytes(message.key)
  else putText(message.channel)
  if (message.isTombstone === true) end = writeSigned(bytes, end, -1)
  else putBytes(message.payload)
  putHeaders(message)
  closeLength(start)
}

/** Writes the length of the record at `start` in front of it, and moves the record if the length does not take exactly the reserved bytes. */
function closeLength(start: number): void {
  const bodyAt = start + lengthGuess
  const length = end - bodyAt
  const lengthBytes = length <= shortMax ? 1 : length < 8192 ? 2 : length < 1_048_576 ? 3 : length < 134_217_728 ? 4 : 5
  if (lengthBytes !== lengthGuess) {
    bytes.copyWithin(start + lengthBytes, bodyAt, end)
    end += lengthBytes - lengthGuess
  }
  writeSigned(bytes, start, length)
}

/** A header name with its length prefix. */
function named(name: string): Uint8Array {
  return Uint8Array.from([2 * name.length, ...Buffer.from(name, 'latin1')])
}
const subtopic = named('subtopic')
const publisher = named('publisher')
const protocol = named('protocol')
const created = named('created')
const contentType = named('content-type')

function putHeaders(message: OutgoingMessage): void {
  const { headers } = message
  const own = message.key !== undefined ? 0 : message.contentType === '' ? 4 : 5
  end = writeSigned(bytes, end, headers === undefined ? own : own + headers.length)
  if (headers !== undefined) {
    for (const { key, value } of headers) {
      putText(key)
      if (value === null) end = writeSigned(bytes, end, -1)
      else if (typeof value === 'string') putText(value)
      else putBytes(value)
    }
  }
  if (own === 0) return
  putName(subtopic)
  putText(message.subtopic)
  putName(publisher)
  putText(message.publisher)
  putName(protocol)
  putText(message.protocol)
  putName(created)
  putText(nanoseconds(message.createdUs, message.createdRestNs))
  if (own === 5) {
    putName(contentType)
    putText(message.contentType)
  }
}

/** The instant in decimal nanoseconds. */
function nanoseconds(createdUs: number, createdRestNs: number): string {
  if (createdUs > 0 && createdRestNs === 0) return `${createdUs}000`
  return (BigInt(createdUs) * 1000n + BigInt(createdRestNs)).toString()
}

function putName(name: Uint8Array): void {
  for (let at = 0; at < name.length; at++) bytes[end++] = name[at]!
}

function putBytes(value: Uint8Array): void {
  end = writeSigned(bytes, end, value.length)
  bytes.set(value, end)
  end += value.length
}

/** Writes a text as UTF-8; lone surrogates become U+FFFD. Short texts are mostly ASCII, for which a loop is faster than a call into the engine. */
function putText(text: string): void {
  const { length } = text
  if (length <= shortMax) {
    let at = end
    bytes[at++] = 2 * length
    let each = 0
    for (; each < length; each++) {
      const unit = text.charCodeAt(each)
      if (unit > 0x7f) break
      bytes[at++] = unit
    }
    if (each === length) {
      end = at
      return
    }
  }
  end = writeSigned(bytes, end, Buffer.byteLength(text))
  end += bytes.write(text, end)
}

function sizeMax({ channel, subtopic, publisher, protocol, contentType, payload, key, headers }: OutgoingMessage): number {
  const units = channel.length + subtopic.length + publisher.length + protocol.length + contentType.length
  let size = recordOverheadMax + units * bytesPerUnit + payload.length + (key?.length ?? 0)
  if (headers !== undefined) {
    for (const { key, value } of headers) size += headerOverheadMax + (key.length + (value === null ? 0 : value.length)) * bytesPerUnit
  }
  return size
}

function reserve(size: number): void {
  if (end + size <= bytes.length) return
  const larger = Buffer.allocUnsafeSlow(Math.max(2 * bytes.length, end + size))
  bytes.copy(larger, 0, 0, end)
  bytes = larger
}
