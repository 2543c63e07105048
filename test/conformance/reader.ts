// What every reader promises (readers/reader.ts), run against each of them: rows of every kind are stored by the store's own
// sink, read back, and compared as rows and as the bytes of the answer.

import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Query } from '../../readers/query.ts'
import { type Page, type Reader, senmlFormat } from '../../readers/reader.ts'
import { pageJson } from '../../readers/record-json.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { channel, dayUs, documents, formats, neighbour, publishers, records, startUs } from './reader-fixture.ts'

export interface ReaderSite {
  readonly reader: Reader
  /** Stores the batch with the store's sink. */
  store(batch: RecordBatch): Promise<void>
  /** What names of tables, collections or measurements the store holds: a read makes none. */
  names(): Promise<string[]>
  close(): Promise<void>
}

/** @param open a reader over an empty store */
export function readerConformance(open: () => Promise<ReaderSite>): void {
  let site: ReaderSite
  const signal = new AbortController().signal

  function read(query: Partial<Query> = {}): Promise<Page> {
    return site.reader.read({ channel, format: senmlFormat, publisher: undefined, offset: 0, limit: 1000, ...query }, signal)
  }

  async function answer(query: Partial<Query> = {}): Promise<string> {
    return pageJson({ format: senmlFormat, offset: 0, limit: 1000, ...query }, await read(query))
  }

  beforeAll(async () => {
    site = await open()
    const batch = new RecordBatch()
    records.appendTo(batch)
    documents.appendTo(batch)
    await site.store(batch)
  }, 60_000)
  afterAll(() => site.close())

  test('the store answers that it can be read', async () => {
    await site.reader.check()
  })

  describe('SenML records', () => {
    test('rows of every kind come back as they were stored, newest first, then by position and index', async () => {
      expect(await read()).toEqual({ rows: records.rows, total: records.rows.length, totalExact: true })
    })

    test('the answer has the same bytes from every store', async () => {
      expect(await answer()).toBe(records.answer)
    })

    test('pages together are the whole, each row once, and each says the total', async () => {
      const rows = []
      for (let offset = 0; offset < records.rows.length; offset += 3) {
        const page = await read({ offset, limit: 3 })
        expect(page).toMatchObject({ total: records.rows.length, totalExact: true })
        rows.push(...page.rows)
      }
      expect(rows).toEqual(records.rows)
    })

    test('a page beyond the end is empty and still says the total', async () => {
      expect(await read({ offset: records.rows.length, limit: 1 })).toEqual({ rows: [], total: records.rows.length, totalExact: true })
      expect(await read({ offset: 10_000_000, limit: 1000 })).toMatchObject({ rows: [], total: records.rows.length })
    })

    test.each(publishers)('only what %s published is read when only that is asked for', async publisher => {
      const own = records.rows.filter(row => row.publisher === publisher)
      expect(own.length).toBeGreaterThan(1)
      expect(await read({ publisher })).toEqual({ rows: own, total: own.length, totalExact: true })
      for (let offset = 0; offset <= own.length; offset++) {
        expect(await read({ publisher, offset, limit: 1 })).toEqual({
          rows: own.slice(offset, offset + 1),
          total: own.length,
          totalExact: true,
        })
      }
    })

    test('a publisher that published nothing here has an empty page', async () => {
      for (const publisher of ['nobody', '', "' OR true --"]) {
        expect(await read({ publisher })).toEqual({ rows: [], total: 0, totalExact: true })
      }
    })

    test('another channel is another channel', async () => {
      const page = await read({ channel: neighbour })
      expect(page.rows.map(row => row.channel)).toEqual([neighbour])
      for (const unknown of ['unknown', '', "' OR true --", `${channel} `]) {
        expect(await read({ channel: unknown })).toEqual({ rows: [], total: 0, totalExact: true })
      }
    })

    test('what is stored later is read at once, in its place', async () => {
      const later = '5b0e1f9e-8a57-4b1e-9d5e-5a3b8f3f7a01'
      for (const [offset, timeUs] of [
        [1000, startUs],
        [1001, startUs + 3 * dayUs],
        [1002, startUs - dayUs],
      ] as const) {
        const batch = new RecordBatch()
        batch.beginMessage({ partition: 1, offset, channel: later, subtopic: '', publisher: 'p', protocol: 'http' })
        batch.appendRecord(0, `at-${offset}`, undefined, timeUs, 1, 1, undefined, Number.NaN, Number.NaN)
        batch.endMessage()
        batch.cover(1, offset === 1000 ? 0 : offset, offset + 1)
        await site.store(batch)
      }
      for (const publisher of [undefined, 'p']) {
        const { rows } = await read({ channel: later, publisher })
        expect(rows.map(row => (row.kind === 'senml' ? row.name : ''))).toEqual(['at-1001', 'at-1000', 'at-1002'])
      }
    })
  })

  describe('JSON documents', () => {
    test.each(formats)('documents of the format %j come back with the same bytes', async format => {
      expect(await answer({ format })).toBe(documents.answer(format))
    })

    test.each(formats)('only one publisher of the format %j is read when only that is asked for', async format => {
      for (const publisher of publishers) {
        const own = (await read({ format })).rows.filter(row => row.publisher === publisher)
        expect(await read({ format, publisher })).toEqual({ rows: own, total: own.length, totalExact: true })
      }
    })

    test('pages together are the whole', async () => {
      const [format] = formats
      const whole = (await read({ format })).rows
      const rows = []
      for (let offset = 0; offset < whole.length; offset++) rows.push(...(await read({ format, offset, limit: 1 })).rows)
      expect(rows).toEqual(whole)
    })

    test('a format that the store does not know is an empty page, and reading it makes nothing', async () => {
      const before = await site.names()
      for (const format of ['unknown', 'Messages', 'pg_class', '"; DROP TABLE messages; --', '$where', 'a'.repeat(1024), '温']) {
        expect(await read({ format })).toEqual({ rows: [], total: 0, totalExact: true })
      }
      expect(await site.names()).toEqual(before)
    })

    test('a format of one channel is empty in another', async () => {
      expect(await read({ channel: neighbour, format: formats[0] })).toEqual({ rows: [], total: 0, totalExact: true })
    })
  })

  test('a read whose caller has gone fails and does not answer', async () => {
    const query: Query = { channel, format: senmlFormat, publisher: undefined, offset: 0, limit: 1 }
    await expect(site.reader.read(query, AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' })
  })
}
