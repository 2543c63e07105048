// From a record set to chunks: what is left out, where chunks end, and that they keep no other memory.

import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { chunksOf } from '../../../../pipeline/kafka/records/record-set.ts'
import type { RawChunk } from '../../../../pipeline/source.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { bits, covered, encodeBatch, encodeRecord, encodeRecords, fetch, marker, messagesOf, read, whole } from './record-batches.ts'

function batch(baseOffset: number, ...values: string[]): Buffer {
  return encodeBatch(
    values.map(value => ({ value })),
    { baseOffset },
  )
}

describe('chunks', () => {
  test('several batches are one chunk, which begins where the fetch did', () =>
    expect(covered(Buffer.concat([batch(2, 'a', 'b'), batch(7, 'c')]), { from: 1 })).toEqual([[1, 8, 'a', 'b', 'c']]))

  test('a batch that compaction has emptied in part or completely covers its original offsets', () => {
    const thinned = encodeBatch(
      [
        { value: 'a', offsetDelta: 1 },
        { value: 'b', offsetDelta: 4 },
      ],
      { baseOffset: 10, lastOffsetDelta: 6 },
    )
    const empty = encodeBatch([], { baseOffset: 17, lastOffsetDelta: 2 })
    expect(covered(thinned, { from: 10 })).toEqual([[10, 17, 'a', 'b']])
    expect(messagesOf(thinned, { from: 10 }).map(({ offset }) => offset)).toEqual([11, 14])
    expect(covered(Buffer.concat([thinned, empty]), { from: 10 })).toEqual([[10, 20, 'a', 'b']])
    expect(covered(empty, { from: 17 })).toEqual([[17, 20]])
  })

  test('messages and whole batches below the requested offset are left out', () => {
    const set = Buffer.concat([batch(0, 'a', 'b'), batch(2, 'c', 'd', 'e')])
    expect(covered(set, { from: 3 })).toEqual([[3, 5, 'd', 'e']])
    expect(covered(set, { from: 2 })).toEqual([[2, 5, 'c', 'd', 'e']])
    expect(covered(set, { from: 4 })).toEqual([[4, 5, 'e']])
  })

  test('offsets lost before the requested one are a gap in the first chunk', () =>
    expect(covered(batch(0, 'a', 'b', 'c', 'd'), { from: 1, next: 3 })).toEqual([[1, 4, 'd']]))

  test('an empty set has no chunks', () => expect(covered(Buffer.alloc(0))).toEqual([]))

  test('a batch that is truncated at the end is left to the next fetch, wherever it ends', () => {
    const set = Buffer.concat([batch(0, 'a'), batch(1, 'b')])
    const first = batch(0, 'a').length
    for (let length = first; length < set.length; length++) expect(covered(set.subarray(0, length))).toEqual([[0, 1, 'a']])
    expect(covered(set)).toEqual([[0, 2, 'a', 'b']])
  })

  test('two sets can be read alternately', () => {
    const ones = chunksOf(batch(0, 'a', 'bb', 'c'), { ...whole, chunkMessagesMax: 1 })
    const others = chunksOf(batch(0, 'dddd', 'e', 'ffffff'), { ...whole, chunkMessagesMax: 1 })
    const payloads: string[] = []
    for (const one of ones)
      for (const chunk of [one, others.next().value as RawChunk]) payloads.push(...read(chunk).map(({ payload }) => payload))
    expect(payloads).toEqual(['a', 'dddd', 'bb', 'e', 'c', 'ffffff'])
  })

  test('a chunk can be read repeatedly, and by two cursors in parallel', () => {
    const [chunk] = fetch(batch(0, 'a', 'b'))
    expect(read(chunk!)).toEqual(read(chunk!))
    const [one, other] = [chunk!.cursor(), chunk!.cursor()]
    one.next()
    other.next()
    other.next()
    expect([one.message.offset, other.message.offset]).toEqual([0, 1])
  })
})

