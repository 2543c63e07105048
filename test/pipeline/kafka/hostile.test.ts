// Any bytes give contiguous chunks or a SystemicError, with work and memory in proportion to their size. SEED=<seed> repeats a run.

import { gzipSync, zstdCompressSync } from 'node:zlib'
import { jsCRC32C } from '@platformatic/kafka'
import { lz4Compress, snappyCompress } from '@platformatic/wasm-utils'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { countWork } from '../../work-counter.ts'
import { encodeOldByKafkajs } from './records/kafkajs-codec.ts'
import { bits, encodeBatch, encodeRecord, encodeRecords, fetch, marker, type RecordFields } from './records/record-batches.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const numRuns = 4000

const headers = [
  ['subtopic', 'room.temperature'],
  ['publisher', 't1'],
  ['created', '1700000000000000001'],
  ['content-type', 'application/senml+json'],
] as const
const records: RecordFields[] = Array.from({ length: 4 }, (_, at) => ({ key: `c${at}`, value: `value ${at}`, headers }))
const body = encodeRecords(records)
const old = encodeOldByKafkajs(1, 3, { key: 'c', value: 'v', timestamp: 5 })

const sound: Buffer[] = [
  encodeBatch(records),
  encodeBatch(records, { attributes: bits.gzip, body: gzipSync(body) }),
  encodeBatch(records, { attributes: bits.snappy, body: snappyCompress(body) }),
  encodeBatch(records, { attributes: bits.lz4, body: lz4Compress(body) }),
  encodeBatch(records, { attributes: bits.zstd, body: zstdCompressSync(body) }),
  Buffer.concat([encodeBatch(records, { attributes: bits.transactional, producerId: 7 }), marker('abort', 7, 4)]),
  Buffer.concat([old, encodeBatch(records, { baseOffset: 4 })]),
  encodeOldByKafkajs(1, 3, { compression: 1, key: null, value: gzipSync(old) }),
]

const change = fc.record({
  at: fc.nat(),
  remove: fc.nat(3),
  insert: fc.oneof(
    fc.uint8Array({ maxLength: 3 }),
    fc.constantFrom(
      ...[
        [0xff, 0xff, 0xff, 0xff, 0x0f],
        [0xfe, 0xff, 0xff, 0xff, 0x0f],
        [0x01],
        [0x03],
        [0x7f, 0xff, 0xff, 0xff],
        [0x80, 0, 0, 0],
        [0x80],
      ].map(each => Uint8Array.from(each)),
    ),
  ),
})

/** A set with bytes changed, removed or inserted. Usually length and checksum of its first batch are corrected, so that later checks are reached. */
const set = fc
  .tuple(fc.constantFrom(...sound), fc.array(change, { minLength: 1, maxLength: 4 }), fc.integer({ min: 0, max: 9 }))
  .map(([given, changes, mending]) => {
    let bytes = Buffer.from(given)
    for (const { at, remove, insert } of changes) {
      const place = at % (bytes.length + 1)
      bytes = Buffer.concat([bytes.subarray(0, place), insert, bytes.subarray(place + remove)])
    }
    if (mending > 0 && bytes.length > 61 && bytes[16] === 2) {
      if (mending > 1) bytes.writeInt32BE(bytes.length - 12, 8)
      const end = Math.min(12 + bytes.readUInt32BE(8), bytes.length)
      bytes.writeUInt32BE(jsCRC32C(bytes.subarray(21, Math.max(end, 21))), 17)
    }
    return bytes
  })

