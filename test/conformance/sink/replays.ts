// Replays of dead letters: the whole job on the store, with letters in a fake log and a decoder that the test controls.

import { beforeEach, describe, expect, test } from 'vitest'
import { type ReplayParts, type ReplayReport, replay } from '../../../pipeline/dead-letters/replay.ts'
import { openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { logPartition, partitionOf } from '../../../transformers/log-partition.ts'
import { type FakeLog, openFakeLog } from '../../pipeline/fake-log.ts'
import { openFakeTopicReader } from '../../pipeline/fake-topic-reader.ts'
import { outgoing } from '../../pipeline/message.ts'
import { append, batchOf, noonUs, plain, type TestMessage } from '../../sinks/batches.ts'
import { type Bench, signal } from './bench.ts'
import { packed, pair } from './fixture.ts'

const partition = 7

export function replaysSuite(bench: Bench, transactional: boolean): void {
  describe('replayed dead letters', () => {
    let deadLetters: FakeLog
    /** By offset, the decoded message of a letter. */
    let decoded: Map<number, TestMessage>

    beforeEach(() => {
      deadLetters = openFakeLog('messages.dead-letters.writer-1')
      decoded = new Map()
    })

    /** Writes letters whose messages are decoded as these from now on. */
    async function putDeadLetter(messages: readonly TestMessage[], partial = false): Promise<void> {
      for (const message of messages) decoded.set(message.offset, message)
      const dead = openDeadLetters({
        logOf: async () => deadLetters,
        topics: ['messages'],
        logIds: ['id-1'],
        logNumbers: bench.sink.logNumbers,
        writer: 'writer-1',
      })
      const rejection = { message: 0, rule: 'store-refused', reason: 'no', ...(partial ? { partial } : {}) }
      await dead.put(
        messages.map(({ offset }) => ({ stage: 'store', at: logPartition(0, partition), offset, rejection, message: outgoing() })),
      )
    }

    /** Makes the writer pass the partition without a row. */
    async function pass(from: number, to: number): Promise<void> {
      await bench.write(batchOf(from, to, [], partition))
    }

    const run = (more: Partial<ReplayParts> = {}): Promise<ReplayReport> => {
      const { audit, openSink } = bench.store.replays
      const parts: ReplayParts = {
        reader: openFakeTopicReader(deadLetters),
        log: deadLetters,
        decoder: {
          decode(message, of, batch) {
            append(batch, { ...decoded.get(message.offset)!, offset: message.offset, partition: partitionOf(of) })
            return undefined
          },
        },
        audit,
        sinkOf: openSink,
        topic: 'messages',
        writer: 'writer-1',
        ...more,
      }
      return replay(parts, {}, { signal })
    }
    const done = (replayed: number): ReplayReport => ({ replayed, left: 0, reasons: [], missing: [] })
    const at = (offset: number): bigint => packed(bench.sink, offset, partition)
    const positions = async (): Promise<bigint[]> => (await bench.store.rows()).map(row => row.position)
    const document = (offset: number): TestMessage => ({ offset, documents: [{ format: 'engine', payload: { a: 1 }, createdRestNs: 123 }] })

    test("are stored at their original position, recorded, and no longer open; the writer's position stays", async () => {
      await pass(0, 300)
      await putDeadLetter([pair(100), document(200)])
      expect(await run()).toEqual(done(2))
      expect(await positions()).toEqual([at(100), at(100), at(200)])
      await bench.expectPosition(300, partition)
      expect(await run()).toEqual(done(0))
      const found: number[] = []
      for await (const { offset, replayed } of bench.store.replays.audit.messages(bench.sink.logNumbers[0]!, partition, 0, 300)) {
        if (replayed) found.push(offset)
      }
      expect(found).toEqual([100, 200])
    })

    test('are stored once by a job that was killed between a write and the resolution, and restarted', async () => {
      await pass(0, 300)
      await putDeadLetter(Array.from({ length: 250 }, (_, offset) => pair(offset)))
      let appends = 0
      const killed = {
        ...deadLetters,
        append: async (messages: Parameters<FakeLog['append']>[0]) => {
          if (++appends === 2) throw new Error('killed')
          return deadLetters.append(messages)
        },
      }
      await expect(run({ log: killed })).rejects.toThrow('killed')
      expect(await run()).toEqual(done(150))
      const expected = Array.from({ length: 250 }, (_, offset) => [offset, offset + 0.5]).flat()
      expect(await bench.values()).toEqual(expected)
      // Written again, as if the dead-letter topic had lost its last messages.
      await putDeadLetter([pair(1), pair(249)])
      expect(await run()).toEqual(done(2))
      expect(await bench.values()).toEqual(expected)
    })

    test('are not stored again if the writer has stored them although they have a letter', async () => {
      await bench.write(batchOf(0, 100, [], partition))
      await bench.write(batchOf(100, 102, [pair(100), document(101)], partition))
      await putDeadLetter([pair(100), document(101)])
      expect(await run()).toEqual(done(2))
      expect(await positions()).toEqual([at(100), at(100), at(101)])
    })

    test('that are refused again stay open with the reason and leave no row, and are stored once that is possible', async () => {
      await pass(0, 300)
      const poison = Object.values(bench.store.poisons)[0]!(100)
      await putDeadLetter([poison, pair(101)])
      const { replayed, left, reasons } = await run()
      expect([replayed, left, reasons[0]!.id]).toEqual([1, 1, `${bench.sink.logNumbers[0]!}-${partition}-100`])
      expect(reasons[0]!.reason).not.toBe('')
      expect(await positions()).toEqual([at(101), at(101)])
      decoded.set(100, pair(100))
      expect(await run()).toEqual(done(1))
      expect(await bench.values()).toEqual([100, 100.5, 101, 101.5])
    })

    if (!transactional)
      test('of partly stored messages replace their rows, also if their times differ now', async () => {
        await bench.write(batchOf(100, 101, [pair(100)], partition))
        await bench.write(batchOf(101, 102, [document(101)], partition))
        await bench.write(batchOf(102, 103, [pair(102)], partition))
        const later = noonUs + 3 * 86_400e6
        await putDeadLetter(
          [
            { offset: 100, records: [{ value: 7, timeUs: later }] },
            { offset: 101, documents: [{ format: 'engine', payload: { a: 2 }, createdUs: later }] },
          ],
          true,
        )
        expect(await run()).toEqual(done(2))
        expect(await positions()).toEqual([at(100), at(101), at(102), at(102)])
        const rows = await bench.store.rows()
        expect(rows.map(({ value, payload, timeUs }) => [value, payload, timeUs])).toEqual([
          [7, undefined, later],
          [undefined, { a: 2 }, undefined],
          [102, undefined, noonUs],
          [102.5, undefined, noonUs],
        ])
      })

    if (transactional)
      test('that the writer has not passed are left to it: it crashed between letter and commit, and stores them itself', async () => {
        await pass(0, 100)
        await putDeadLetter([pair(100)])
        const { replayed, reasons } = await run()
        expect([replayed, reasons]).toEqual([
          0,
          [{ id: `${bench.sink.logNumbers[0]!}-${partition}-100`, reason: expect.stringContaining('has not processed this message yet') }],
        ])
        expect(await bench.values()).toEqual([])
        // The writer is restarted with options with which the message is valid.
        await bench.write(batchOf(100, 101, [pair(100)], partition))
        expect(await run()).toEqual(done(1))
        expect(await bench.values()).toEqual([100, 100.5])
      })

    test('are resolved only if their rows can be counted in the store', async () => {
      await pass(0, 300)
      await putDeadLetter([plain(100)])
      const { audit } = bench.store.replays
      const { reasons } = await run({ audit: { ...audit, rowsOf: async () => 0 } })
      expect(reasons).toEqual([{ id: expect.any(String), reason: 'the store has 0 of its 1 rows after the write' }])
      expect(await run()).toEqual(done(1))
    })

    test('of a log that the store does not know, or of another writer, stay open', async () => {
      await putDeadLetter([plain(100)])
      const logs = await bench.store.replays.audit.logs()
      for (const other of [{ topic: 'others' }, { writer: 'writer-2' }]) {
        const reasons = [
          { id: '1-7-100', reason: expect.stringMatching(/^the store has no log 1 of the topic .* its number was freed, or/) as string },
        ]
        expect(await run(other)).toMatchObject({ replayed: 0, left: 1, reasons })
      }
      expect(await bench.store.replays.audit.logs()).toEqual(logs)
      expect(await positions()).toEqual([])
    })
  })
}
