// Followers when the log loses its last messages.

import { beforeEach, expect, test, vi } from 'vitest'
import { type Follow, shorten } from '../../../pipeline/live/follow.ts'

const lost = vi.fn<() => void>()
beforeEach(() => void lost.mockClear())

function followAt(offsets: Follow['offsets'], begun?: Follow['begun']): Follow {
  const follower = { take: () => 0, space: () => undefined, lost, end: () => undefined }
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
