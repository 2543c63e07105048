// A small encoder of record batches for tests: every field can have values that no client would send.

import { jsCRC32C } from '@platformatic/kafka'
import { chunksOf, type Fetched } from '../../../../pipeline/kafka/records/record-set.ts'
import type { MessageFault, RawChunk } from '../../../../pipeline/source.ts'
import { logPartition } from '../../../../transformers/log-partition.ts'

export type Text = string | Uint8Array | null

export interface RecordFields {
  readonly offsetDelta?: number
  readonly timestampDelta?: number | bigint
  readonly key?: Text
  readonly value?: Text
  readonly headers?: readonly (readonly [name: string | Uint8Array, value: Text])[]
}

export interface BatchFields {
  readonly baseOffset?: number | bigint
  readonly magic?: number
  readonly crc?: number
  readonly attributes?: number
  readonly lastOffsetDelta?: number
  readonly baseTimestamp?: number | bigint
  readonly maxTimestamp?: number | bigint
  readonly producerId?: number | bigint
  readonly count?: number
  readonly length?: number
  /** Replaces the records, for example with compressed ones. */
  readonly body?: Uint8Array
}

/** Attributes of a batch. */
export const bits = { gzip: 1, snappy: 2, lz4: 3, zstd: 4, appendTime: 8, transactional: 16, control: 32, deleteHorizon: 64 } as const

export function bytesOf(text: Text): Uint8Array {
  return typeof text === 'string' ? Buffer.from(text) : (text ?? new Uint8Array(0))
}

/** Zigzag, then seven bits in each byte, by the definition. */
export function varint(number: number | bigint): number[] {
  let rest = BigInt.asUintN(64, (BigInt(number) << 1n) ^ (BigInt(number) >> 63n))
  const bytes: number[] = []
  for (; rest > 0x7fn; rest >>= 7n) bytes.push(Number(rest & 0x7fn) | 0x80)
  bytes.push(Number(rest))
  return bytes
}

function field(text: Text): Uint8Array {
  return text === null ? Uint8Array.from(varint(-1)) : Buffer.concat([Uint8Array.from(varint(bytesOf(text).length)), bytesOf(text)])
}

export function encodeRecord(fields: RecordFields, ordinal = 0): Buffer {
  const { offsetDelta = ordinal, timestampDelta = 0, key = 'c1', value = '[1]', headers = [] } = fields
  const body = Buffer.concat([
    Uint8Array.from([0, ...varint(timestampDelta), ...varint(offsetDelta)]),
    field(key),
    field(value),
    Uint8Array.from(varint(headers.length)),
    ...headers.flatMap(([name, text]) => [field(name), field(text)]),
  ])
  return Buffer.concat([Uint8Array.from(varint(body.length)), body])
}

export function encodeRecords(records: readonly RecordFields[]): Buffer {
  return Buffer.concat(records.map(encodeRecord))
}

export function encodeBatch(records: readonly RecordFields[], fields: BatchFields = {}): Buffer {
  const last = records.at(-1)?.offsetDelta ?? records.length - 1
  const body = fields.body ?? encodeRecords(records)
  const head = Buffer.alloc(61)
  head.writeBigInt64BE(BigInt(fields.baseOffset ?? 0), 0)
  head.writeInt32BE(fields.length ?? 49 + body.length, 8)
  head.writeInt8(fields.magic ?? 2, 16)
  head.writeInt16BE(fields.attributes ?? 0, 21)
  head.writeInt32BE(fields.lastOffsetDelta ?? last, 23)
  head.writeBigInt64BE(BigInt(fields.baseTimestamp ?? 1_700_000_000_000), 27)
  head.writeBigInt64BE(BigInt(fields.maxTimestamp ?? 1_700_000_000_000), 35)
  head.writeBigInt64BE(BigInt(fields.producerId ?? -1), 43)
  head.writeInt32BE(fields.count ?? records.length, 57)
  const batch = Buffer.concat([head, body])
  batch.writeUInt32BE(fields.crc ?? jsCRC32C(batch.subarray(21)), 17)
  return batch
}

/** The control batch that ends a transaction. */
export function marker(type: 'abort' | 'commit', producerId: number, baseOffset: number): Buffer {
  const key = Uint8Array.from([0, 0, 0, type === 'abort' ? 0 : 1])
  return encodeBatch([{ key, value: new Uint8Array(6) }], { baseOffset, producerId, attributes: bits.transactional | bits.control })
}

export const whole: Fetched = { topic: 'messages', at: logPartition(0, 3), from: 0, chunkBytesMax: 1 << 20, chunkMessagesMax: 1000 }

export function fetch(set: Uint8Array, fetched: Partial<Fetched> = {}): RawChunk[] {
  return [...chunksOf(set, { ...whole, ...fetched })]
}

/** A message, copied from its cursor. */
export interface Read {
  readonly offset: number
  readonly fault: MessageFault | undefined
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  readonly contentType: string
  readonly createdUs: number
  readonly createdRestNs: number
  readonly payload: string
}

export function read(chunk: RawChunk): Read[] {
  const cursor = chunk.cursor()
  const messages: Read[] = []
  while (cursor.next()) messages.push({ ...cursor.message, payload: Buffer.from(cursor.message.payload).toString() })
  return messages
}

/** The messages of all chunks. */
export function messagesOf(set: Uint8Array, fetched: Partial<Fetched> = {}): Read[] {
  return fetch(set, fetched).flatMap(read)
}

/** The range of each chunk, and the payloads in it. */
export function covered(set: Uint8Array, fetched: Partial<Fetched> = {}): [from: number, to: number, ...payloads: string[]][] {
  return fetch(set, fetched).map(chunk => [chunk.from, chunk.to, ...read(chunk).map(({ payload }) => payload)])
}