describe('a chunk ends', () => {
  const set = Buffer.concat([batch(0, 'a', 'b', 'c'), batch(3, 'd', 'e'), batch(5, 'f')])

  test('with the message that reaches the number, within a batch or after several', () => {
    expect(covered(set, { chunkMessagesMax: 2 })).toEqual([
      [0, 2, 'a', 'b'],
      [2, 4, 'c', 'd'],
      [4, 6, 'e', 'f'],
    ])
    expect(covered(set, { chunkMessagesMax: 4, from: 1 })).toEqual([
      [1, 5, 'b', 'c', 'd', 'e'],
      [5, 6, 'f'],
    ])
    expect(covered(set, { chunkMessagesMax: 1 }).length).toBe(6)
  })

  test('with the message that reaches the size', () => {
    const large = batch(0, 'x'.repeat(3000), 'y'.repeat(3000), 'z'.repeat(3000))
    expect(fetch(large, { chunkBytesMax: 5000 }).map(({ from, to }) => [from, to])).toEqual([
      [0, 2],
      [2, 3],
    ])
  })

  test('after the gap, if its last message is the last of a batch with a gap', () =>
    expect(covered(encodeBatch([{ value: 'a' }, { value: 'b' }], { lastOffsetDelta: 9 }), { chunkMessagesMax: 1 })).toEqual([
      [0, 1, 'a'],
      [1, 10, 'b'],
    ]))

  test('also within a compressed batch', () => {
    const values = Array.from({ length: 10 }, (_, at) => `value ${at}`)
    const body = gzipSync(encodeRecords(values.map(value => ({ value }))))
    const compressed = encodeBatch([], { attributes: bits.gzip, body, count: 10, lastOffsetDelta: 9 })
    expect(covered(compressed, { chunkMessagesMax: 4, from: 1 })).toEqual([
      [1, 5, ...values.slice(1, 5)],
      [5, 9, ...values.slice(5, 9)],
      [9, 10, ...values.slice(9)],
    ])
  })
})

describe('memory', () => {
  test('a chunk references no memory of the fetch, which may be reused', () => {
    const set = Buffer.concat([batch(0, 'a', 'b'), batch(2, 'c')])
    const chunks = fetch(set, { chunkMessagesMax: 2 })
    set.fill(0)
    expect(chunks.flatMap(read).map(({ payload }) => payload)).toEqual(['a', 'b', 'c'])
    const cursor = chunks[0]!.cursor()
    cursor.next()
    expect(cursor.message.payload.buffer).not.toBe(set.buffer)
    expect(cursor.message.payload.buffer.byteLength).toBeLessThanOrEqual(chunks[0]!.byteLength)
  })

  test('a chunk that needs all of the fetch is copied, too', () => {
    const set = batch(0, 'x'.repeat(100_000))
    const [chunk] = fetch(set)
    set.fill(0)
    expect(read(chunk!)[0]!.payload).toBe('x'.repeat(100_000))
  })

  test('a chunk reports its own memory: of a large divided batch only its part', () => {
    const records = Array.from({ length: 100 }, () => ({ value: 'x'.repeat(1000) }))
    const body = encodeRecords(records)
    const fields = { count: 100, lastOffsetDelta: 99 }
    for (const set of [encodeBatch(records), encodeBatch([], { ...fields, attributes: bits.gzip, body: gzipSync(body) })]) {
      const [one] = fetch(set)
      expect(one!.byteLength).toBeGreaterThanOrEqual(body.length)
      expect(one!.byteLength).toBeLessThan(2 * body.length + 1000)
      const cut = fetch(set, { chunkMessagesMax: 10 })
      expect(cut.length).toBe(10)
      for (const chunk of cut) expect(chunk.byteLength).toBeLessThan(body.length / 10 + 1000)
    }
  })

  test('batches are decompressed when chunks are requested', () => {
    const good = batch(0, 'a')
    const corrupt = batch(1, 'b')
    corrupt[corrupt.length - 1]! ^= 1
    const chunks = chunksOf(Buffer.concat([good, corrupt]), { ...whole, chunkMessagesMax: 1 })
    expect(read(chunks.next().value as RawChunk).map(({ payload }) => payload)).toEqual(['a'])
    expect(() => chunks.next()).toThrow(/at offset 1 is corrupt: its checksum/)
  })
})

