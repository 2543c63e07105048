// The contract of every StoreAudit, for the fake and the real ones: an audit finds what a sink has written.

import { describe, expect, test } from 'vitest'
import type { AuditedMessage } from '../../sinks/audit.ts'
import type { Sink } from '../../sinks/sink.ts'
import { batchOf, noonUs, plain, plainBatch, type TestMessage } from '../sinks/batches.ts'
import { auditContents } from './audit-contents.ts'
import { type AuditedStore, all } from './audited-store.ts'
import { packed } from './sink/fixture.ts'

const signal = new AbortController().signal
const keep = async (): Promise<void> => undefined

export function auditConformance(name: string, openStore: () => Promise<AuditedStore>): void {
  async function withStore(work: (store: AuditedStore, sink: Sink) => Promise<void>): Promise<void> {
    const store = await openStore()
    const sink = await store.open()
    try {
      await work(store, sink)
    } finally {
      await sink.close()
      await store.close()
    }
  }
  /** A log that gets the number 1, since it is the only one left. */
  async function withNumberOne(open: AuditedStore['open']): Promise<Sink> {
    const otherLogs = Array.from({ length: 124 }, (_, nth) => `log-${nth}`)
    await (await open({ logName: 'log', otherLogs })).close()
    const next = await open({ logName: 'last' })
    expect(next.logNumbers).toEqual([1])
    await expect(open({ logName: 'one too many' })).rejects.toThrow(/already has 127 logs/)
    return next
  }
  const message = (offset: number, rows = 1): AuditedMessage => ({ offset, rows, doubled: 0, replayed: false })

  describe(`${name} fulfils the contract of an audit`, () => {
    test('a store without rows knows its log', () =>
      withStore(async ({ audit }, sink) => {
        const [log] = await audit.logs()
        expect(log).toMatchObject({ number: sink.logNumbers[0]!, name: 'messages', partitions: new Map() })
        expect(await all(audit.messages(sink.logNumbers[0]!, 0, 0, 1000))).toEqual([])
      }))

    test('messages are in the order of their offsets, with their rows, from all tables, and only of the requested range', () =>
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
          // Its table's name contains "$1" and "$2", as a hash may.
          { offset: 6, documents: [{ format: '$1', payload: {} }] },
          plain(9),
        ]
        await sink.write(sink.encode(batchOf(0, 10, messages)), keep, signal)
        await sink.write(sink.encode(plainBatch(0, 3, 1)), keep, signal)
        const expected = [message(0), message(1, 2), message(4, 3), message(5), message(6), message(9)]
        expect(await all(audit.messages(sink.logNumbers[0]!, 0, 0, 10))).toEqual(expected)
        expect(await all(audit.messages(sink.logNumbers[0]!, 0, 1, 5))).toEqual(expected.slice(1, 3))
        expect(await all(audit.messages(sink.logNumbers[0]!, 1, 0, 10))).toEqual([message(0), message(1), message(2)])
        expect(await all(audit.messages(sink.logNumbers[0]! + 1, 0, 0, 10))).toEqual([])
      }))

    test('a duplicated row is reported, and a missing one', () =>
      withStore(async ({ audit, double, remove }, sink) => {
        await sink.write(
          sink.encode(batchOf(0, 3, [{ offset: 0, records: [{ value: 1 }, { value: 2 }] }, plain(1), plain(2)])),
          keep,
          signal,
        )
        await double(packed(sink, 0))
        await remove(packed(sink, 1))
        expect(await all(audit.messages(sink.logNumbers[0]!, 0, 0, 3))).toEqual([{ ...message(0, 4), doubled: 2 }, message(2)])
      }))

    test('a replayed message is marked', () =>
      withStore(async ({ openReplay, audit }, sink) => {
        await sink.write(sink.encode(plainBatch(0, 2)), keep, signal)
        await sink.write(sink.encode(batchOf(2, 3, [{ offset: 2, outcome: 'deadLettered' }])), keep, signal)
        const replays = await openReplay(sink.logNumbers[0]!)
        await replays.write(batchOf(2, 3, [plain(2)]), new Set(), signal)
        expect(await all(audit.messages(sink.logNumbers[0]!, 0, 0, 3))).toEqual([message(0), message(1), { ...message(2), replayed: true }])
      }))

    test('the number of an earlier log is freed when its rows are gone, with its offsets and notes of replays', () =>
      withStore(async ({ open, openReplay, audit, remove, free }, sink) => {
        await sink.write(sink.encode(plainBatch(0, 2)), keep, signal)
        await sink.write(sink.encode(batchOf(2, 3, [{ offset: 2, outcome: 'deadLettered' }])), keep, signal)
        await (await openReplay(1)).write(batchOf(2, 3, [plain(2)]), new Set(), signal)
        await (await open({ logId: 'id-2', acceptNewLog: 'id-2' })).close()
        await expect(free(1)).rejects.toThrow(/still has rows of the log "messages" \(id id-1\)/)
        for (const offset of [0, 1, 2]) await remove(packed(sink, offset))
        expect([await audit.hasRows(1), await audit.hasRows(2)]).toEqual([false, false])
        await expect(free(2)).rejects.toThrow(/from which the writer "writer-1" writes/)
        await free(1)
        expect((await audit.logs()).map(({ number }) => number)).toEqual([2])
        await expect(free(1)).rejects.toThrow(/no log with the number 1/)
        // The log that gets the number has nothing of the one before. Registering as many takes minutes in a store without transactions.
        const next = sink.positions === undefined ? sink : await withNumberOne(open)
        await next.write(next.encode(batchOf(2, 3, [plain(2)])), keep, signal)
        expect(await all(audit.messages(1, 0, 0, 3))).toEqual([message(2)])
        if (next !== sink) await next.close()
      }))

    test('more than a page, and ending early', () =>
      withStore(async ({ audit }, sink) => {
        for (let at = 0; at < 12_000; at += 3000) await sink.write(sink.encode(plainBatch(at, at + 3000)), keep, signal)
        const found = await all(audit.messages(sink.logNumbers[0]!, 0, 0, 12_000))
        expect(found.map(({ offset }) => offset)).toEqual(Array.from({ length: 12_000 }, (_, at) => at))
        let seen = 0
        for await (const _ of audit.messages(sink.logNumbers[0]!, 0, 0, 12_000)) if (++seen === 5001) break
        expect((await all(audit.messages(sink.logNumbers[0]!, 0, 0, 12_000))).length).toBe(12_000)
      }))

    test('the rows of one message are found from what is known about it', () =>
      withStore(async ({ audit }, sink) => {
        const messages: TestMessage[] = [
          { offset: 0, records: [{ value: 1 }, { value: 2, timeUs: noonUs + 1 }] },
          { offset: 1, documents: [{ format: 'engine', payload: {}, createdRestNs: 999 }] },
        ]
        await sink.write(sink.encode(batchOf(0, 2, messages)), keep, signal)
        const where = { channel: 'channel-1', format: 'messages', earliestUs: noonUs, latestUs: noonUs + 1 }
        expect(await audit.rowsOf(sink.logNumbers[0]!, 0, 0, where)).toBe(2)
        expect(await audit.rowsOf(sink.logNumbers[0]!, 0, 1, { ...where, format: 'engine', latestUs: noonUs })).toBe(1)
        expect(await audit.rowsOf(sink.logNumbers[0]!, 0, 7, where)).toBe(0)
      }))

    test('a statement for the shell of the store shows the rows of one message, whatever the channel and the format are called', () =>
      withStore(async ({ audit, shown }, sink) => {
        if (shown === undefined) return
        for (const [nth, channel] of ['channel-1', "it's \\ a/b", '"ü"; --'].entries()) {
          const messages: TestMessage[] = [
            { offset: 3 * nth, channel, records: [{ value: 1 }, { value: 2, timeUs: noonUs + 1 }] },
            { offset: 3 * nth + 1, channel, documents: [{ format: 'Temp-1', payload: {}, createdRestNs: 999 }] },
            { offset: 3 * nth + 2, channel, records: [{ value: 3 }] },
          ]
          await sink.write(sink.encode(batchOf(3 * nth, 3 * nth + 3, messages)), keep, signal)
          const show = (offset: number, format: string): Promise<number> =>
            shown(audit.statementOf!(sink.logNumbers[0]!, 0, offset, { channel, format, earliestUs: noonUs, latestUs: noonUs + 1 })!)
          expect(await show(3 * nth, 'messages')).toBe(2)
          expect(await show(3 * nth + 1, 'Temp-1')).toBe(1)
        }
      }))

    auditContents(withStore)

    test('a format whose table was dropped has no rows, and those of others are found', () =>
      withStore(async ({ audit, dropFormat }, sink) => {
        const document = (offset: number, format: string): TestMessage => ({ offset, documents: [{ format, payload: {} }] })
        await sink.write(sink.encode(batchOf(0, 3, [plain(0), document(1, 'engine'), document(2, 'gearbox')])), keep, signal)
        await dropFormat('engine')
        expect(await all(audit.messages(sink.logNumbers[0]!, 0, 0, 3))).toEqual([message(0), message(2)])
        const where = { channel: 'channel-1', earliestUs: noonUs, latestUs: noonUs }
        expect(await audit.rowsOf(sink.logNumbers[0]!, 0, 1, { ...where, format: 'engine' })).toBe(0)
        expect(await audit.rowsOf(sink.logNumbers[0]!, 0, 2, { ...where, format: 'gearbox' })).toBe(1)
      }))
  })
}
