// Messages in formats older than Kafka 0.11, encoded by kafkajs: they stop their partition, or by option are skipped and counted as lost.

import { gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { chunksOf } from '../../../pipeline/kafka/records/record-set.ts'
import type { RawChunk } from '../../../pipeline/source.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { encodeOldByKafkajs } from './records/kafkajs-codec.ts'
import { encodeBatch, fetch, read, whole } from './records/record-batches.ts'

const gzip = 1

function one(version: 0 | 1, offset: number): Buffer {
  return encodeOldByKafkajs(version, offset, { key: 'c', value: `old ${offset}`, timestamp: 1_700_000_000_123 })
}

/** Compressed into one, which has the offset of the last. */
function several(version: 0 | 1, offsets: readonly number[]): Buffer {
  const value = gzipSync(Buffer.concat(offsets.map(offset => one(version, offset))))
  return encodeOldByKafkajs(version, offsets.at(-1)!, { compression: gzip, key: null, value })
}

const fresh = (baseOffset: number): Buffer => encodeBatch([{ value: `new ${baseOffset}` }], { baseOffset })

function shown(chunk: RawChunk): (number | string)[] {
  return [chunk.from, chunk.to, chunk.lost ?? 0, ...read(chunk).map(({ payload }) => payload)]
}

describe.each([0, 1] as const)('format %i', version => {
  test('stops the partition with an error that names the option to skip it', () => {
    for (const set of [one(version, 4), several(version, [4])]) {
      expect(() => fetch(set, { from: 4 })).toThrow(SystemicError)
      expect(() => fetch(set, { from: 4 })).toThrow(
        new RegExp(
          `topic messages, partition 3: the batch at offset 4 cannot be read: it has the message format ${version}, .*--skip-batch`,
        ),
      )
    }
  })

  test('earlier messages are returned first', () => {
    const chunks: (number | string)[][] = []
    const set = Buffer.concat([fresh(0), one(version, 1), fresh(2)])
    expect(() => {
      for (const chunk of chunksOf(set, whole)) chunks.push(shown(chunk))
    }).toThrow(/offset 1 .*--skip-batch/)
    expect(chunks).toEqual([[0, 1, 0, 'new 0']])
  })

  test('is skipped by option: its offsets are lost, at the start of a chunk', () => {
    const set = Buffer.concat([one(version, 3), several(version, [4, 5, 7]), fresh(8), one(version, 9), one(version, 10), fresh(11)])
    expect(fetch(set, { from: 3, skipBatch: true }).map(shown)).toEqual([
      [3, 9, 5, 'new 8'],
      [9, 12, 2, 'new 11'],
    ])
    expect(fetch(one(version, 3), { from: 3, skipBatch: true }).map(shown)).toEqual([[3, 4, 1]])
  })

  test('adds to the offsets lost before it', () => {
    const set = Buffer.concat([one(version, 5), fresh(6)])
    expect(fetch(set, { from: 2, next: 5, skipBatch: true }).map(shown)).toEqual([[2, 7, 4, 'new 6']])
  })

  test('is left out below the requested offset like any batch, and does not count as lost', () => {
    expect(fetch(Buffer.concat([one(version, 3), fresh(4)]), { from: 4 }).map(shown)).toEqual([[4, 5, 0, 'new 4']])
  })

  test('is left to the next fetch if it is cut off at the end', () => {
    const set = Buffer.concat([fresh(0), one(version, 1)])
    for (let length = fresh(0).length; length < set.length; length++) {
      expect(fetch(set.subarray(0, length)).map(shown)).toEqual([[0, 1, 0, 'new 0']])
    }
  })
})
