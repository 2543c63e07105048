// What every StoreAudit keeps, run against the fake and the real ones: what a sink has written is what an audit finds.

import { describe, expect, test } from 'vitest'
import type { AuditedMessage, StoreAudit } from '../../sinks/audit.ts'
import type { Sink } from '../../sinks/sink.ts'
import { batchOf, noonUs, plain, plainBatch, type TestMessage } from '../sinks/batches.ts'

/** An empty store. */
export interface AuditedStore {
  readonly open: (logName: string) => Promise<Sink>
  readonly audit: StoreAudit
  /** Writes the rows of this position a second time, as a fault would. */
  readonly double: (position: bigint) => Promise<void>
  /** Takes them away. */
  readonly remove: (position: bigint) => Promise<void>
  /** Drops the table of a format, as an operator may. */
  readonly dropFormat: (format: string) => Promise<void>
  readonly close: () => Promise<void>
}

const signal = new AbortController().signal
const keep = async (): Promise<void> => undefined

export function auditConformance(name: string, openStore: () => Promise<AuditedStore>): void {
  async function withStore(work: (store: AuditedStore, sink: Sink) => Promise<void>): Promise<void> {
    const store = await openStore()
    const sink = await store.open('messages')
    try {
      await work(store, sink)
    } finally {
      await sink.close()
      await store.close()
    }
  }
  const packed = (sink: Sink, offset: number, partition = 0): bigint =>
    (BigInt(sink.logNumber) << 56n) | (BigInt(partition) << 44n) | BigInt(offset)
  const message = (offset: number, rows = 1): AuditedMessage => ({ offset, rows, doubled: 0, replayed: false })

  describe(`${name} keeps the contract of an audit`, () => {
    test('a store that was never written to knows its log, and has no rows', () =>
      withStore(async ({ audit }, sink) => {
        const [log] = await audit.logs()
        expect(log).toMatchObject({ number: sink.logNumber, name: 'messages', partitions: new Map() })
        expect(await all(audit.messages(sink.logNumber, 0, 0, 1000))).toEqual([])
      }))

    test('messages come in the order of their offsets, with their rows, from all tables, and of the asked range only', () =>
      withStore(async ({ audit }, sink) => {
        const messages: TestMessage[] = [
          plain(0),
          {
            offset: 1,
            records: [
              { value: 1, timeUs: noonUs + 5e6 },
              { value: 2, timeUs: noonUs - 40 * 86_400e6 },
            ],
          },
          { offset: 2 },
          { offset: 3, outcome: 'filtered' },
          {
            offset: 4,
            documents: [
              { format: 'engine', payload: {} },
              { format: 'engine', payload: {} },
              { format: 'engine', payload: {} },
            ],
          },
          { offset: 5, documents: [{ format: '"; DROP', payload: {} }] },
          // Its table's name holds "$1" and "$2", as a hash may.
          { offset: 6, documents: [{ format: '$1', payload: {} }] },
          plain(9),
        ]
        await sink.write(sink.encode(batchOf(0, 10, messages)), keep, signal)
        await sink.write(sink.encode(plainBatch(0, 3, 1)), keep, signal)
        const expected = [message(0), message(1, 2), message(4, 3), message(5), message(6), message(9)]
        expect(await all(audit.messages(sink.logNumber, 0, 0, 10))).toEqual(expected)
        expect(await all(audit.messages(sink.logNumber, 0, 1, 5))).toEqual(expected.slice(1, 3))
        expect(await all(audit.messages(sink.logNumber, 1, 0, 10))).toEqual([message(0), message(1), message(2)])
        expect(await all(audit.messages(sink.logNumber + 1, 0, 0, 10))).toEqual([])
      }))

    test('a row that is there twice is said, and one that is gone', () =>
      withStore(async ({ audit, double, remove }, sink) => {
        await sink.write(
          sink.encode(batchOf(0, 3, [{ offset: 0, records: [{ value: 1 }, { value: 2 }] }, plain(1), plain(2)])),
          keep,
          signal,
        )
        await double(packed(sink, 0))
        await remove(packed(sink, 1))
        expect(await all(audit.messages(sink.logNumber, 0, 0, 3))).toEqual([{ ...message(0, 4), doubled: 2 }, message(2)])
      }))

    test('one that was replayed is marked as one, at its first position', () =>
      withStore(async ({ open, audit }, sink) => {
        await sink.write(sink.encode(plainBatch(0, 2)), keep, signal)
        const replays = await open('messages.replays.writer')
        const batch = batchOf(0, 1, [{ ...plain(0), original: { log: sink.logNumber, partition: 0, offset: 2 } }])
        await replays.write(replays.encode(batch), keep, signal)
        expect(await all(audit.messages(sink.logNumber, 0, 0, 3))).toEqual([message(0), message(1), { ...message(2), replayed: true }])
        await replays.close()
      }))

    test('more than a page, and an end before it', () =>
      withStore(async ({ audit }, sink) => {
        for (let at = 0; at < 12_000; at += 3000) await sink.write(sink.encode(plainBatch(at, at + 3000)), keep, signal)
        const found = await all(audit.messages(sink.logNumber, 0, 0, 12_000))
        expect(found.map(({ offset }) => offset)).toEqual(Array.from({ length: 12_000 }, (_, at) => at))
        let seen = 0
        for await (const _ of audit.messages(sink.logNumber, 0, 0, 12_000)) if (++seen === 5001) break
        expect((await all(audit.messages(sink.logNumber, 0, 0, 12_000))).length).toBe(12_000)
      }))

    test('the rows of one message are found by what is known of it', () =>
      withStore(async ({ audit }, sink) => {
        const messages: TestMessage[] = [
          { offset: 0, records: [{ value: 1 }, { value: 2, timeUs: noonUs + 1 }] },
          { offset: 1, documents: [{ format: 'engine', payload: {}, createdRestNs: 999 }] },
        ]
        await sink.write(sink.encode(batchOf(0, 2, messages)), keep, signal)
        const where = { channel: 'channel-1', format: 'messages', earliestUs: noonUs, latestUs: noonUs + 1 }
        expect(await audit.rowsOf(sink.logNumber, 0, 0, where)).toBe(2)
        expect(await audit.rowsOf(sink.logNumber, 0, 1, { ...where, format: 'engine', latestUs: noonUs })).toBe(1)
        expect(await audit.rowsOf(sink.logNumber, 0, 7, where)).toBe(0)
      }))

    test('a format whose table was dropped has no rows, and those of the others are found', () =>
      withStore(async ({ audit, dropFormat }, sink) => {
        const document = (offset: number, format: string): TestMessage => ({ offset, documents: [{ format, payload: {} }] })
        await sink.write(sink.encode(batchOf(0, 3, [plain(0), document(1, 'engine'), document(2, 'gearbox')])), keep, signal)
        await dropFormat('engine')
        expect(await all(audit.messages(sink.logNumber, 0, 0, 3))).toEqual([message(0), message(2)])
        const where = { channel: 'channel-1', earliestUs: noonUs, latestUs: noonUs }
        expect(await audit.rowsOf(sink.logNumber, 0, 1, { ...where, format: 'engine' })).toBe(0)
        expect(await audit.rowsOf(sink.logNumber, 0, 2, { ...where, format: 'gearbox' })).toBe(1)
      }))
  })
}

async function all(messages: AsyncIterable<AuditedMessage>): Promise<AuditedMessage[]> {
  const found: AuditedMessage[] = []
  for await (const message of messages) found.push(message)
  return found
}