test('messages before a corrupt batch are returned before its error', () => {
  const cut = encodeBatch([{}], { baseOffset: 6, body: Buffer.of(0x7e, 0, 0) })
  for (const corrupt of [flipped(batch(6, 'x')), cut]) {
    const chunks = chunksOf(Buffer.concat([batch(2, 'a', 'b'), batch(4, 'c'), corrupt]), { ...whole, from: 1 })
    const chunk = chunks.next().value as RawChunk
    expect([chunk.from, chunk.to, ...read(chunk).map(({ payload }) => payload)]).toEqual([1, 5, 'a', 'b', 'c'])
    expect(() => chunks.next()).toThrow(/at offset 6 is corrupt/)
  }
})

describe('a partition stops with an error that says what, where, and what to do', () => {
  function failing(set: Uint8Array): unknown {
    try {
      messagesOf(set)
      return undefined
    } catch (error) {
      return error
    }
  }

  const record = encodeRecord({})
  const cases: readonly [name: string, set: () => Buffer, message: RegExp][] = [
    ['another checksum', () => encodeBatch([{}], { crc: 1 }), /its checksum is 0x[0-9a-f]{8} instead of 0x00000001/],
    ['a length below that of a head', () => encodeBatch([{}], { length: 13 }), /its declared size is 13 bytes/],
    ['a negative length', () => encodeBatch([{}], { length: -1 }), /its declared size is -1 bytes/],
    ['a head that is cut', () => encodeBatch([{}], { length: 20 }), /it has 32 bytes, but its header alone takes 61/],
    [
      'a length beyond the fetch',
      () => encodeBatch([{}], { length: 2 ** 31 - 1 }),
      /its declared size is 2147483659 bytes, but \d+ were fetched/,
    ],
    ['not even a length', () => Buffer.alloc(5), /its header is incomplete, but 5 were fetched/],
    ['a message format of tomorrow', () => encodeBatch([{}], { magic: 3 }), /the message format 3, which is unknown: use a newer release/],
    ['a codec of tomorrow', () => encodeBatch([{}], { attributes: 5 }), /compressed by codec 5, which is unknown: use a newer release/],
    ['a negative offset', () => encodeBatch([{}], { baseOffset: -5 }), /it has the offset -5/],
    ['an offset beyond a position', () => encodeBatch([{}], { baseOffset: 2 ** 44 }), /do not fit into a stored position: use a new topic/],
    ['an offset beyond 2^53', () => encodeBatch([{}], { baseOffset: 2n ** 63n - 1n }), /do not fit into a stored position/],
    ['a last offset before the first', () => encodeBatch([], { lastOffsetDelta: -1 }), /its last offset is -1 after its first/],
    ['a negative count', () => encodeBatch([{}], { count: -1 }), /it has -1 records on 1 offsets/],
    ['one record more than offsets', () => encodeBatch([{}, { offsetDelta: 0 }]), /it has 2 records on 1 offsets/],
    ['more records than offsets', () => encodeBatch([{}], { count: 2 ** 31 - 1 }), /it has 2147483647 records on 1 offsets/],
    ['fewer records than it says', () => encodeBatch([{}], { count: 2, lastOffsetDelta: 1 }), /its records are cut off after 1 of 2/],
    ['more bytes than records', () => encodeBatch([{}, {}], { count: 1 }), /\d+ bytes are left after its 1 records/],
    ['bytes without records', () => encodeBatch([{}], { count: 0 }), /\d+ bytes are left after its 0 records/],
    ['an offset twice', () => encodeBatch([{}, { offsetDelta: 0 }], { lastOffsetDelta: 1 }), /offset 0 follows 0/],
    ['an offset below its first', () => encodeBatch([{ offsetDelta: -1 }], { lastOffsetDelta: 0 }), /offset -1 follows -1/],
    [
      'an offset beyond its last',
      () => encodeBatch([{ offsetDelta: 1 }], { lastOffsetDelta: 0 }),
      /offset 1 follows -1, but 0 is its last/,
    ],
    [
      'a negative record length',
      () => encodeBatch([{}], { body: Buffer.concat([Buffer.of(1), record]) }),
      /its records are cut off after 0 of 1/,
    ],
    [
      'a negative length of the right size',
      () => encodeBatch([{}], { body: Buffer.concat([Buffer.of(record[0]! | 1), record.subarray(1)]) }),
      /its records are cut off after 0 of 1/,
    ],
    ['a record without room for its offset', () => encodeBatch([{}], { body: Buffer.of(2, 0) }), /its records are cut off after 0 of 1/],
    ['a record beyond the batch', () => encodeBatch([{}], { body: Buffer.of(0x7e, 0, 0) }), /its records are cut off after 0 of 1/],
    ['a varint too long', () => encodeBatch([{}], { body: Buffer.alloc(20, 0xff) }), /its records are cut off after 0 of 1/],
    [
      'a timestamp too long',
      () => encodeBatch([{}], { body: Buffer.concat([Buffer.of(40, 0), Buffer.alloc(11, 0xff), Buffer.alloc(8)]) }),
      /its records are cut/,
    ],
    [
      'a varint of six bytes',
      () => encodeBatch([{}], { body: Buffer.of(24, 0, 0, 0, 0x82, 0x80, 0x80, 0x80, 0x80, 0, 0x61, 1, 0) }),
      /of the record at offset 0/,
    ],
    ['a key beyond the record', () => encodeBatch([{}], { body: Buffer.of(10, 0, 0, 0, 0x7e, 0) }), /the key of the record at offset 0/],
    [
      'a value beyond the record',
      () => encodeBatch([{}], { body: Buffer.of(12, 0, 0, 0, 2, 0x61, 0x7e) }),
      /the value of the record at offset 0/,
    ],
    [
      'a record that ends behind its key',
      () => encodeBatch([{}], { body: Buffer.of(8, 0, 0, 0, 1) }),
      /the value of the record at offset 0/,
    ],
    [
      'a negative number of headers',
      () => encodeBatch([{}], { body: Buffer.of(12, 0, 0, 0, 1, 1, 1) }),
      /the number of headers of the record/,
    ],
    [
      '2^31 headers',
      () => encodeBatch([{}], { body: Buffer.of(20, 0, 0, 0, 1, 1, 0xfe, 0xff, 0xff, 0xff, 0x0f) }),
      /the number of headers of the record/,
    ],
    [
      "a header's value beyond the record",
      () => encodeBatch([{}], { body: Buffer.of(16, 0, 0, 0, 1, 1, 2, 0, 0x7e) }),
      /a header's value of the record/,
    ],
    [
      'bytes behind the headers',
      () => encodeBatch([{}], { body: Buffer.of(14, 0, 0, 0, 1, 1, 0, 0) }),
      /the end of the record at offset 0/,
    ],
    [
      'batches in the wrong order',
      () => Buffer.concat([batch(4, 'a'), batch(4, 'b')]),
      /at offset 4 is corrupt: it starts at or below offset 4/,
    ],
    ['a control batch with another checksum', () => flipped(marker('abort', 7, 0)), /its checksum/],
  ]
  test.each(cases)('%s', (_, set, message) => {
    const error = failing(set())
    expect(error).toBeInstanceOf(SystemicError)
    expect((error as Error).message).toMatch(/^topic messages, partition 3: the batch at offset -?\d+ /)
    expect((error as Error).message).toMatch(message)
    expect((error as Error).message).toMatch(/(restore the partition from a good replica|use a new)/)
  })

  test('a change of any bit under the checksum is detected', () => {
    const set = encodeBatch([{ headers: [['subtopic', 'a']] }, {}])
    for (let at = 17; at < set.length; at++) {
      for (let bit = 0; bit < 8; bit++) {
        const changed = Buffer.from(set)
        changed[at]! ^= 1 << bit
        expect(failing(changed)).toBeInstanceOf(SystemicError)
      }
    }
  })
})

function flipped(set: Buffer): Buffer {
  set[set.length - 1]! ^= 1
  return set
}
