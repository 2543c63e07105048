// The counts of a batch add up, whatever was settled before and whatever the store refused.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { countMessages } from '../../sinks/counts.ts'
import { positionsOf } from '../pipeline/positions.ts'
import { batchOf, type TestMessage } from './batches.ts'

const message = fc.record({ gap: fc.nat(2), what: fc.constantFrom('stored', 'empty', 'filtered', 'deadLettered') })

test('received = stored + empty + filtered + duplicate + dead-lettered, and every new offset is counted once', () => {
  const arbitrary = fc.record({
    from: fc.nat(20),
    some: fc.array(message),
    tail: fc.nat(3),
    next: fc.nat(40),
    rejected: fc.array(fc.nat(10)),
  })
  fc.assert(
    fc.property(arbitrary, ({ from, some, tail, next, rejected }) => {
      let offset = from
      const messages: TestMessage[] = some.map(({ gap, what }) => {
        offset += gap
        const at = offset++
        if (what === 'stored') return { offset: at, records: [{ value: 1 }] }
        return what === 'empty' ? { offset: at } : { offset: at, outcome: what as 'filtered' }
      })
      const to = offset + tail
      const settled = Math.max(from, next)
      const batch = batchOf(from, to, messages)
      const [count] = countMessages(batch.messages, batch.ranges, new Set(rejected), positionsOf({ 0: settled }))
      expect(count!.received).toBe(messages.length)
      expect(count!.stored + count!.empty + count!.filtered + count!.duplicate + count!.deadLettered).toBe(messages.length)
      expect(count!.received - count!.duplicate + count!.skipped).toBe(Math.max(0, to - settled))
    }),
  )
})

test('a message of a partition that no range covers is an error of the caller', () => {
  const batch = batchOf(0, 1, [{ offset: 0 }])
  expect(() => countMessages(batch.messages, [], new Set())).toThrow(RangeError)
})
