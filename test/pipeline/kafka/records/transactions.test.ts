// Transactions: markers are not messages, and a reader of committed messages skips aborted ones.

import { describe, expect, test } from 'vitest'
import type { Fetched } from '../../../../pipeline/kafka/records/record-set.ts'
import { chunkBelow } from '../../../../pipeline/topic-reader.ts'
import { bits, covered, encodeBatch, fetch, marker } from './record-batches.ts'

function transactional(producerId: number, baseOffset: number, ...values: string[]): Buffer {
  return encodeBatch(
    values.map(value => ({ value })),
    { baseOffset, producerId, attributes: bits.transactional },
  )
}

const plain = (baseOffset: number, value: string, producerId = -1) => encodeBatch([{ value }], { baseOffset, producerId })

test('a marker is a gap', () => {
  const set = Buffer.concat([transactional(7, 0, 'a', 'b'), marker('commit', 7, 2), plain(3, 'c')])
  expect(covered(set, { aborted: [] })).toEqual([[0, 4, 'a', 'b', 'c']])
  expect(covered(set)).toEqual([[0, 4, 'a', 'b', 'c']])
})

test('a set with only markers covers its offsets', () =>
  expect(covered(Buffer.concat([marker('commit', 7, 4), marker('abort', 8, 5)]), { from: 4, aborted: [] })).toEqual([[4, 6]]))

test('an aborted transaction is a gap', () => {
  const set = Buffer.concat([plain(0, 'a'), transactional(7, 1, 'x', 'y'), marker('abort', 7, 3), plain(4, 'b')])
  expect(covered(set, { aborted: [{ producerId: 7, firstOffset: 1 }] })).toEqual([[0, 5, 'a', 'b']])
})

test('a reader of uncommitted messages gets it', () => {
  const set = Buffer.concat([transactional(7, 0, 'x'), marker('abort', 7, 1)])
  expect(covered(set)).toEqual([[0, 2, 'x']])
})

describe('messages outside the aborted transaction stay', () => {
  test('of another producer, and of the same producer without a transaction', () => {
    const set = Buffer.concat([
      transactional(7, 0, 'x'),
      transactional(8, 1, 'a'),
      plain(2, 'b', 7),
      transactional(7, 3, 'y'),
      marker('commit', 8, 4),
      marker('abort', 7, 5),
    ])
    expect(covered(set, { aborted: [{ producerId: 7, firstOffset: 0 }] })).toEqual([[0, 6, 'a', 'b']])
  })

  test('of the producer before and after it', () => {
    const set = Buffer.concat([
      transactional(7, 0, 'a'),
      marker('commit', 7, 1),
      transactional(7, 2, 'x'),
      marker('abort', 7, 3),
      transactional(7, 4, 'b'),
      marker('commit', 7, 5),
      transactional(7, 6, 'y'),
      marker('abort', 7, 7),
      transactional(7, 8, 'c'),
    ])
    const aborted = [
      { producerId: 7, firstOffset: 6 },
      { producerId: 7, firstOffset: 2 },
    ]
    expect(covered(set, { aborted })).toEqual([[0, 9, 'a', 'b', 'c']])
  })

  test('two transactions that are aborted at the same time each end at their own marker', () => {
    const set = Buffer.concat([
      transactional(7, 0, 'x'),
      transactional(8, 1, 'y'),
      marker('abort', 7, 2),
      transactional(7, 3, 'a'),
      transactional(8, 4, 'z'),
      marker('abort', 8, 5),
      transactional(8, 6, 'b'),
    ])
    const aborted = [
      { producerId: 8, firstOffset: 1 },
      { producerId: 7, firstOffset: 0 },
    ]
    expect(covered(set, { aborted })).toEqual([[0, 7, 'a', 'b']])
  })

  test('after a marker that is below the requested offset', () => {
    const set = Buffer.concat([transactional(7, 0, 'x'), marker('abort', 7, 1), transactional(7, 2, 'a')])
    expect(covered(set, { from: 2, aborted: [{ producerId: 7, firstOffset: 0 }] })).toEqual([[2, 3, 'a']])
  })
})

test('a transaction that began before the fetch is skipped from its first batch on', () => {
  const set = Buffer.concat([transactional(7, 10, 'x'), marker('abort', 7, 11), plain(12, 'a')])
  expect(covered(set, { from: 10, aborted: [{ producerId: 7, firstOffset: 3 }] })).toEqual([[10, 13, 'a']])
})

test('a control batch of an unknown type ends nothing', () => {
  const odd = encodeBatch([{ key: Uint8Array.from([0, 0, 0, 9]), value: '' }], {
    baseOffset: 1,
    producerId: 7,
    attributes: bits.transactional | bits.control,
  })
  const cut = encodeBatch([{ key: Uint8Array.of(0), value: '' }], {
    baseOffset: 2,
    producerId: 7,
    attributes: bits.transactional | bits.control,
  })
  const set = Buffer.concat([transactional(7, 0, 'x'), odd, cut, transactional(7, 3, 'y'), marker('abort', 7, 4)])
  expect(covered(set, { aborted: [{ producerId: 7, firstOffset: 0 }] })).toEqual([[0, 5]])
})

describe('a chunk names the offsets that never had a message', () => {
  const set = Buffer.concat([
    transactional(7, 0, 'x', 'y'),
    marker('abort', 7, 2),
    plain(3, 'a'),
    // Compaction has removed a message before this one, and all those of the next batch.
    encodeBatch([{ value: 'b', offsetDelta: 1 }], { baseOffset: 4 }),
    encodeBatch([], { baseOffset: 6, lastOffsetDelta: 1 }),
    transactional(8, 8, 'c'),
    marker('commit', 8, 9),
  ])
  const aborted = [{ producerId: 7, firstOffset: 0 }]
  const markersOf = (fetched: Partial<Fetched>) => fetch(set, { aborted, ...fetched }).map(({ markers }) => markers)
  const ranges = (...pairs: [number, number][]) => pairs.map(([from, to]) => ({ from, to }))

  test('markers and aborted messages, but not those that were compacted away', () => {
    expect(markersOf({})).toEqual([ranges([0, 2], [2, 3], [9, 10])])
  })

  test('in the chunk that covers them, from the requested offset on', () => {
    expect(markersOf({ from: 1, chunkMessagesMax: 1 })).toEqual([ranges([1, 2], [2, 3]), undefined, undefined, ranges([9, 10])])
  })

  test('below the offset at which a reader ends', () => {
    const [chunk] = fetch(set, { aborted })
    expect(chunkBelow(chunk!, 1).markers).toEqual(ranges([0, 1]))
  })
})
