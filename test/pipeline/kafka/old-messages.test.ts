// Messages of the formats before record batches: as kafkajs encodes and decodes them, and as brokers keep them.

import { crc32, gzipSync } from 'node:zlib'
import { lz4Compress, snappyCompress } from '@platformatic/wasm-utils'
import { describe, expect, test } from 'vitest'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { decodeByKafkajs, encodeOldByKafkajs } from './kafkajs-codec.ts'
import { covered, encodeBatch, messagesOf } from './record-batches.ts'

const timestamp = 1_700_000_000_123
const gzip = 1
const snappy = 2
const lz4 = 3

function one(version: 0 | 1, offset: number, value: string | null = `v${offset}`, fields: object = {}): Buffer {
  return encodeOldByKafkajs(version, offset, { key: `c${offset}`, value, timestamp, ...fields })
}

/** kafkajs writes the value of a wrapper as it is given. */
function wrapped(version: 0 | 1, offset: number, compression: number, value: Buffer): Buffer {
  return encodeOldByKafkajs(version, offset, { compression, key: null, value, timestamp: timestamp + 1000 })
}

function inner(version: 0 | 1, offsets: readonly number[]): Buffer {
  return Buffer.concat(offsets.map(offset => one(version, offset)))
}

const payloads = (set: Buffer) => messagesOf(set).map(({ offset, payload }) => [offset, payload])

describe.each([0, 1] as const)('format %i', version => {
  test('messages come back as kafkajs reads them, in one run', async () => {
    const set = Buffer.concat([one(version, 4), one(version, 5, ''), one(version, 9)])
    expect(covered(set, { from: 3 })).toEqual([[3, 10, 'v4', '', 'v9']])
    const theirs = await decodeByKafkajs(set)
    expect(messagesOf(set).map(({ offset, channel, payload }) => [String(offset), channel, payload])).toEqual(
      theirs.map(({ offset, key, value }) => [offset, key!.toString(), value!.toString()]),
    )
  })

  test('without a header the timestamp is created; format 0 has none', () =>
    expect(messagesOf(one(version, 0))[0]).toMatchObject({
      fault: undefined,
      protocol: 'kafka',
      createdUs: version === 0 ? 0 : timestamp * 1000,
    }))

  test('a null key and a null value are told', () => {
    expect(messagesOf(one(version, 0, 'v', { key: null }))[0]).toMatchObject({ fault: { rule: 'no-key' } })
    expect(messagesOf(one(version, 0, null))[0]).toMatchObject({ fault: { rule: 'no-value' }, payload: '' })
  })

  test('a message that is cut at the end is left to the next fetch', () => {
    const set = Buffer.concat([one(version, 0), one(version, 1)])
    for (let length = one(version, 0).length; length < set.length; length++)
      expect(covered(set.subarray(0, length))).toEqual([[0, 1, 'v0']])
  })

  test.each([
    ['gzip', gzip, gzipSync],
    ['snappy', snappy, snappyCompress],
    ['lz4', lz4, lz4Compress],
  ] as const)('messages inside %s have their own offsets', (_, codec, compress) => {
    // Absolute in format 0, from 0 on in format 1, where compaction may have taken some away.
    const offsets = version === 0 ? [4, 5, 7] : [0, 1, 3]
    const set = Buffer.concat([wrapped(version, 7, codec, compress(inner(version, offsets))), one(version, 8)])
    expect(messagesOf(set, { from: 4 }).map(({ offset }) => offset)).toEqual([4, 5, 7, 8])
    expect(messagesOf(set, { from: 5 }).map(({ offset }) => offset)).toEqual([5, 7, 8])
    expect(covered(set, { from: 6, runMessagesMax: 1 }).map(([from, to]) => [from, to])).toEqual([
      [6, 8],
      [8, 9],
    ])
  })

  test('runs go on behind it in the format of today', () =>
    expect(covered(Buffer.concat([one(version, 0), encodeBatch([{ value: 'new' }], { baseOffset: 1 })]))).toEqual([[0, 2, 'v0', 'new']]))

  test.each([
    ['another checksum', () => changed(one(version, 0), 15), /its checksum/],
    [
      'a key beyond the message',
      () => rechecked(one(version, 0), bytes => bytes.writeInt32BE(1000, 18 + 8 * version)),
      /does not fit into its length/,
    ],
    [
      'bytes behind the value',
      () => rechecked(Buffer.concat([one(version, 0), Buffer.alloc(3)]), bytes => bytes.writeInt32BE(bytes.length - 12, 8)),
      /do not fill its length/,
    ],
    [
      'messages inside that are cut',
      () => wrapped(version, 1, gzip, gzipSync(inner(version, [0, 1]).subarray(0, -3))),
      /the messages inside are cut/,
    ],
    [
      'messages inside of another format',
      () => wrapped(version, 1, gzip, gzipSync(inner(version === 0 ? 1 : 0, [0, 1]))),
      /of another format/,
    ],
    [
      'messages inside that are compressed again',
      () => wrapped(version, 1, gzip, gzipSync(wrapped(version, 1, gzip, gzipSync(inner(version, [1]))))),
      /compressed again/,
    ],
    [
      'messages inside in the wrong order',
      () => wrapped(version, 1, gzip, gzipSync(inner(version, [1, 0, 1]))),
      /a message inside has the offset/,
    ],
    [
      'a compressed message without a value',
      () => encodeOldByKafkajs(version, 0, { compression: gzip, key: null, value: null }),
      /has no value/,
    ],
  ])('%s stops the partition', (_, set, message) => {
    expect(() => messagesOf(set())).toThrow(SystemicError)
    expect(() => messagesOf(set())).toThrow(message)
  })
})

test("the broker's timestamp is the outer one", () => {
  const set = wrapped(1, 1, gzip, gzipSync(inner(1, [0, 1])))
  const appended = rechecked(set, bytes => {
    bytes[17]! |= 8
  })
  expect(messagesOf(set).map(({ createdUs }) => createdUs)).toEqual([timestamp * 1000, timestamp * 1000])
  expect(messagesOf(appended).map(({ createdUs }) => createdUs)).toEqual([(timestamp + 1000) * 1000, (timestamp + 1000) * 1000])
})

test('lz4 of format 0 is read although its header checksum is wrong, as producers of that time wrote it', () => {
  const compressed = lz4Compress(inner(0, [0, 1]))
  compressed[6]! ^= 0x55
  expect(payloads(wrapped(0, 1, lz4, compressed))).toEqual([
    [0, 'v0'],
    [1, 'v1'],
  ])
  expect(() => messagesOf(wrapped(1, 1, lz4, compressed))).toThrow(/its lz4 cannot be decompressed/)
})

test('a timestamp far in the past or the future is kept as it is', () => {
  for (const timestamp of [-9_007_199_254_740, -2, 0, 1, 9_007_199_254_740])
    expect(messagesOf(one(1, 0, 'v', { timestamp }))[0]!.createdUs).toBe(timestamp * 1000)
})

function changed(set: Buffer, at: number): Buffer {
  set[at]! ^= 1
  return set
}

/** Changes a message and gives it the checksum that it should then have. */
function rechecked(set: Buffer, change: (bytes: Buffer) => void): Buffer {
  const bytes = Buffer.from(set)
  change(bytes)
  bytes.writeUInt32BE(crc32(bytes.subarray(16)), 12)
  return bytes
}
