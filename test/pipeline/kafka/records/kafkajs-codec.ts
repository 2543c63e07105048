// Encodes and decodes with kafkajs's internals, as an oracle beside our own encoder. They have no types.

import { createRequire } from 'node:module'
import { zstdCompressSync, zstdDecompressSync } from 'node:zlib'
import { lz4Compress, lz4Decompress, snappyCompress, snappyDecompress } from '@platformatic/wasm-utils'

interface Encoder {
  readonly buffer: Buffer
}

/** A record as kafkajs decodes it. */
export interface KafkajsRecord {
  readonly offset: string
  readonly timestamp?: string
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers?: Record<string, Buffer | null | (Buffer | null)[]>
  readonly isControlRecord?: boolean
}

const require = createRequire(import.meta.url)
const protocol = 'kafkajs/src/protocol'
const Decoder = require(`${protocol}/decoder`) as new (bytes: Buffer) => unknown
const decodeMessages = require(`${protocol}/requests/fetch/v4/decodeMessages`) as (decoder: unknown) => Promise<KafkajsRecord[]>
const { RecordBatch } = require(`${protocol}/recordBatch/v0`) as { RecordBatch: (fields: object) => Promise<Encoder> }
const Record = require(`${protocol}/recordBatch/record/v0`) as (fields: object) => Encoder
const Message = require(`${protocol}/message`) as (version: { version: number }) => (fields: object) => Encoder
const Long = require('kafkajs/src/utils/long') as { fromValue(value: string | number): unknown }

// It contains only gzip; the other codecs are added as its README says.
const { CompressionCodecs } = require('kafkajs') as { CompressionCodecs: Record<number, () => object> }
const codec = (compress: (bytes: Buffer) => Buffer, decompress: (bytes: Buffer) => Buffer) => () => ({
  compress: async (encoder: Encoder) => compress(encoder.buffer),
  decompress: async (bytes: Buffer) => decompress(bytes),
})
CompressionCodecs[2] = codec(snappyCompress, snappyDecompress)
CompressionCodecs[3] = codec(lz4Compress, lz4Decompress)
CompressionCodecs[4] = codec(zstdCompressSync, zstdDecompressSync)

export interface KafkajsMessage {
  readonly key: Buffer | null
  readonly value: Buffer | null
  readonly headers: Record<string, Buffer | Buffer[]>
  readonly timestampDelta: number
}

/** A record batch, compressed by the codec. */
export async function encodeByKafkajs(
  messages: readonly KafkajsMessage[],
  firstOffset: number,
  compression: number,
  transactional: boolean,
): Promise<Buffer> {
  const records = messages.map((message, offsetDelta) =>
    Record({ ...message, offsetDelta, timestampDelta: Long.fromValue(message.timestampDelta) }),
  )
  const batch = await RecordBatch({
    compression,
    firstOffset: Long.fromValue(firstOffset),
    firstTimestamp: Long.fromValue(1_700_000_000_000),
    maxTimestamp: Long.fromValue(1_700_000_000_999),
    lastOffsetDelta: messages.length - 1,
    transactional,
    producerId: Long.fromValue(transactional ? 7 : -1),
    records,
  })
  return batch.buffer
}

/** A message of an older format, with its offset and size before it. */
export function encodeOldByKafkajs(version: 0 | 1, offset: number, fields: object): Buffer {
  const message = Message({ version })(fields).buffer
  const head = Buffer.alloc(12)
  head.writeBigInt64BE(BigInt(offset))
  head.writeInt32BE(message.length, 8)
  return Buffer.concat([head, message])
}

/** The records of a record set, as kafkajs decodes it from a fetch. */
export async function decodeByKafkajs(set: Uint8Array): Promise<KafkajsRecord[]> {
  const length = Buffer.alloc(4)
  length.writeInt32BE(set.length)
  return decodeMessages(new Decoder(Buffer.concat([length, set])))
}
