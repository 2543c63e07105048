// Every kind of row is stored unchanged.

import { expect, test } from 'vitest'
import type { AuditedMessage } from '../../../sinks/audit.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { append, batchOf, noonUs, plain, type TestMessage } from '../../sinks/batches.ts'
import type { Bench } from './bench.ts'
import { counts, everyValue, hostileFormats, packed, senmlRow } from './fixture.ts'

/** Records, documents and their formats. */
export function rowsSuite(bench: Bench, transactional: boolean): void {
  test.each(Object.entries(everyValue))('a value is stored unchanged: %s', async (_kind, record) => {
    const at = { name: 'urn:dev:1:a', timeUs: noonUs + 123_457 }
    expect(await bench.write(batchOf(0, 1, [{ offset: 0, records: [{ ...at, ...record }] }]))).toEqual([counts({ received: 1, stored: 1 })])
    expect(await bench.store.rows()).toEqual([senmlRow(bench.sink, 0, 0, { ...at, ...record })])
  })

  test('records with the same time are all kept, with their ordinals', async () => {
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

  test('messages of one series and one time are as many rows, however their offsets differ', async () => {
    const near = Array.from({ length: 10 }, (_, nth) => [nth, (nth + 1) * 1000]).flat()
    const far = [500_000, 999_999, 1_000_000, 2_000_000, 5_000_000_000, 2 ** 44 - 1]
    const most = bench.store.offsetsApartMax ?? Number.POSITIVE_INFINITY
    const offsets = [...near, ...far].filter(offset => offset < most).sort((one, other) => one - other)
    const end = offsets.at(-1)! + 1
    const kinds = [
      (offset: number): TestMessage => ({ offset, documents: [{ format: 'engine', payload: { device: `d-${offset}` } }] }),
      (offset: number): TestMessage => ({ offset, records: [{ value: offset, timeUs: noonUs + 123_457 }] }),
    ]
    for (const [partition, message] of kinds.entries()) {
      expect(await bench.write(batchOf(0, end, offsets.map(message), partition))).toEqual([
        counts({ received: offsets.length, stored: offsets.length, skipped: end - offsets.length }),
      ])
    }
    const rows = await bench.store.rows()
    expect(rows.map(row => row.position)).toEqual([0, 1].flatMap(partition => offsets.map(offset => packed(bench.sink, offset, partition))))
    expect(bench.rejections).toEqual([])
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
    batch.beginMessage({ at: logPartition(0, 3), offset: 5, channel: 'c', subtopic: '', publisher: '', protocol: 'kafka' })
    batch.appendRecord(0, 'a', undefined, noonUs, 1, 5, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
    batch.cover(logPartition(0, 3), 5, 6)
    expect(await bench.write(batch)).toEqual([counts({ received: 1, stored: 1 }), counts({ received: 1, stored: 1 })])
    expect((await bench.store.rows()).map(row => row.position)).toEqual([packed(bench.sink, 5, 3), packed(bench.sink, last - 1, 4095)])
    await bench.expectPosition(6, 3)
    await bench.expectPosition(last, 4095)
  })

  test('the same partition and offset in two logs of the writer are different places', async () => {
    await bench.sink.close()
    bench.sink = await bench.store.open({ otherLogs: ['events'] })
    const [at, other] = [logPartition(0, 3), logPartition(1, 3)]
    const batch = batchOf(5, 7, [plain(5), plain(6)], 3)
    append(batch, { ...plain(5), log: 1, partition: 3 })
    append(batch, { log: 1, partition: 3, offset: 6, documents: [{ format: 'engine', payload: { a: 1 } }] })
    batch.cover(other, 5, 8)
    const positions = [
      [5, 0],
      [6, 0],
      [5, 1],
      [6, 1],
    ].map(([offset, log]) => packed(bench.sink, offset!, 3, log))
    expect(await bench.write(batch)).toEqual([counts({ received: 2, stored: 2 }), counts({ received: 2, stored: 2, skipped: 1 })])
    expect((await bench.store.rows()).map(({ table, position }) => [table, position])).toEqual(
      positions.map((position, nth) => [nth === 3 ? 'engine' : 'messages', position]),
    )
    const [first, second] = await bench.write(batch)
    expect([first, { ...second, skipped: 0 }]).toEqual([bench.again(2), bench.again(2)])
    expect((await bench.store.rows()).map(({ position }) => position)).toEqual(positions)

    const next = await bench.sink.positions?.([at, other, logPartition(1, 0)])
    expect(next).toEqual(
      transactional
        ? new Map([
            [at, 7],
            [other, 8],
          ])
        : undefined,
    )
    const { audit } = bench.store.replays
    for (const number of bench.sink.logNumbers.map(Number)) {
      const found: AuditedMessage[] = []
      for await (const message of audit.messages(number, 3, 0, 10)) found.push(message)
      expect(found).toEqual([5, 6].map(offset => ({ offset, rows: 1, doubled: 0, replayed: false })))
    }
    const goesOn = (await audit.logs()).map(({ number, partitions }) => [number, partitions.get(3)?.nextOffset] as const)
    expect(new Map(goesOn)).toEqual(new Map(bench.sink.logNumbers.map((number, log) => [number, transactional ? 7 + log : undefined])))
  })

  test('as many formats as allowed, in a channel and in the store, and one more', async () => {
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
  })

  test('formats with hostile names are kept apart and do no harm', async () => {
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
