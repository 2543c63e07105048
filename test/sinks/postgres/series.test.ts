// The numbers of series: who gets one, what happens without one, and that none is written that the store does not have.

import * as fc from 'fast-check'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openSeriesNumbers, type SeriesNumbers } from '../../../sinks/postgres/series/numbers.ts'
import { type FindNumbers, seriesStore } from '../../../sinks/postgres/series/store.ts'
import { removeUnusedSeries } from '../../../sinks/postgres/series/unused.ts'
import { openReplaySink, openSink } from '../../../sinks/postgres/sink.ts'
import type { Rejection } from '../../../sinks/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import type { RecordBatch } from '../../../transformers/record-batch.ts'
import { logsOf, withNumbers } from '../../conformance/sink/fixture.ts'
import { openFreshEmbedded } from '../../servers/embedded.ts'
import { batchOf, plain, plainBatch, type TestMessage } from '../batches.ts'
import { emptyDatabase, options } from './store.ts'

type PostgresSink = Awaited<ReturnType<typeof openSink>>
const signal = new AbortController().signal
const none = async (some: readonly Rejection[]) => expect(some).toEqual([])

describe('the numbers of series', () => {
  let database: Database
  let sink: PostgresSink
  const open = (seriesPerChannelMax = 10) =>
    withNumbers(openSink({ database, options: { ...options, seriesPerChannelMax }, logs: logsOf() }))
  const write = (batch: RecordBatch, by = sink) => by.write(by.encode(batch), none, signal)
  /** How it failed. */
  const refused = (batch: RecordBatch, by = sink) =>
    write(batch, by).then(
      () => 'stored',
      (error: unknown) => by.classify(error),
    )
  const one = async <Value>(sql: string) => Object.values((await database.query(sql))[0]!)[0] as Value
  const count = (table: string) => one<number>(`SELECT count(*)::int FROM ${table}`)
  const names = async () =>
    (await database.query<{ name: string }>('SELECT name FROM messages ORDER BY position, index')).map(({ name }) => name)
  const named = (offset: number, ...some: string[]): TestMessage => ({ offset, records: some.map(name => ({ name, value: offset })) })

  beforeAll(async () => {
    database = await openFreshEmbedded()
  })
  afterAll(() => database.close())
  beforeEach(async () => {
    await emptyDatabase(database)
    sink = await open()
  })

  test('two sinks that bring the same new series at once give it one number', async () => {
    const other = await open()
    await Promise.all([write(plainBatch(0, 5)), write(plainBatch(0, 5, 1), other)])
    expect([await count('sluice.channels'), await count('sluice.series'), await count('messages')]).toEqual([1, 1, 10])
  })

  test('a batch that fails costs numbers, which the next attempt finds again', async () => {
    const poison = batchOf(0, 2, [named(0, 'a', 'b'), { offset: 1, records: [{ name: 'c\0', value: 1 }] }])
    const encoded = sink.encode(poison)
    await expect(sink.write(encoded, () => Promise.reject(new Error('no dead letters')), signal)).rejects.toThrow('no dead letters')
    expect([await count('sluice.series WHERE name IS NOT NULL'), await count('messages')]).toEqual([2, 0])
    await sink.write(encoded, async () => undefined, signal)
    expect(await count('sluice.series WHERE name IS NOT NULL')).toBe(2)
    expect(await names()).toEqual(['a', 'b'])
  })

  test('rows of one series are neighbors, and those of one message are too', async () => {
    await write(batchOf(0, 4, [named(0, 'a'), named(1, 'b', 'a'), named(2, 'a', 'b'), named(3, 'b')]))
    const rows = await database.query<{ name: string; offset: number }>(
      `SELECT s.name, (r.position & 15)::int AS offset FROM sluice.records r JOIN sluice.series s ON s.id = r.series ORDER BY r.tableoid, r.ctid`,
    )
    expect(rows.map(({ name, offset }) => `${name}${offset}`)).toEqual(['a0', 'a2', 'b2', 'b1', 'a1', 'b3'])
  })

  test('behind the limit of a channel rows keep their texts, and read the same', async () => {
    const all = Array.from({ length: 100 }, (_, nth) => `name-${nth}`)
    await write(
      batchOf(
        0,
        100,
        all.map((name, offset) => named(offset, name)),
      ),
    )
    await write(
      batchOf(
        100,
        200,
        all.map((name, nth) => ({ offset: 100 + nth, subtopic: 'hall', records: [{ name, unit: 'Cel' }] })),
      ),
    )
    expect(await names()).toEqual([...all, ...all])
    expect(await database.query('SELECT channel, series FROM sluice.channels')).toEqual([{ channel: 'channel-1', series: 10 }])
    expect(await count('sluice.series WHERE name IS NULL')).toBe(1)
    expect([sink.unnumbered!(), sink.unnumbered!()]).toEqual([190, 0])
    expect(await database.query(`SELECT DISTINCT subtopic, publisher, protocol, unit FROM messages ORDER BY unit`)).toEqual([
      { subtopic: 'hall', publisher: 'thing-1', protocol: 'http', unit: 'Cel' },
      { subtopic: 'room', publisher: 'thing-1', protocol: 'http', unit: null },
    ])
    await write(batchOf(200, 201, [{ ...named(200, 'b'), channel: 'channel-2' }]))
    expect(await database.query('SELECT series FROM sluice.channels ORDER BY channel')).toEqual([{ series: 10 }, { series: 1 }])
  })

  test('a further name of a channel with all its numbers costs one look, and does not wait for those that add series', async () => {
    let transactions = 0
    const counting: Database = { ...database, transaction: (...of) => (transactions++, database.transaction(...of)) }
    const find = seriesStore(counting, { seriesPerChannelMax: 2, lockTimeoutMs: 10_000, applicationName: 'test' })
    const numbers = openSeriesNumbers(find, options.seriesCacheBytes)
    await numbers.resolved(batchOf(0, 1, [named(0, 'a', 'b', 'c')]), new Map(), signal)
    transactions = 0
    const { series } = await numbers.resolved(batchOf(1, 2, [named(1, 'a', 'd')]), new Map(), signal)
    expect([...series].map(Math.sign)).toEqual([1, -1])
    expect(transactions).toBe(1)
  })

  test('what does not fit into the index of series is stored with its texts', async () => {
    const long = 'ü'.repeat(1200)
    await write(batchOf(0, 2, [named(0, long, 'a'), { offset: 1, records: [{ name: 'a', unit: 'x'.repeat(100_000), value: 1 }] }]))
    expect(await names()).toEqual([long, 'a', 'a'])
    expect(await database.query('SELECT name FROM sluice.series ORDER BY id')).toEqual([{ name: null }, { name: 'a' }])
  })

  test('any records come back as they were', async () => {
    const text = fc.constantFrom('', 'a', 'b', 'ü', 'c'.repeat(2500))
    const record = fc.record({ name: text, unit: fc.option(text, { nil: undefined }), stringValue: text })
    const message = fc.record({
      channel: fc.constantFrom('one', 'two'),
      publisher: text.filter(({ length }) => length < 9),
      subtopic: text,
      protocol: text,
      records: fc.array(record, { minLength: 1, maxLength: 4 }),
    })
    let offset = 0
    const property = fc.asyncProperty(fc.array(message, { minLength: 1, maxLength: 8 }), async messages => {
      const from = offset
      const bounded = messages.map(one => ({ ...one, subtopic: one.subtopic.slice(0, 2000) }))
      const numbered = bounded.map(one => ({ ...one, offset: offset++ }))
      await write(batchOf(from, offset, numbered as TestMessage[]))
      const position = (await one<bigint>('SELECT max(position) FROM messages')) - BigInt(offset - 1 - from)
      const rows = await database.query(
        `SELECT channel, publisher, subtopic, protocol, name, unit, string_value AS "stringValue" FROM messages WHERE position >= ${position} ORDER BY position, index`,
      )
      const wanted = bounded.flatMap(({ records, ...own }) => records.map(record => ({ ...own, ...record, unit: record.unit ?? null })))
      expect(rows).toEqual(wanted)
    })
    await fc.assert(property, { numRuns: 30 })
  })

  test('a store without a series that the sink knows stores none of its batches until the sink has looked it up again', async () => {
    await write(plainBatch(0, 2))
    const encoded = sink.encode(plainBatch(2, 3))
    await database.execute('DELETE FROM sluice.records; DELETE FROM sluice.series')
    expect(await sink.write(encoded, none, signal).catch((error: unknown) => sink.classify(error))).toBe('stale')
    // Another one has its number.
    await database.execute(`INSERT INTO sluice.series (id, channel, publisher, subtopic, protocol, name) OVERRIDING SYSTEM VALUE
      SELECT (SELECT last_value FROM sluice.series_id_seq), id, 'other', '', 'http', 'other' FROM sluice.channels`)
    expect(await refused(plainBatch(2, 3))).toBe('stale')
    await sink.positions?.([logPartition(0, 0)])
    await write(plainBatch(2, 3))
    expect(await database.query('SELECT publisher, value FROM messages')).toEqual([{ publisher: 'thing-1', value: 2 }])
  })

  test('a new generation makes batches stale that were encoded before, also one with a refused message', async () => {
    await write(plainBatch(0, 2))
    const poisoned = sink.encode(batchOf(2, 4, [plain(2), { offset: 3, records: [{ stringValue: 'a\0b' }] }]))
    await database.query('UPDATE sluice.dictionary SET generation = gen_random_uuid()')
    const error = await sink.write(poisoned, none, signal).catch((error: unknown) => error)
    expect(error).toMatchObject({ errorClass: 'stale', message: expect.stringContaining('numbers of series') })
    expect(await refused(batchOf(2, 4, [plain(2)]))).toBe('stale')
    // Without records there is nothing to compare.
    await write(batchOf(2, 3, [{ offset: 2, documents: [{ format: 'engine', payload: {} }] }]))
    await sink.positions?.([logPartition(0, 0)])
    await write(batchOf(3, 4, [plain(3)]))
    expect(await count('messages')).toBe(3)
  })

  test('a replay ends with an error where the generation changes each time before it stores', async () => {
    const changing: Database = {
      ...database,
      async transaction(work, abort) {
        await database.query('UPDATE sluice.dictionary SET generation = gen_random_uuid()')
        return await database.transaction(work, abort)
      },
    }
    await write(plainBatch(0, 1))
    const replays = await openReplaySink({ database: changing, options, writer: 'writer-1', logNumber: 1 })
    await expect(replays.write(plainBatch(0, 1), new Set(), signal)).rejects.toThrow('numbers of series')
  })

  test('numbers of several generations are never mixed in one batch', async () => {
    await write(batchOf(0, 1, [named(0, 'a')]))
    await database.query('UPDATE sluice.dictionary SET generation = gen_random_uuid()')
    // The new name is looked up, and with it the old one.
    await write(batchOf(1, 2, [named(1, 'a', 'b')]))
    expect(await names()).toEqual(['a', 'a', 'b'])
  })

  describe('in a cache', () => {
    let asked: string[][]
    const opened = (bytesMax: number, seriesPerChannelMax = 1000) => {
      const find = seriesStore(database, { seriesPerChannelMax, lockTimeoutMs: 10_000, applicationName: 'test' })
      const counting: FindNumbers = (wanted, abort) => {
        asked.push(wanted.map(({ name = 'the rest' }) => name))
        return find(wanted, abort)
      }
      return openSeriesNumbers(counting, bytesMax)
    }
    /** Of a thing, with names by number. */
    const batch = (publisher: string, from = 0, length = 1) =>
      batchOf(0, 1, [{ ...named(0, ...Array.from({ length }, (_, nth) => `n${from + nth}`)), publisher }])
    /** Their numbers, and how many had to be looked up. */
    async function numbersOf(numbers: SeriesNumbers, some: RecordBatch): Promise<{ found: number[]; looked: number }> {
      asked = []
      const { series } = numbers.known(some, new Map()) ?? (await numbers.resolved(some, new Map(), signal))
      return { found: [...series], looked: asked.flat().length }
    }

    beforeEach(() => {
      asked = []
    })

    test('that is full, things that are not used are looked up again, and a batch larger than it is stored all the same', async () => {
      const numbers = opened(8_000)
      const used = await numbersOf(numbers, batch('used'))
      for (let nth = 0; nth < 100; nth++) {
        expect((await numbersOf(numbers, batch(`t${nth}`))).looked).toBe(1)
        expect(await numbersOf(numbers, batch('used'))).toEqual({ found: used.found, looked: 0 })
      }
      expect((await numbersOf(numbers, batch('t99'))).looked).toBe(0)
      expect((await numbersOf(numbers, batch('t0'))).looked).toBe(1)
      expect((await numbersOf(numbers, batch('used'))).looked).toBe(0)
      const large = await numbersOf(numbers, batch('large', 0, 200))
      expect([new Set(large.found).size, large.looked]).toEqual([200, 200])
      expect((await numbersOf(numbers, batch('used'))).looked).toBe(0)
    })

    test('the things of others stay however many names one thing has, also names without a number', async () => {
      const numbers = opened(40_000, 10)
      const used = await numbersOf(numbers, batch('used', 0, 5))
      for (let from = 0; from < 1000; from += 20) {
        const { found } = await numbersOf(numbers, batch('other', from, 20))
        expect(found.filter(number => number > 0)).toHaveLength(from === 0 ? 5 : 0)
        expect(await numbersOf(numbers, batch('used', 0, 5))).toEqual({ found: used.found, looked: 0 })
      }
      expect((await numbersOf(numbers, batch('other', 980, 20))).looked).toBe(0)
    })

    test('a few of ever new names of a thing in a full channel are looked up, and what has a number is found again', async () => {
      await numbersOf(opened(1_000_000, 10), batch('thing', 0, 5))
      const numbers = opened(1_000_000, 5)
      expect((await numbersOf(numbers, batch('thing', 100, 300))).looked).toBe(301)
      const { found, looked } = await numbersOf(numbers, batch('thing', 1000, 1000))
      expect([new Set(found).size, found[0]! < 0, looked]).toEqual([1, true, 200])
      expect((await numbersOf(numbers, batch('thing', 1000, 1000))).looked).toBe(200)
      const again = await numbersOf(numbers, batch('thing', 0, 5))
      expect([again.found.filter(number => number > 0).length, again.looked]).toEqual([5, 5])
    })

    test('a thing in two channels has series of each', async () => {
      const numbers = opened(1_000_000)
      const both = batchOf(
        0,
        4,
        [0, 1, 2, 3].map(offset => ({ ...named(offset, 'a'), channel: `channel-${(offset % 2) + 1}` })),
      )
      const { series, channel } = await numbers.resolved(both, new Map(), signal)
      expect([new Set(series).size, series[2], series[3]]).toEqual([2, series[0], series[1]])
      expect([...channel]).toEqual([channel[0], channel[1], channel[0], channel[1]])
      expect(channel[0]).not.toBe(channel[1])
    })
  })

  describe('that have no rows any longer', () => {
    const age = () => database.query(`UPDATE sluice.series SET added_at = added_at - interval '2 days'`)
    const unused = async () =>
      (await database.query<{ name: string }>('SELECT name FROM sluice.series WHERE is_unused')).map(({ name }) => name)
    const existing = async () =>
      (await database.query<{ name: string }>('SELECT name FROM sluice.series ORDER BY name')).map(({ name }) => name)

    beforeEach(async () => {
      await write(batchOf(0, 2, [named(0, 'kept'), named(1, 'gone')]))
      await age()
      await database.query('DELETE FROM sluice.records WHERE value = 1')
      await sink.positions?.([logPartition(0, 0)])
    })

    test('are marked by one maintenance and removed by the next', async () => {
      await removeUnusedSeries(database)
      expect(await unused()).toEqual(['gone'])
      await removeUnusedSeries(database)
      expect(await existing()).toEqual(['kept'])
      expect(await database.query('SELECT series FROM sluice.channels')).toEqual([{ series: 1 }])
      await removeUnusedSeries(database)
      expect(await existing()).toEqual(['kept'])
    })

    test('stay where they were added lately', async () => {
      await database.query('UPDATE sluice.series SET added_at = clock_timestamp()')
      await removeUnusedSeries(database)
      expect(await unused()).toEqual([])
    })

    test('stay where a sink that knew one writes it in between', async () => {
      await write(batchOf(2, 3, [named(2, 'kept', 'gone')]))
      await database.query('DELETE FROM sluice.records WHERE value = 2')
      await removeUnusedSeries(database)
      expect(await unused()).toEqual(['gone'])
      const batch = () => batchOf(3, 4, [named(3, 'gone')])
      expect(await refused(batch())).toBe('stale')
      await sink.positions?.([logPartition(0, 0)])
      await write(batch())
      expect(await unused()).toEqual([])
      await removeUnusedSeries(database)
      await removeUnusedSeries(database)
      expect(await names()).toEqual(['kept', 'gone'])
    })

    test('and whose removal a sink only notices later are added again', async () => {
      await write(batchOf(2, 3, [named(2, 'gone')]))
      await database.query('DELETE FROM sluice.records WHERE value = 2')
      await removeUnusedSeries(database)
      await removeUnusedSeries(database)
      expect(await existing()).toEqual(['kept'])
      expect(await refused(batchOf(3, 4, [named(3, 'gone')]))).toBe('stale')
      await sink.positions?.([logPartition(0, 0)])
      await write(batchOf(3, 4, [named(3, 'gone')]))
      expect(await names()).toEqual(['kept', 'gone'])
    })

    test('are no longer written once they are removed, also where the removal of others fails', async () => {
      await removeUnusedSeries(database)
      await sink.positions?.([logPartition(0, 0)])
      await write(batchOf(2, 3, [named(2, 'gone', 'newer')]))
      // As after a failover that lost the transaction in which the sink took the mark away. The other one is far behind it, and cannot be removed.
      await database.execute(`
        DELETE FROM sluice.records WHERE value = 2 AND index = 0;
        UPDATE sluice.series SET is_unused = true WHERE name = 'gone';
        INSERT INTO sluice.series (id, channel, publisher, subtopic, protocol, name, is_unused) OVERRIDING SYSTEM VALUE
          SELECT max(id) + 1000, max(channel), 'thing-1', '', 'http', 'referred to', true FROM sluice.series;
        CREATE TABLE sluice.referring AS SELECT max(id) AS series FROM sluice.series;
        ALTER TABLE sluice.referring ADD FOREIGN KEY (series) REFERENCES sluice.series (id)`)
      await expect(removeUnusedSeries(database)).rejects.toThrow('referring')
      await database.execute('DROP TABLE sluice.referring')
      expect(await existing()).toEqual(['kept', 'newer', 'referred to'])
      expect(await refused(batchOf(3, 4, [named(3, 'gone')]))).toBe('stale')
    })

    test('stay while a transaction may have read the generation before their mark, but not for ever where its number is of another server', async () => {
      await removeUnusedSeries(database)
      await database.query(`UPDATE sluice.dictionary SET earlier_below = '9223372036854775807'::xid8`)
      await removeUnusedSeries(database)
      expect(await unused()).toEqual(['gone'])
      await removeUnusedSeries(database)
      expect(await existing()).toEqual(['kept'])
    })

    test('stay where an operator has replaced the index by series', async () => {
      const replace = (definition: string) =>
        database.execute(`DROP INDEX sluice.records_series_time; CREATE INDEX records_series_time ON sluice.records ${definition}`)
      await replace('USING brin (series) WITH (pages_per_range = 8)')
      await removeUnusedSeries(database)
      expect(await unused()).toEqual([])
      await replace('(series, time)')
    })
  })
})
