// The five codecs: data from the clients' encoders is decompressed, and nothing expands beyond its limit or allocates a declared size.

import { randomBytes } from 'node:crypto'
import { gzipSync, zstdCompressSync } from 'node:zlib'
import { createRecordsBatch } from '@platformatic/kafka'
import { lz4Compress, snappyCompress } from '@platformatic/wasm-utils'
import { describe, expect, test } from 'vitest'
import { decompress, expandedBytesMax } from '../../../../pipeline/kafka/records/codecs.ts'
import { lz4LengthMax } from '../../../../pipeline/kafka/records/lz4-frame.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import { bits, encodeBatch, fetch, messagesOf, read } from './record-batches.ts'

const where = { topic: 'messages', partition: 3, offset: 0 }
const compress: Readonly<Record<'gzip' | 'snappy' | 'lz4' | 'zstd', (bytes: Buffer) => Buffer>> = {
  gzip: bytes => gzipSync(bytes),
  snappy: bytes => snappyCompress(bytes),
  lz4: bytes => lz4Compress(bytes),
  zstd: bytes => zstdCompressSync(bytes),
}
const codecs = ['gzip', 'snappy', 'lz4', 'zstd'] as const

/** In the framing of snappy-java, in blocks of this size. */
function framedByJava(bytes: Buffer, blockBytes: number): Buffer {
  const parts: Buffer[] = [Buffer.from('\x82SNAPPY\0\0\0\0\x01\0\0\0\x01', 'latin1')]
  for (let at = 0; at < bytes.length; at += blockBytes) {
    const block = snappyCompress(bytes.subarray(at, at + blockBytes))
    const length = Buffer.alloc(4)
    length.writeInt32BE(block.length)
    parts.push(length, block)
  }
  return Buffer.concat(parts)
}

/** An LZ4 frame of many blocks with one sequence each: a literal, then copies of it. */
function lz4Blocks(count: number, copied: number): Buffer {
  const one = lz4Compress(Buffer.alloc(1 + copied + 5, 'a'))
  const head = one.subarray(0, 7)
  const block = one.subarray(7, 7 + 4 + one.readUInt32LE(7))
  return Buffer.concat([head, ...Array.from({ length: count }, () => block), Buffer.alloc(4)])
}

function failing(codec: keyof typeof compress, bytes: Uint8Array): Error {
  try {
    decompress(bits[codec], bytes, where)
  } catch (error) {
    expect(error).toBeInstanceOf(SystemicError)
    return error as Error
  }
  throw new Error('it was taken')
}

describe.each(codecs)('%s', codec => {
  test.each([1, 100, 5000])('%i messages encoded by @platformatic/kafka are decoded', count => {
    const values = Array.from({ length: count }, (_, at) => `value ${at} ${'x'.repeat(at % 90)}`)
    const set = createRecordsBatch(
      values.map(value => ({ topic: 'messages', key: Buffer.from('c1'), value: Buffer.from(value), timestamp: 1_700_000_000_000n })),
      { compression: codec },
    ).buffer
    expect(set.readInt16BE(21) & 7).toBe(bits[codec])
    expect(messagesOf(set, { chunkBytesMax: 1 << 26, chunkMessagesMax: 1e6 }).map(({ payload }) => payload)).toEqual(values)
  })

  test('random and empty data are decompressed', () => {
    for (const bytes of [randomBytes(70_000), randomBytes(1), Buffer.alloc(0)]) {
      expect(Buffer.from(decompress(bits[codec], compress[codec](bytes), where)).equals(bytes)).toBe(true)
    }
  })

  test('other bytes are a corrupt batch', () => {
    for (const bytes of [
      Buffer.from('no codec has this beginning'),
      Buffer.alloc(40, 0xff),
      compress[codec](randomBytes(5000)).subarray(0, 3000),
    ]) {
      expect(failing(codec, bytes).message).toContain(
        `topic messages, partition 3: the batch at offset 0 is corrupt: its ${codec} cannot be decompressed`,
      )
    }
  })

  test('a batch that expands beyond 64 MiB is refused; one just below the limit is accepted', () => {
    const most = Buffer.alloc(expandedBytesMax)
    expect(decompress(bits[codec], compress[codec](most), where).length).toBe(expandedBytesMax)
    const error = failing(codec, compress[codec](Buffer.alloc(expandedBytesMax + 1)))
    expect(error.message).toContain(`topic messages, partition 3: the batch at offset 0 cannot be read: its ${codec} expands beyond 64 MiB`)
    expect(error.message).toContain('--skip-batch')
  })
})

