// Followers when the log loses its last messages.

import { beforeEach, expect, test, vi } from 'vitest'
import { openReads } from '../../../pipeline/live/catch-up.ts'
import { type Follow, shorten } from '../../../pipeline/live/follow.ts'

const lost = vi.fn<() => void>()
beforeEach(() => void lost.mockClear())

function followAt(offsets: Follow['offsets'], begun?: Follow['begun']): Follow {
  const follower = { partsOf: () => 1, take: () => 0, space: () => undefined, lost, end: () => undefined }
  return { channel: 'mine', follower, offsets, begun, attached: false, stopped: false }
}

test.each<[what: string, from: Follow, offsets: Follow['offsets'], begun: Follow['begun']]>([
  ['past the new end goes back to it', followAt([7, 4]), [7, 3], undefined],
  ['inside a message that was lost begins the one in its place', followAt([7, 3], { partition: 1, rows: 2 }), [7, 3], undefined],
  ['inside a message of another partition stays there', followAt([7, 4], { partition: 0, rows: 2 }), [7, 3], { partition: 0, rows: 2 }],
  ['before the new end stays there', followAt([7, 2], { partition: 1, rows: 2 }), [7, 2], { partition: 1, rows: 2 }],
  ['at the tail is where the tail is', followAt(undefined), undefined, undefined],
])('a follower that is %s, and is notified', (_what, follow, offsets, begun) => {
  shorten(follow, 1, 3)
  expect([follow.offsets, follow.begun]).toEqual([offsets, begun])
  expect(lost).toHaveBeenCalledTimes(1)
})

test('two followers read the log at a time: the one that waits longest, and the one with the least to read', async () => {
  const reads = openReads()
  const began: number[] = []
  const ends: (() => void)[] = []
  const read = (left: number): Promise<void> =>
    reads(left, () => {
      began.push(left)
      return new Promise(resolve => void ends.push(resolve))
    })
  const all = [1_000_000, 1_000_001, 1_000_002, 1_000_003, 1_000_004, 5, 7].map(read)
  for (let nth = 0; nth < all.length; nth++) {
    ends[nth]!()
    await new Promise(setImmediate)
  }
  await Promise.all(all)
  expect(began.slice(0, 2)).toEqual([1_000_000, 1_000_001])
  expect([began.indexOf(5), began.indexOf(7)].every(at => at < 5)).toBe(true)
  expect(began.filter(left => left > 1_000_001)).toEqual([1_000_002, 1_000_003, 1_000_004])
})
