// Keys are mapped to the same partitions as by Java's producers.

import { createRequire } from 'node:module'
import { murmur2 as murmur2OfPlatformatic } from '@platformatic/kafka'
import { assert, property, uint8Array } from 'fast-check'
import { expect, test } from 'vitest'
import { murmur2, partitionOf } from '../../../../pipeline/kafka/producer/partitioner.ts'

// From kafka/clients/src/test/java/org/apache/kafka/common/utils/UtilsTest.java, testMurmur2.
test.each([
  ['21', -973_932_308],
  ['foobar', -790_332_482],
  ['a-little-bit-long-string', -985_981_536],
  ['a-little-bit-longer-string', -1_486_304_829],
  ['lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8', -58_897_971],
  ['abc', 479_470_107],
])("murmur2 of %s equals Kafka's", (key, hash) => {
  expect(murmur2(Buffer.from(key))).toBe(hash)
})

test('any bytes hash as in both JavaScript clients', () => {
  const require = createRequire(import.meta.url)
  const murmur2OfKafkajs = require('kafkajs/src/producer/partitioners/default/murmur2.js') as (key: Buffer) => number
  assert(
    property(uint8Array({ maxLength: 70 }), bytes => {
      const key = Buffer.from(bytes)
      expect(murmur2(bytes)).toBe(murmur2OfPlatformatic(key))
      expect(murmur2(bytes)).toBe(murmur2OfKafkajs(key))
    }),
  )
})

test('a partition is the hash without its sign, modulo the number of partitions', () => {
  expect(partitionOf(Buffer.from('21'), 12)).toBe((-973_932_308 & 0x7fffffff) % 12)
  expect(partitionOf(Buffer.from('abc'), 12)).toBe(479_470_107 % 12)
  expect(partitionOf(new Uint8Array(0), 12)).toBeLessThan(12)
})
