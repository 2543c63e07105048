// A record batch made of messages, message format 2 (Kafka protocol guide, "Record Batch"): the hot path of ingest.
//
//   record batch    baseOffset int64 = 0 · batchLength int32 · partitionLeaderEpoch int32 · magic int8 = 2 · crc uint32
//                   attributes int16 = 0 · lastOffsetDelta int32 · baseTimestamp int64 · maxTimestamp int64
//                   producerId int64 · producerEpoch int16 · baseSequence int32 · count int32 · records
//   record          length varint · attributes int8 = 0 · timestampDelta varlong = 0 · offsetDelta varint · key · value
//                   headerCount varint · headers
//
// The key is the channel, or the bytes given as one; the envelope follows the sender's own headers, since of a name that comes twice
// the last one counts. All records have the batch's timestamp, the time of the append: retention counts from it.
//
// Plain loops and one buffer that grows, without an object for a message or header: the client's own encoder takes a small buffer for
// each field (README.md has the figures).

import type { OutgoingMessage } from '../log.ts'
import { crc32c } from './crc32c.ts'
import { writeSigned } from './varint.ts'

/** Which producer a batch is from, and its place among that producer's records of the partition: brokers take each place once. */
export interface ProducerPlace {
  readonly producerId: bigint
  readonly epoch: number
  readonly sequence: number
}

const recordsAt = 61
const crcAt = 17
const attributesAt = 21
/** A length that fits into one byte of a varint, and the bytes kept free for that of a record, which mostly takes two. */
const shortMax = 63
const lengthGuess = 2
const varintBytesMax = 5
/** What a record takes beside its texts, key, payload and headers: lengths, names and the instant. */
const recordOverheadMax = 192
const headerOverheadMax = 2 * varintBytesMax
/** UTF-8 takes no more for a UTF-16 unit. */
const bytesPerUnit = 3

/** What is kept of the room that a large batch needed. */
const keptBytesMax = 2 * 1024 * 1024

// One batch is made at a time, so that the room for it and the place in it can be the module's, and the loops below need no object.
let bytes = Buffer.allocUnsafeSlow(256 * 1024)
let place = 0

/**
 * The batch as it goes to the broker, in bytes of its own.
 *
 * @param timestampMs of every record, milliseconds since 1970
 */
export function encodeBatch(messages: readonly OutgoingMessage[], producer: ProducerPlace, timestampMs: number): Buffer {
  place = recordsAt
  for (let at = 0; at < messages.length; at++) putRecord(messages[at]!, at)
  const lastOffsetDelta = messages.length - 1
  const timestamp = BigInt(timestampMs)
  bytes.fill(0, 0, recordsAt)
  bytes.writeInt32BE(place - 12, 8)
  bytes.writeInt32BE(-1, 12)
  bytes[16] = 2
  bytes.writeInt32BE(lastOffsetDelta, 23)
  bytes.writeBigInt64BE(timestamp, 27)
  bytes.writeBigInt64BE(timestamp, 35)
  bytes.writeBigInt64BE(producer.producerId, 43)
  bytes.writeInt16BE(producer.epoch, 51)
  bytes.writeInt32BE(producer.sequence, 53)
  bytes.writeInt32BE(messages.length, 57)
  bytes.writeUInt32BE(crc32c(bytes.subarray(attributesAt, place)), crcAt)
  const batch = Buffer.copyBytesFrom(bytes, 0, place)
  if (bytes.length > keptBytesMax) bytes = Buffer.allocUnsafeSlow(keptBytesMax)
  return batch
}

function putRecord(message: OutgoingMessage, offsetDelta: number): void {
  makeRoom(sizeMax(message))
  const start = place
  place += lengthGuess
  bytes[place++] = 0
  bytes[place++] = 0
  place = writeSigned(bytes, place, offsetDelta)
  if (message.key === null || (message.key === undefined && message.channel === '')) place = writeSigned(bytes, place, -1)
  else if (message.key !== undefined) putBytes(message.key)
  else putText(message.channel)
  putBytes(message.payload)
  putHeaders(message)
  closeLength(start)
}

/** Writes the length of the record that began at `start` before it, and moves the record where the length takes other than the bytes kept free. */
function closeLength(start: number): void {
  const bodyAt = start + lengthGuess
  const length = place - bodyAt
  const lengthBytes = length <= shortMax ? 1 : length < 8192 ? 2 : length < 1_048_576 ? 3 : length < 134_217_728 ? 4 : 5
  if (lengthBytes !== lengthGuess) {
    bytes.copyWithin(start + lengthBytes, bodyAt, place)
    place += lengthBytes - lengthGuess
  }
  writeSigned(bytes, start, length)
}

/** A name with its length before it, as each record has it. */
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
  place = writeSigned(bytes, place, headers === undefined ? own : own + headers.length)
  if (headers !== undefined) {
    for (const { key, value } of headers) {
      putText(key)
      if (value === null) place = writeSigned(bytes, place, -1)
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
  for (let at = 0; at < name.length; at++) bytes[place++] = name[at]!
}

function putBytes(value: Uint8Array): void {
  place = writeSigned(bytes, place, value.length)
  bytes.set(value, place)
  place += value.length
}

/** A text as UTF-8; lone surrogates become U+FFFD. Short ones are ASCII mostly, for which a call into the engine costs more than the loop. */
function putText(text: string): void {
  const { length } = text
  if (length <= shortMax) {
    let at = place
    bytes[at++] = 2 * length
    let each = 0
    for (; each < length; each++) {
      const unit = text.charCodeAt(each)
      if (unit > 0x7f) break
      bytes[at++] = unit
    }
    if (each === length) {
      place = at
      return
    }
  }
  place = writeSigned(bytes, place, Buffer.byteLength(text))
  place += bytes.write(text, place)
}

function sizeMax({ channel, subtopic, publisher, protocol, contentType, payload, key, headers }: OutgoingMessage): number {
  const units = channel.length + subtopic.length + publisher.length + protocol.length + contentType.length
  let size = recordOverheadMax + units * bytesPerUnit + payload.length + (key?.length ?? 0)
  if (headers !== undefined) {
    for (const { key, value } of headers) size += headerOverheadMax + (key.length + (value === null ? 0 : value.length)) * bytesPerUnit
  }
  return size
}

function makeRoom(size: number): void {
  if (place + size <= bytes.length) return
  const larger = Buffer.allocUnsafeSlow(Math.max(2 * bytes.length, place + size))
  bytes.copy(larger, 0, 0, place)
  bytes = larger
}
