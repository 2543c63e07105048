// The single number of a log and a partition.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { logOf, logPartition, partitionName, partitionOf } from '../../transformers/log-partition.ts'

test('log and partition can be read from the number, which is unique', () => {
  const pair = fc.tuple(fc.nat(126), fc.nat(4095))
  fc.assert(
    fc.property(pair, pair, ([log, partition], [otherLog, other]) => {
      const at = logPartition(log, partition)
      expect([logOf(at), partitionOf(at)]).toEqual([log, partition])
      expect(Uint32Array.of(at)[0]).toBe(at)
      expect(at === logPartition(otherLog, other)).toBe(log === otherLog && partition === other)
    }),
  )
})

test.each([
  [0, 4096],
  [0, -1],
  [0, 1.5],
  [0, Number.NaN],
  [127, 0],
  [-1, 0],
  [0.5, 0],
])('log %d has no partition %d', (log, partition) => {
  expect(() => logPartition(log, partition)).toThrow(RangeError)
})

test.each([
  [0, [], 'partition 3'],
  [0, ['events'], 'partition 3'],
  [0, ['events', 'states'], 'partition 3 of events'],
  [1, ['events', 'states'], 'partition 3 of states'],
  [1, [], 'partition 3 of log 1'],
])('is described for people: log %i of %j', (log, logNames, expected) => {
  expect(partitionName(logPartition(log, 3), logNames)).toBe(expected)
})
