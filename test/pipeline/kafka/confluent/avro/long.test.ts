// Avro longs read and written without bigints equal those with bigints.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  length,
  long,
  longToTimestamp,
  readLength,
  readLong,
  timestamp,
  writeLength,
  writeTimestamp,
} from '../../../../../pipeline/kafka/confluent/avro/long.ts'
import { varint } from '../../records/record-batches.ts'

const int64 = fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n })
const edges = [0n, -1n, 1n, 63n, 64n, -64n, -65n, 2n ** 31n, -(2n ** 31n), 2n ** 32n, 2n ** 53n, 2n ** 63n - 1n, -(2n ** 63n)]

function read(bytes: readonly number[]): bigint {
  expect(readLong(Uint8Array.from(bytes), 0, bytes.length)).toBe(bytes.length)
  return BigInt(long.high) * 2n ** 32n + BigInt(long.low)
}

test('every long of 64 bits is read as it was written', () => {
  for (const value of edges) expect(read(varint(value))).toBe(value)
  fc.assert(fc.property(int64, value => read(varint(value)) === value))
})

test('a long that is cut off, or has more than 64 bits, is invalid', () => {
  fc.assert(
    fc.property(int64, fc.nat(9), (value, cut) => {
      const bytes = varint(value)
      const end = Math.min(cut, bytes.length - 1)
      expect(readLong(Uint8Array.from(bytes), 0, end)).toBe(end + 1)
    }),
  )
  expect(readLong(new Uint8Array(20).fill(0x80), 0, 20)).toBe(21)
  const large = varint(-(2n ** 63n))
  expect(readLong(Uint8Array.from([...large.slice(0, -1), 2]), 0, 10)).toBe(11)
})

test('a time in nanoseconds is split exactly, floored before 1970, and refused beyond 2^53 microseconds', () => {
  const check = (value: bigint): void => {
    read(varint(value))
    const us = value / 1000n - (value % 1000n < 0n ? 1n : 0n)
    const isSafe = us >= BigInt(Number.MIN_SAFE_INTEGER) && us <= BigInt(Number.MAX_SAFE_INTEGER)
    expect(longToTimestamp(1)).toBe(isSafe)
    if (isSafe) expect([timestamp.us, timestamp.restNs]).toEqual([Number(us), Number(value - us * 1000n)])
  }
  for (const value of [...edges, 1_700_000_000_123_456_789n, -1000n, -999n, -1001n]) check(value)
  for (const edge of [BigInt(Number.MAX_SAFE_INTEGER), BigInt(Number.MIN_SAFE_INTEGER)]) {
    for (const by of [-1n, 0n, 1n]) for (const rest of [0n, 999n]) check((edge + by) * 1000n + rest)
  }
  fc.assert(fc.property(int64, check))
})

test('milliseconds and microseconds are times too', () => {
  read(varint(-1_700_000_000_123_456n))
  expect(longToTimestamp(1000)).toBe(true)
  expect(timestamp).toEqual({ us: -1_700_000_000_123_456, restNs: 0 })
  read(varint(1_700_000_000_123n))
  expect(longToTimestamp(1_000_000)).toBe(true)
  expect(timestamp).toEqual({ us: 1_700_000_000_123_000, restNs: 0 })
  read(varint(2n ** 53n))
  expect(longToTimestamp(1000)).toBe(false)
  expect(longToTimestamp(1_000_000)).toBe(false)
})

test('every time of an envelope is written as nanoseconds', () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), fc.nat(999), (us, restNs) => {
      const bytes = new Uint8Array(10)
      const end = writeTimestamp(bytes, 0, us, restNs)
      expect([...bytes.subarray(0, end)]).toEqual(varint(BigInt(us) * 1000n + BigInt(restNs)))
    }),
  )
})

test('a length is read as it was written, and is invalid if it is negative or fewer bytes follow', () => {
  fc.assert(
    fc.property(fc.nat(1_000_000), count => {
      const bytes = new Uint8Array(10)
      const at = writeLength(bytes, 0, count)
      expect([...bytes.subarray(0, at)]).toEqual(varint(count))
      expect(readLength(bytes, 0, at + count)).toBe(at)
      expect(length.value).toBe(count)
      if (count > 0) expect(readLength(bytes, 0, at + count - 1)).toBe(at + count)
    }),
  )
  for (const value of [-1n, -64n, -65n, 2n ** 31n, 2n ** 32n, 2n ** 33n + 1n, -(2n ** 63n)]) {
    const bytes = Uint8Array.from([...varint(value), 0, 0, 0, 0])
    expect(readLength(bytes, 0, bytes.length)).toBe(bytes.length + 1)
  }
})
