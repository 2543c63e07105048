// Messages that were dead-lettered and are replayed: the position that they had at first is theirs.

import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { Sink } from '../../../sinks/sink.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'
import { batchOf, plainBatch, type TestMessage } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'
import { counts, packed, pair } from './fixture.ts'

/** They come from a log of their own. */
export function replaysSuite(bench: Bench, transactional: boolean): void {
  describe('messages that were dead-lettered and replayed', () => {
    const original = (offset: number) => ({ log: 1, partition: 7, offset })
    const replayed = (offset: number, at: number): TestMessage => ({ ...pair(offset), offset: at, original: original(offset) })
    const positions = async () => (await bench.store.rows()).map(row => row.position)
    let replays: Sink
    const writeReplays = (batch: RecordBatch) => replays.write(replays.encode(batch), bench.keep, signal)

    beforeEach(async () => {
      replays = await bench.store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
    })
    afterEach(() => replays.close())

    test('keep the position that they had at first', async () => {
      await bench.write(plainBatch(0, 1))
      await writeReplays(
        batchOf(0, 2, [replayed(100, 0), { offset: 1, original: original(200), documents: [{ format: 'engine', payload: {} }] }]),
      )
      const at = (offset: number) => packed(bench.sink, offset, 7)
      expect(await positions()).toEqual([packed(bench.sink, 0), at(100), at(100), at(200)])
      await bench.expectPosition(1)
      expect(await replays.positions?.([0])).toEqual(replays.positions && new Map([[0, 2]]))
    })

    test('are stored once, however often they are replayed: in one batch, in the next, and at other positions', async () => {
      await writeReplays(batchOf(0, 2, [replayed(100, 0), replayed(100, 1)]))
      await writeReplays(batchOf(2, 4, [replayed(100, 2), replayed(101, 3)]))
      expect(await bench.values()).toEqual([100, 100.5, 101, 101.5])
    })

    test('are not stored again where they were stored although they have a dead letter', async () => {
      const document = { documents: [{ format: 'engine', payload: { a: 1 }, createdRestNs: 123 }] }
      await bench.write(batchOf(99, 102, [pair(100), { offset: 101, ...document }], 7))
      await writeReplays(batchOf(0, 2, [replayed(100, 0), { offset: 1, ...document, original: original(101) }]))
      expect(await positions()).toHaveLength(3)
    })

    test('that are refused once more are rejected once more, and stored by a later replay', async () => {
      const poison = Object.values(bench.store.poisons)[0]!
      const refused = { ...poison(0), original: original(100) }
      const counted = await writeReplays(batchOf(0, 3, [refused, { ...poison(1), original: original(100) }, replayed(101, 2)]))
      expect(counted).toEqual([counts({ received: 3, stored: 1, deadLettered: 2 })])
      expect(bench.rejections.map(({ message, rule }) => [message, rule])).toEqual([
        [0, 'store-refused'],
        [1, 'store-refused'],
      ])
      await writeReplays(batchOf(3, 4, [replayed(100, 3)]))
      expect(await bench.values()).toEqual([100, 100.5, 101, 101.5])
    })

    if (transactional)
      test('that another worker wrote meanwhile and that were refused there are stored by a later replay', async () => {
        const refused = { ...Object.values(bench.store.poisons)[0]!(0), original: original(100) }
        const other = await bench.store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
        const late = other.encode(batchOf(0, 2, [refused, replayed(101, 1)]))
        await writeReplays(batchOf(0, 2, [refused, replayed(101, 1)]))
        expect(await other.write(late, bench.keep, signal)).toEqual([counts({ received: 2, duplicate: 2 })])
        expect(bench.rejections.map(({ message }) => message)).toEqual([0])
        await writeReplays(batchOf(2, 3, [replayed(100, 2)]))
        expect(await bench.values()).toEqual([100, 100.5, 101, 101.5])
        await other.close()
      })

    if (transactional)
      test('that come again behind one which another worker wrote, and which was refused there, are stored', async () => {
        const refused = { ...Object.values(bench.store.poisons)[0]!(0), original: original(100) }
        const other = await bench.store.open({ logName: 'messages.replays.writer-1', logId: 'replays-1' })
        const late = other.encode(batchOf(0, 2, [refused, replayed(100, 1)]))
        await writeReplays(batchOf(0, 1, [refused]))
        expect(await other.write(late, bench.keep, signal)).toEqual([counts({ received: 2, duplicate: 1, stored: 1 })])
        await writeReplays(batchOf(2, 3, [replayed(100, 2)]))
        expect(await bench.values()).toEqual([100, 100.5])
        await other.close()
      })
  })
}
