// What reaches the server: only queries, each with the channel; and cursors that are closed when their reader stops.

import * as fc from 'fast-check'
import type { CommandStartedEvent } from 'mongodb'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { aggregateQuery, formatsQuery, pageQuery } from '../../conformance/reader/index.ts'
import { filterOf } from '../../conformance/reader/oracle.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { batchOf } from '../../sinks/batches.ts'
import { type MongoSite, openSite } from './site.ts'

const { signal } = new AbortController()
const channel = 'the-channel'
/** More than two batches of a cursor. */
const rowCount = 2_500

describeWithMongo('the statements of a reader', mongo => {
  let site: MongoSite
  const started: CommandStartedEvent[] = []

  beforeAll(async () => {
    const url = `${mongo.url}statements`
    site = await openSite(url, `${url}?monitorCommands=true`)
    site.connection.database.client.on('commandStarted', event => started.push(event))
    const batch = new RecordBatch()
    for (let offset = 0; offset < rowCount; offset++) {
      batch.beginMessage({ at: logPartition(0, 0), offset, channel, subtopic: 'room', publisher: `p-${offset % 3}`, protocol: 'http' })
      batch.appendRecord(0, 'n', undefined, offset, 1, offset, undefined, Number.NaN, Number.NaN)
      batch.endMessage()
    }
    batch.cover(logPartition(0, 0), 0, rowCount)
    await site.store(batch)
    const documents = Array.from({ length: rowCount }, (_, index) => ({ format: 'room', payload: { index, ' odd': 'x' } }))
    await site.store(batchOf(0, 1, [{ offset: 0, partition: 1, channel, documents }], 1))
  })
  afterAll(() => site.close())

  const commands = (): string[] => started.map(({ commandName }) => commandName)

  test('each contains the channel, except those for the version and for the collection of a format', async () => {
    const text = fc.option(fc.constantFrom('p-1', 'room', '$where', '{"$ne":1}', '\0', 'x'), { nil: undefined })
    const timeNs = fc.option(fc.bigInt({ min: 0n, max: 3_000_000n }), { nil: undefined })
    const number = fc.double({ noNaN: true })
    const recordFilters = fc.record({
      format: fc.constant('messages'),
      name: text,
      unit: text,
      stringValue: text,
      value: fc.option(fc.record({ comparator: fc.constantFrom('eq', 'lt', 'ge'), number }), { nil: undefined }),
    })
    const documentFilters = fc.record({
      format: fc.constantFrom('room', 'unknown', '$where'),
      payload: fc.array(fc.record({ path: fc.constantFrom(['index'], ['a', '$b'], [' odd']), text: fc.constantFrom('7', 'x') }), {
        maxLength: 2,
      }),
    })
    const origin = fc.record({ publisher: text, subtopic: text, protocol: text, fromNs: timeNs, toNs: timeNs })
    const some = fc.tuple(origin, fc.oneof(recordFilters, documentFilters)).map(([one, other]) => ({ ...one, ...other }))
    started.length = 0
    await fc.assert(
      fc.asyncProperty(some, async filters => {
        const query = pageQuery({ ...filterOf({ channel }), ...(filters as object), limit: 3 })
        await site.reader.read(query, signal)
        await site.reader.read({ ...query, after: { timeNs: 1_000_000n, position: 1n, index: 1 } }, signal)
        await site.reader.count(query, 10, signal)
        await site.reader.latest(query, signal)
        if (query.format === 'messages') await site.reader.aggregate(aggregateQuery({ ...query }), signal)
        await site.reader.formats(formatsQuery({ channel, publisher: query.publisher, rowsMax: 100 }), signal)
      }),
      { numRuns: 10, examples: [[{ format: 'messages' }], [{ format: 'room' }]] as never },
    )
    const queries = new Set(['find', 'aggregate', 'getMore', 'killCursors'])
    expect(commands().filter(name => !queries.has(name))).toEqual([])
    let withChannel = 0
    for (const { commandName, command } of started) {
      if (commandName === 'getMore' || commandName === 'killCursors') continue
      if (command['find'] === 'sluice.schema') expect(command['filter']).toEqual({})
      else if (command['find'] === 'sluice.formats') expect([[], ['_id']]).toContainEqual(Object.keys(command['filter'] as object))
      else {
        const filter = (command['filter'] ?? (command['pipeline'] as { $match: unknown }[])[0]!.$match) as object
        expect(filter).toMatchObject({ channel: { $eq: channel } })
        expect(command['maxTimeMS']).toBeGreaterThan(0)
        withChannel++
      }
    }
    expect(withChannel).toBeGreaterThan(8)
  })

  test('a page is one statement once the format is known, at any depth', async () => {
    for (const some of [
      {},
      { publisher: 'p-1' },
      { format: 'room' },
      { format: 'room', after: { timeNs: 10n ** 18n, position: 1n, index: 1 } },
    ]) {
      await site.reader.read(pageQuery({ channel, limit: 100, ...some }), signal)
      started.length = 0
      await site.reader.read(pageQuery({ channel, limit: 100, ...some }), signal)
      expect(commands()).toEqual(['find'])
    }
  })

  test('the formats of a channel take one statement each, limited to the rows that may be examined', async () => {
    started.length = 0
    expect(await site.reader.formats(formatsQuery({ channel, rowsMax: 100 }), signal)).toMatchObject([
      { format: 'messages', subtopics: [{ subtopic: 'room', lastUs: rowCount - 1 }], hasMore: true },
      { format: 'room', hasMore: true },
    ])
    expect(started.map(({ command }) => [command['find'] as string, command['limit'] as unknown])).toEqual([
      ['sluice.formats', undefined],
      ['messages', 100],
      ['room', 100],
    ])
  })

  test('an exact count is one statement', async () => {
    started.length = 0
    expect(await site.reader.count(filterOf({ channel }), Number.MAX_SAFE_INTEGER - 1, signal)).toBe(rowCount)
    expect(commands()).toEqual(['aggregate'])
  })

  test('all rows of a channel are read by one statement, a batch at a time', async () => {
    started.length = 0
    await site.reader.aggregate(aggregateQuery({ channel, aggregation: 'count', intervalUs: 1_000_000 }), signal)
    expect(commands()).toEqual(['find', 'getMore', 'getMore'])
  })

  test('the cursor is closed when a page is full', async () => {
    started.length = 0
    const query = pageQuery({ channel, format: 'room', payload: [{ path: [' odd'], text: 'x' }], offset: 5, limit: 7 })
    const rows = await site.reader.read(query, signal)
    expect(rows.map(({ index }) => index)).toEqual([2494, 2493, 2492, 2491, 2490, 2489, 2488])
    await expect.poll(commands).toEqual(['find', 'killCursors'])
  })

  test('a walk whose caller goes away ends with its reason, and its cursor is closed', async () => {
    started.length = 0
    const going = new AbortController()
    const { client } = site.connection.database
    const abort = ({ commandName }: CommandStartedEvent): void => {
      if (commandName === 'getMore') going.abort(new Error('gone'))
    }
    client.on('commandStarted', abort)
    await expect(site.reader.aggregate(aggregateQuery({ channel }), going.signal)).rejects.toThrow('gone')
    client.off('commandStarted', abort)
    await expect.poll(commands).toContain('killCursors')
    expect(commands().filter(name => name === 'getMore')).toHaveLength(1)
  })
})