test('a batch that expands beyond the limit is skipped by option: its offsets are lost, and those around it are read', () => {
  const set = Buffer.concat([
    encodeBatch([{ value: 'before' }], {}),
    encodeBatch([], {
      baseOffset: 1,
      lastOffsetDelta: 1,
      count: 2,
      attributes: bits.gzip,
      body: gzipSync(Buffer.alloc(expandedBytesMax + 1)),
    }),
    encodeBatch([{ value: 'after' }], { baseOffset: 3 }),
  ])
  expect(() => fetch(set, {})).toThrow(/offset 1 .*expands beyond 64 MiB/)
  const chunks = fetch(set, { skipBatch: true })
  expect(chunks.map(chunk => [chunk.from, chunk.to, chunk.lost ?? 0, ...read(chunk).map(({ payload }) => payload)])).toEqual([
    [0, 1, 0, 'before'],
    [1, 4, 2, 'after'],
  ])
})

test("Java's framing of snappy is decompressed, in one block or many", () => {
  const bytes = randomBytes(5000)
  for (const blockBytes of [1, 700, 5000, 32_768]) expect(decompress(bits.snappy, framedByJava(bytes, blockBytes), where)).toEqual(bytes)
  expect(decompress(bits.snappy, framedByJava(Buffer.alloc(0), 1), where).length).toBe(0)
})

test("Java's framing is bounded in total, and a truncated block is corrupt", () => {
  expect(failing('snappy', framedByJava(Buffer.alloc(expandedBytesMax + 1), 1 << 20)).message).toContain('expands beyond 64 MiB')
  const framed = framedByJava(randomBytes(5000), 1000)
  for (const length of [17, 30, 2000, framed.length - 1])
    expect(failing('snappy', framed.subarray(0, length)).message).toContain('is corrupt')
  framed.writeInt32BE(-4, 16)
  expect(failing('snappy', framed).message).toContain('is corrupt')
})

test('a declared length allocates no memory', () => {
  const before = process.memoryUsage().rss
  // Snappy that declares 60 MiB, and 4 GiB; an LZ4 frame of 4 MiB blocks that declares a content of 2^62.
  expect(failing('snappy', Buffer.of(0x80, 0x80, 0x80, 0x1e, 0, 0x61)).message).toContain('is corrupt')
  expect(failing('snappy', Buffer.of(0xff, 0xff, 0xff, 0xff, 0x0f, 0, 0x61)).message).toContain('is corrupt')
  expect(failing('lz4', Buffer.from('04224d18687000000000000000400004000000006161616100000000', 'hex')).message).toContain('is corrupt')
  expect(process.memoryUsage().rss - before).toBeLessThan(30 * 1024 * 1024)
})

test('many small blocks of LZ4 count with their content', () => {
  const taken = lz4Blocks(25_000, 300)
  expect(lz4LengthMax(taken, expandedBytesMax)).toBe(25_000 * 306)
  expect(decompress(bits.lz4, taken, where).length).toBe(25_000 * 306)
  expect(failing('lz4', lz4Blocks(25_000, 4000)).message).toContain('expands beyond 64 MiB')
})

test('an lz4 frame with checksums of its blocks is accepted', () => {
  const frame = Buffer.from('04224d187040ad080000806162636465666768bbc6b30b080000806162636465666768bbc6b30b00000000', 'hex')
  expect(lz4LengthMax(frame, expandedBytesMax)).toBe(16)
  expect(decompress(bits.lz4, frame, where).toString()).toBe('abcdefghabcdefgh')
})

test('a compressed batch without records is accepted', () =>
  expect(messagesOf(encodeBatch([], { attributes: bits.gzip, lastOffsetDelta: 3 }))).toEqual([]))
