// What was refused once is looked for in later batches: it is sent first, and what is clean of it is not sent again.

import { gunzipSync } from 'node:zlib'
import { expect, test, vi } from 'vitest'
import { describeWithInflux } from '../../servers/influx.ts'
import { batchOf, noonUs, type TestMessage } from '../batches.ts'
import { openStore } from './store.ts'

const signal = new AbortController().signal
const monthsUs = 300 * 86_400_000_000

describeWithInflux('suspects', influx => {
  test('lines that only read like what was refused are cut as all others are, and sent once', async () => {
    const store = await openStore(influx, { options: { bodyBytes: 4096 } })
    const sink = await store.open()
    const text = (offset: number, createdUs: number, a: string | number = 'text'): TestMessage => {
      return { offset, documents: [{ format: 'typed', payload: { a }, createdUs }] }
    }
    const refused = vi.fn(async () => undefined)
    await sink.write(sink.encode(batchOf(0, 1, [text(0, noonUs)])), refused, signal)
    expect(refused).toHaveBeenCalledTimes(1)
    // In another month the field may have this type; the numbers among them are for this one.
    const messages = Array.from({ length: 200 }, (_, nth) =>
      nth % 2 === 0 ? text(1 + nth, noonUs - monthsUs + nth) : text(1 + nth, noonUs + nth, nth),
    )
    const sends = vi.spyOn(store.connection, 'write')
    const [counts] = await sink.write(sink.encode(batchOf(1, 201, messages)), refused, signal)
    expect(counts).toMatchObject({ stored: 200, deadLettered: 0 })
    const bodies = sends.mock.calls.filter(([bucket]) => bucket === store.connection.bucket).map(([, body]) => gunzipSync(body).toString())
    const lines = bodies.flatMap(body => body.split('\n').slice(0, -1))
    expect(lines).toHaveLength(200)
    expect(new Set(lines).size).toBe(200)
    for (const body of bodies) expect(body.length).toBeLessThanOrEqual(4096)
    await store.close()
  })

  test('a field with any characters in its name is remembered', async () => {
    const store = await openStore(influx)
    const name = 'a\u0001\u0007\v\u200b\u{e0001}é "b",c='
    const documents = [
      { format: 'typed', payload: { [name]: 1 } },
      { format: 'typed', payload: { other: 1 } },
      { format: 'typed', payload: { [name]: 'text' } },
    ]
    const sink = await store.open()
    await sink.write(sink.encode(batchOf(0, 1, [{ offset: 0, documents: documents.slice(0, 1) }])), async () => undefined, signal)
    const removes = vi.spyOn(store.connection, 'remove')
    for (const offset of [1, 2]) {
      const batch = batchOf(offset, offset + 1, [{ offset, documents: documents.slice(1) }])
      const [counts] = await sink.write(sink.encode(batch), async () => undefined, signal)
      expect(counts).toMatchObject({ stored: 0, deadLettered: 1 })
    }
    // For the first alone: of the second nothing but the culprit was sent.
    expect(removes).toHaveBeenCalledTimes(1)
    await sink.close()
    // A worker in place of this one knows it too.
    const another = await store.open()
    const [counts] = await another.write(
      another.encode(batchOf(3, 4, [{ offset: 3, documents: documents.slice(1) }])),
      async () => undefined,
      signal,
    )
    expect(counts).toMatchObject({ stored: 0, deadLettered: 1 })
    expect(removes).toHaveBeenCalledTimes(1)
    expect(await store.rows()).toHaveLength(1)
    await store.close()
  })
})