function walk(bytes: Buffer): { messages: number; error: unknown } {
  let messages = 0
  let to = 0
  try {
    for (const chunk of fetch(bytes, { aborted: [{ producerId: 7, firstOffset: 0 }], chunkMessagesMax: 2, skipBatch: true })) {
      expect(chunk.from).toBe(to)
      expect(chunk.to).toBeGreaterThan(chunk.from)
      to = chunk.to
      const cursor = chunk.cursor()
      let offset = chunk.from - 1
      while (cursor.next()) {
        messages++
        expect(cursor.message.offset).toBeGreaterThan(offset)
        offset = cursor.message.offset
        expect(offset).toBeLessThan(chunk.to)
        expect(Number.isSafeInteger(cursor.message.createdUs)).toBe(true)
        expect(cursor.message.channel === '').toBe(cursor.message.fault?.rule === 'no-key' || cursor.message.fault?.rule === 'key-text')
        cursor.key()
        cursor.headers()
      }
    }
    return { messages, error: undefined }
  } catch (error) {
    return { messages, error }
  }
}

describe(`for any bytes (seed ${seed})`, () => {
  test('only SystemicError is thrown, and earlier chunks are valid', () => {
    let taken = 0
    let refused = 0
    fc.assert(
      fc.property(fc.oneof({ arbitrary: set, weight: 9 }, { arbitrary: fc.uint8Array({ maxLength: 200 }), weight: 1 }), given => {
        const bytes = Buffer.from(given)
        const { messages, error } = walk(bytes)
        if (error === undefined) {
          taken += messages
          return
        }
        refused++
        if (!(error instanceof SystemicError)) throw error
        expect(error.message).toMatch(/^topic messages, partition 3: the batch at offset -?[\d.e+]+ (is corrupt|cannot be read): /)
      }),
      { seed, numRuns },
    )
    expect(taken, 'messages that are read are among them').toBeGreaterThan(100)
    expect(refused, 'sets that are refused are among them').toBeGreaterThan(100)
  })

  test('valid sets are accepted', () => {
    for (const bytes of sound) expect(walk(bytes)).toEqual({ messages: expect.any(Number) as number, error: undefined })
  })
})

describe('work is in proportion to the size', () => {
  const workDone = countWork(url => url.includes('/pipeline/kafka/') && !url.includes('/test/'))

  /** How many code blocks of the decoder ran for one set, in total. */
  async function workOf(set: Buffer): Promise<number> {
    await workDone()
    expect(walk(set).error).toBeUndefined()
    return await workDone()
  }

  const several = (count: number, each: (at: number) => Buffer) => Buffer.concat(Array.from({ length: count }, (_, at) => each(at)))

  test.each<[string, (count: number) => Buffer]>([
    ['headers', count => encodeBatch([{ headers: Array.from({ length: count }, () => ['x', null] as const) }])],
    ['envelope headers', count => encodeBatch([{ headers: Array.from({ length: count }, (_, at) => ['publisher', `t${at}`] as const) }])],
    ['records without anything', count => encodeBatch(Array.from({ length: count }, () => ({ key: null, value: null })))],
    ['batches without records', count => several(count, at => encodeBatch([], { baseOffset: at, lastOffsetDelta: 0 }))],
    ['batches of one record', count => several(count, at => encodeBatch([{}], { baseOffset: at }))],
    ['messages of an older format', count => several(count, at => encodeOldByKafkajs(0, at, { key: 'c', value: 'v' }))],
    ['blocks of snappy', count => encodeBatch([], { count, lastOffsetDelta: count - 1, attributes: bits.snappy, body: blocks(count) })],
  ])('%s', async (_, setOf) => {
    const small = await workOf(setOf(300))
    const large = await workOf(setOf(4800))
    expect(small, 'it is counted').toBeGreaterThan(300)
    expect(large).toBeLessThan(18 * small)
  })

  /** Java's framing, with one record in each block. */
  function blocks(count: number): Buffer {
    const head = Buffer.from('\x82SNAPPY\0\0\0\0\x01\0\0\0\x01', 'latin1')
    return Buffer.concat([
      head,
      several(count, at => {
        const block = snappyCompress(encodeRecord({ offsetDelta: at }))
        const length = Buffer.alloc(4)
        length.writeInt32BE(block.length)
        return Buffer.concat([length, block])
      }),
    ])
  }
})
