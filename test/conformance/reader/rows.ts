// Rows of every kind are returned unchanged, and only those of the requested channel, publisher and format.

import { describe, expect, test } from 'vitest'
import { type FormatsQuery, senmlFormat } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { pageText } from '../../readers/answers/page-text.ts'
import { formatsQuery, type ReaderBench } from './bench.ts'
import { channel, dayUs, documentsAnswer, formats, neighbour, publishers, records, startUs } from './fixture.ts'
import { filterOf, formatsOf, inOrder, selected } from './oracle.ts'

export function rowsSuite(bench: ReaderBench): void {
  const frame = (format: string, total: number) => ({ total: { total, isExact: true }, offset: 0, limit: 1000, format })

  describe('SenML records', () => {
    test('rows of every kind are returned unchanged, newest first, then by position and index', async () => {
      expect(await bench.read()).toEqual(records.rows)
    })

    test('the answer has the same bytes from every store', async () => {
      const rows = await bench.read()
      expect(pageText(frame(senmlFormat, rows.length), rows)).toBe(records.answer)
    })

    test('the oldest first is the reverse', async () => {
      expect(await bench.read({ direction: 'asc' })).toEqual(records.rows.toReversed())
    })

    test.each(publishers)('only rows of the publisher %s are read and counted on request', async publisher => {
      const own = records.rows.filter(row => row.publisher === publisher)
      expect(own.length).toBeGreaterThan(1)
      expect(await bench.read({ publisher })).toEqual(own)
      expect(await bench.read({ publisher, direction: 'asc' })).toEqual(own.toReversed())
      expect(await bench.count({ publisher })).toBe(own.length)
    })

    test('a publisher without messages in the channel has no rows', async () => {
      for (const publisher of ['nobody', '', "' OR true --"]) {
        expect(await bench.read({ publisher })).toEqual([])
        expect(await bench.count({ publisher })).toBe(0)
      }
    })

    test('channels are separate', async () => {
      expect((await bench.read({ channel: neighbour })).map(row => row.channel)).toEqual([neighbour])
      expect(await bench.count({ channel: neighbour })).toBe(1)
      for (const unknown of ['unknown', '', "' OR true --", `${channel} `]) expect(await bench.read({ channel: unknown })).toEqual([])
    })

    test('rows that are stored later are read immediately, in their place', async () => {
      const later = '5b0e1f9e-8a57-4b1e-9d5e-5a3b8f3f7a01'
      const times = [startUs, startUs - 1, startUs + 1]
      for (const [at, timeUs] of times.entries()) {
        const batch = new RecordBatch()
        batch.beginMessage({ at: logPartition(0, 1), offset: at, channel: later, subtopic: '', publisher: publishers[0], protocol: 'http' })
        batch.appendRecord(0, `at-${at}`, undefined, timeUs, 1, at, undefined, Number.NaN, Number.NaN)
        batch.endMessage()
        batch.cover(logPartition(0, 1), at, at + 1)
        await bench.site.store(batch)
        const names = (await bench.read({ channel: later })).map(row => (row.kind === 'senml' ? row.name : ''))
        expect(names[times.slice(0, at + 1).filter(other => other > timeUs).length]).toBe(`at-${at}`)
        expect(names).toHaveLength(at + 1)
      }
    })
  })

  describe('JSON documents', () => {
    test.each(formats)('documents of the format %j are returned unchanged, with every digit', async format => {
      const expected = inOrder(selected(bench.stored, filterOf({ channel, format })), 'desc')
      const rows = await bench.read({ format })
      // Keys may be in another order.
      expect(pageText(frame(format, rows.length), rows)).toBe(pageText(frame(format, rows.length), expected))
      expect(rows.map(({ position, index }) => [position, index])).toEqual(expected.map(({ position, index }) => [position, index]))
      expect(await bench.count({ format })).toBe(expected.length)
    })

    test('the answer has the same bytes from every store that does not flatten', async () => {
      if (bench.site.flattens) return
      const keptOf = bench.site.keptOf?.bind(bench.site)
      for (const format of formats) {
        const rows = await bench.read({ format })
        expect(pageText(frame(format, rows.length), rows)).toBe(documentsAnswer(format, keptOf))
      }
    })

    test.each(formats)('only one publisher of the format %j is read on request', async format => {
      for (const publisher of publishers) {
        const own = (await bench.read({ format })).filter(row => row.publisher === publisher)
        expect(await bench.read({ format, publisher })).toEqual(own)
        expect(await bench.count({ format, publisher })).toBe(own.length)
      }
    })

    test('an unknown format has no rows, and reading it creates nothing', async () => {
      const before = await bench.site.names()
      for (const format of ['unknown', 'Messages', 'pg_class', '"; DROP TABLE messages; --', '$where', 'a'.repeat(1024), '温']) {
        expect(await bench.read({ format })).toEqual([])
        expect(await bench.count({ format })).toBe(0)
        expect(await bench.latest({ format })).toEqual({ groups: [], total: 0 })
      }
      expect(await bench.site.names()).toEqual(before)
    })

    test('a format of one channel is empty in another', async () => {
      expect(await bench.read({ channel: neighbour, format: formats[0] })).toEqual([])
    })
  })

  describe('the formats of a channel', () => {
    async function expectFormats(some: Partial<FormatsQuery>): Promise<number> {
      const found = await bench.formats(some)
      expect(found, JSON.stringify(some)).toEqual(formatsOf(bench.stored, formatsQuery(some)))
      return found.length
    }

    test('each has its subtopics and the time of its newest message, SenML first', async () => {
      const before = await bench.site.names()
      expect(await expectFormats({})).toBe(1 + formats.length)
      expect((await bench.formats())[0]).toEqual({
        format: senmlFormat,
        subtopics: [
          { subtopic: 'a', lastUs: startUs + 300 * dayUs },
          { subtopic: 'küche.温度', lastUs: startUs + 250_001 },
          { subtopic: '', lastUs: startUs },
          { subtopic: 'bedroom.temperature', lastUs: startUs },
        ],
        hasMore: false,
      })
      expect(await bench.site.names()).toEqual(before)
    })

    test('with a publisher only its formats are listed, without those in other channels or of other publishers', async () => {
      for (const publisher of publishers) expect(await expectFormats({ publisher })).toBe(1 + formats.length)
      expect(await bench.formats({ channel: neighbour })).toMatchObject([{ format: senmlFormat, subtopics: [{ subtopic: '' }] }])
      for (const publisher of ['nobody', '', "' OR true --", '") |> yield() //']) expect(await bench.formats({ publisher })).toEqual([])
      for (const unknown of ['unknown', '', "' OR true --", `${channel} `]) expect(await bench.formats({ channel: unknown })).toEqual([])
    })

    test('messages before a given time are left out, to the microsecond', async () => {
      for (const near of [-1, 0, 1]) await expectFormats({ fromUs: startUs + near })
      expect(await expectFormats({ fromUs: startUs + 2 * dayUs + 1 })).toBe(1)
      expect(await expectFormats({ fromUs: startUs + 301 * dayUs })).toBe(0)
    })

    test('rows, formats and subtopics are limited as requested, and the answer says so', async () => {
      for (const rowsMax of [1, 2, 4, 6, 7, 9, 14, 15, 16]) await expectFormats({ rowsMax })
      for (const rowsMax of [1, 2, 7]) await expectFormats({ rowsMax, publisher: publishers[1] })
      for (const subtopicsMax of [1, 3, 4]) await expectFormats({ subtopicsMax })
      for (const formatsMax of [1, 2, 1 + formats.length]) expect(await expectFormats({ formatsMax })).toBe(formatsMax)
    })

    test('a caller that has disconnected gets no answer', async () => {
      await expect(bench.site.reader.formats(formatsQuery(), AbortSignal.abort())).rejects.toMatchObject({ name: 'AbortError' })
    })
  })
}
