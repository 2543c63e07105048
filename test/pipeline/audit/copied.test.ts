// The ledger of a store whose first messages were copied from another store, which counts none.

import { expect, test } from 'vitest'
import type { MessageCounts } from '../../../sinks/sink.ts'
import { everyKind, type Site } from './site.ts'

/** What the store has counted of the messages from `copiedBelow` on, as after a copy of those below it. */
function copiedBooks(site: Site, copiedBelow: number, counts: Partial<MessageCounts>): void {
  const none = { received: 0, stored: 0, empty: 0, filtered: 0, skipped: 0, duplicate: 0, deadLettered: 0, lost: 0 }
  site.books.set('1/0', { ...none, ...counts, copiedBelow })
}

test.each<[copiedBelow: number, counts: Partial<MessageCounts>, faults: object]>([
  [8, {}, {}],
  [7, { received: 1, deadLettered: 1 }, {}],
  [6, { received: 2, stored: 1, deadLettered: 1 }, {}],
  // A message that nothing says of.
  [6, { received: 1, stored: 1 }, { ledger: 1 }],
  [8, { received: 1, stored: 1 }, { ledger: 1 }],
  // More than there are.
  [3, { received: 5, stored: 5 }, { ledger: 1 }],
])('messages below %i were copied, and are in no count of the ledger: %o', async (copiedBelow, counts, faults) => {
  const site = await everyKind()
  copiedBooks(site, copiedBelow, counts)
  const [partition] = (await site.verify()).partitions
  expect(partition).toMatchObject({ recount: { received: 8 }, holds: Object.keys(faults).length === 0 })
  expect(partition!.faults).toEqual(faults)
})
