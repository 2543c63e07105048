// Every kind of row comes back as it was written.

import { expect, test } from 'vitest'
import { batchOf, noonUs, plain, type TestMessage } from '../../sinks/batches.ts'
import type { Bench } from './bench.ts'
import { counts, everyValue, hostileFormats, packed, senmlRow } from './fixture.ts'

/** Records, documents and their formats. */
export function rowsSuite(bench: Bench): void {
  test.each(Object.entries(everyValue))('a value comes back as it was: %s', async (_kind, record) => {
    const at = { name: 'urn:dev:1:a', timeUs: noonUs + 123_457 }
    expect(await bench.write(batchOf(0, 1, [{ offset: 0, records: [{ ...at, ...record }] }]))).toEqual([counts({ received: 1, stored: 1 })])
    expect(await bench.store.rows()).toEqual([senmlRow(bench.sink, 0, 0, { ...at, ...record })])
  })

  test('records at one instant are all kept, with their ordinals', async () => {
    const records = [
      { name: 'a', value: 1 },
      { name: 'a', value: 2 },
      { name: 'a', unit: 'C', value: 1 },
      { name: 'b', stringValue: 'x', unit: 'C' },
      { name: 'a', value: 1 },
    ]
    await bench.write(
      batchOf(0, 2, [
        { offset: 0, records },
        { offset: 1, records },
      ]),
    )
    const expected = [0, 1].flatMap(offset => records.map((record, index) => senmlRow(bench.sink, offset, index, record)))
    expect(await bench.store.rows()).toEqual(expected)
  })

  test('a document keeps its nesting and every digit', async () => {
    const payload = { d: { tmp: 1.5, list: [1, 'two', null, { deep: true }] }, id: 8_659_456_789_564_231_564n, 'a/b': '€😀', __proto: 0 }
    await bench.write(batchOf(0, 1, [{ offset: 0, documents: [{ format: 'engine', payload, createdRestNs: 789 }] }]))
    const [row] = await bench.store.rows()
    expect(row).toMatchObject({ table: 'engine', channel: 'channel-1', createdNs: BigInt(noonUs) * 1000n + 789n, index: 0 })
    expect(row?.payload).toEqual(bench.store.keptOf?.(payload) ?? payload)
  })

  test('several partitions and the largest offset', async () => {
    const last = 2 ** 44 - 1
    const batch = batchOf(last - 1, last, [plain(last - 1)], 4095)
    batch.beginMessage({ partition: 3, offset: 5, channel: 'c', subtopic: '', publisher: '', protocol: 'kafka' })
    batch.appendRecord(0, 'a', undefined, noonUs, 1, 5, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
    batch.cover(3, 5, 6)
    expect(await bench.write(batch)).toEqual([counts({ received: 1, stored: 1 }), counts({ received: 1, stored: 1 })])
    expect((await bench.store.rows()).map(row => row.position)).toEqual([packed(bench.sink, 5, 3), packed(bench.sink, last - 1, 4095)])
    await bench.expectPosition(6, 3)
    await bench.expectPosition(last, 4095)
  })

  test('as many formats as are allowed, of a channel and of the store, and one more', async () => {
    const documents = (channel: number, count: number, offset: number): TestMessage[] =>
      Array.from({ length: count }, (_, at) => ({
        offset: offset + at,
        channel: `channel-${channel}`,
        documents: [{ format: `format-${offset + at}`, payload: { at } }],
      }))
    const perChannel = bench.store.formatsPerChannelMax
    const first = await bench.write(batchOf(0, perChannel + 1, documents(0, perChannel + 1, 0)))
    expect(first).toEqual([counts({ received: perChannel + 1, stored: perChannel, deadLettered: 1 })])
    const messages: TestMessage[] = []
    for (let channel = 1; messages.length < bench.store.formatsMax - perChannel + 1; channel++) {
      const count = Math.min(perChannel, bench.store.formatsMax - perChannel + 1 - messages.length)
      messages.push(...documents(channel, count, perChannel + 1 + messages.length))
    }
    const from = perChannel + 1
    const rest = await bench.write(batchOf(from, from + messages.length, messages))
    expect(rest).toEqual([counts({ received: messages.length, stored: messages.length - 1, deadLettered: 1 })])
    expect(bench.rejections).toEqual([
      expect.objectContaining({ message: perChannel, rule: 'format-limit' }),
      expect.objectContaining({ message: messages.length - 1, rule: 'format-limit' }),
    ])
    expect(await bench.store.rows()).toHaveLength(bench.store.formatsMax)
  }, 30_000)

  test('formats with hostile names are kept apart and harm nothing', async () => {
    const payload = (format: string) => ({ says: format })
    const messages = hostileFormats.map((format, offset) => ({ offset, documents: [{ format, payload: payload(format) }] }))
    await bench.write(batchOf(0, messages.length, messages))
    await bench.write(batchOf(messages.length, messages.length + 1, [plain(messages.length)]))
    const rows = await bench.store.rows()
    expect(rows.map(row => row.table)).toEqual([...hostileFormats, 'messages'])
    expect(rows.map(row => row.payload)).toEqual([...hostileFormats.map(payload), undefined])
    expect(bench.rejections).toEqual([])
  })
}
