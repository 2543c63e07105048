// Data that a store refuses: only that message is rejected.

import { expect, test } from 'vitest'
import { batchOf, plain } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'
import { counts, packed, pair } from './fixture.ts'

/** Each refused message is rejected alone and completely, before its batch is final. */
export function refusalsSuite(bench: Bench, transactional: boolean): void {
  test('a refused message is rejected alone, wherever it is in the batch', async () => {
    let from = 0
    for (const [why, poison] of Object.entries(bench.store.poisons)) {
      for (const at of [0, 4, 8]) {
        const before = (await bench.rows([])).length
        const messages = Array.from({ length: 9 }, (_, index) => (index === at ? poison(from + at) : pair(from + index)))
        expect(await bench.write(batchOf(from, from + 9, messages)), why).toEqual([counts({ received: 9, stored: 8, deadLettered: 1 })])
        const rejections = bench.rejections.splice(0)
        expect(rejections, why).toEqual([expect.objectContaining({ message: at, record: 1, rule: 'store-refused' })])
        const left = (await bench.store.rows()).filter(row => row.position === packed(bench.sink, from + at))
        expect((await bench.rows(rejections, from)).length - before, why).toBe(16)
        // The faulty row is never stored, and a transaction leaves no row.
        expect(left.map(({ index }) => index).filter(index => transactional || index === 1)).toEqual([])
        if (transactional) expect(rejections[0]!.partial).toBeUndefined()
        from += 9
      }
    }
  })

  test.each([
    ['before 1677', Date.UTC(1600, 0) * 1000],
    ['after 2262', Date.UTC(2500, 0) * 1000],
  ])(
    'a document created %s, whose nanoseconds no int64 holds, is rejected with its message, and never stored as of another time',
    async (_when, createdUs) => {
      const documents = [
        { format: 'engine', payload: { a: 1 } },
        { format: 'engine', payload: { a: 2 }, createdUs },
        { format: 'engine', payload: { a: 3 } },
      ]
      expect(await bench.write(batchOf(0, 2, [{ offset: 0, documents }, plain(1)]))).toEqual([
        counts({ received: 2, stored: 1, deadLettered: 1 }),
      ])
      expect(bench.rejections).toEqual([expect.objectContaining({ message: 0, record: 1, rule: 'store-refused' })])
      expect(await bench.values()).toEqual([1])
    },
  )

  test('a batch of only refused messages advances the position', async () => {
    const kinds = Object.values(bench.store.poisons)
    const messages = Array.from({ length: 200 }, (_, offset) => kinds[offset % kinds.length]!(offset))
    expect(await bench.write(batchOf(0, 200, messages))).toEqual([counts({ received: 200, deadLettered: 200 })])
    expect(bench.rejections.map(rejection => rejection.message)).toEqual(messages.map((_, index) => index))
    expect(await bench.rows()).toEqual([])
    await bench.expectPosition(200)
  })

  test('if rejections cannot be acknowledged the batch is not final; acknowledged ones are not requested again', async () => {
    const poison = Object.values(bench.store.poisons)[0]!
    const encoded = bench.sink.encode(batchOf(0, 3, [plain(0), poison(1), plain(2)]))
    const away = new Error('the dead letters are away')
    await expect(bench.sink.write(encoded, () => Promise.reject(away), signal)).rejects.toBe(away)
    if (transactional) expect(await bench.store.rows()).toEqual([])
    expect((await bench.position()) ?? 0).toBe(0)
    bench.expectStored(await bench.sink.write(encoded, bench.keep, signal), { received: 3, stored: 2, deadLettered: 1 })
    await bench.sink.write(encoded, bench.keep, signal)
    expect(bench.rejections).toHaveLength(1)
    expect(await bench.values()).toEqual([0, 2])
  })
}
