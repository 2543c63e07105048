// What a reader says of stores that are not, or not only, what the sink has made.

import type { MongoClient } from 'mongodb'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openMongodbReader } from '../../../readers/mongodb/reader.ts'
import { type Reader, StoreUnavailableError, senmlFormat } from '../../../readers/reader.ts'
import { type Connection, openConnection } from '../../../sinks/mongodb/connection.ts'
import { aggregateQuery, pageQuery } from '../../conformance/reader/index.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { batchOf } from '../../sinks/batches.ts'
import { openOperator } from '../../sinks/mongodb/store.ts'
import { openSite, readerOptionsOf } from './site.ts'

const { signal } = new AbortController()
const channel = 'channel-1'

describeWithMongo('a store', mongo => {
  let operator: MongoClient
  let url: string
  let databases = 0
  const connections: Connection[] = []

  beforeEach(() => {
    url = `${mongo.url}states_${databases++}`
    operator = openOperator(url)
  })
  afterEach(async () => {
    for (const connection of connections.splice(0)) await connection.close()
    await operator.close()
  })

  async function openReader(at = url, login: { user?: string; password?: string } = {}): Promise<Reader> {
    const options = readerOptionsOf(at, login)
    const connection = await openConnection(options, 'test')
    connections.push(connection)
    return openMongodbReader({ connection, options })
  }
  const thrownBy = (work: Promise<unknown>): Promise<unknown> =>
    work.then(
      () => 'answered',
      (error: unknown) => error,
    )

  test('without a writer says that one has to be started, and answers afterwards; nothing is created', async () => {
    const reader = await openReader()
    for (const format of [senmlFormat, 'weather']) {
      const query = pageQuery({ channel, format })
      for (const ask of [() => reader.read(query, signal), () => reader.count(query, 1, signal), () => reader.check()]) {
        const thrown = await thrownBy(ask())
        expect([thrown, String(thrown)]).toEqual([expect.any(StoreUnavailableError), expect.stringMatching(/start a writer/)])
      }
    }
    expect((await operator.db().admin().listDatabases({ nameOnly: true })).databases.map(({ name }) => name)).not.toContain(
      operator.db().databaseName,
    )
    const site = await openSite(url)
    expect(await reader.read(pageQuery({ channel }), signal)).toEqual([])
    await reader.check()
    await site.close()
  })

  test('of a later version is not read', async () => {
    await operator
      .db()
      .collection('sluice.schema')
      .insertOne({ _id: 2 as never })
    const thrown = await thrownBy((await openReader()).read(pageQuery({ channel }), signal))
    expect(thrown).not.toBeInstanceOf(StoreUnavailableError)
    expect(String(thrown)).toMatch(/later version/)
  })

  test('may have other collections, which no format reads', async () => {
    const site = await openSite(url)
    await operator
      .db()
      .collection('secrets')
      .insertOne({ channel, publisher: 'p', created: 1n, payload: { key: 'x' } })
    for (const format of ['secrets', 'sluice.logs', 'sluice.formats']) {
      expect(await site.reader.read(pageQuery({ channel, format }), signal)).toEqual([])
      expect(await site.reader.count(pageQuery({ channel, format }), 10, signal)).toBe(0)
    }
    await site.close()
  })

  test('with a dropped collection of a format has no rows of it', async () => {
    const site = await openSite(url)
    await site.store(batchOf(0, 1, [{ offset: 0, documents: [{ format: 'room', payload: { a: 1 } }] }]))
    const query = pageQuery({ channel, format: 'room' })
    expect(await site.reader.read(query, signal)).toHaveLength(1)
    await operator.db().collection('room').drop()
    expect(await site.reader.read(query, signal)).toEqual([])
    expect(await site.reader.latest(query, signal)).toEqual({ groups: [], total: 0 })
    await site.close()
  })

  test('with a document of another program among the rows says so', async () => {
    const site = await openSite(url)
    await operator.db().collection('messages').insertOne({ channel, timeUs: 1n })
    await expect(site.reader.read(pageQuery({ channel }), signal)).rejects.toThrow(/not written by sluice/)
    await site.close()
  })

  test('returns texts and payloads of 64 KB, in pages larger than a batch of MongoDB', async () => {
    const site = await openSite(url)
    const text = 'é"\\\n'.repeat(13_108)
    const records = Array.from({ length: 300 }, (_, nth) => ({ stringValue: `${nth} ${text}`, timeUs: nth }))
    const documents = Array.from({ length: 3 }, (_, nth) => ({ format: 'room', payload: { [text]: `${nth} ${text}` } }))
    await site.store(
      batchOf(0, 2, [
        { offset: 0, records },
        { offset: 1, documents },
      ]),
    )
    const rows = await site.reader.read(pageQuery({ channel, direction: 'asc' }), signal)
    expect(rows.map(row => row.kind === 'senml' && row.stringValue)).toEqual(records.map(({ stringValue }) => stringValue))
    const found = await site.reader.read(pageQuery({ channel, format: 'room', direction: 'asc' }), signal)
    expect(found.map(row => row.kind === 'document' && JSON.parse(row.payloadText))).toEqual(documents.map(({ payload }) => payload))
    await site.close()
  })

  test('whose numbers add up beyond a double returns infinity, without an error', async () => {
    const site = await openSite(url)
    const records = [1e308, 1e308, 0].map((value, timeUs) => ({ value, timeUs }))
    await site.store(batchOf(0, 1, [{ offset: 0, records }]))
    const { groups } = await site.reader.aggregate(aggregateQuery({ channel, aggregation: 'sum' }), signal)
    expect(groups.map(({ value, count }) => [value, count])).toEqual([[Number.POSITIVE_INFINITY, 3]])
    await site.close()
  })

  test.each([
    ['in the URL', (at: string) => at.replace('//', '//device:s3cret-word@'), {}],
    ['in the options', (at: string) => at, { user: 'device', password: 's3cret-word' }],
  ])('that refuses the login says so, without the password %s', async (_where, of, login) => {
    const reader = await openReader(of(url), login)
    for (const ask of [() => reader.read(pageQuery({ channel }), signal), () => reader.check()]) {
      const thrown = await thrownBy(ask())
      expect(thrown).not.toBeInstanceOf(StoreUnavailableError)
      expect(String(thrown)).toMatch(/code 18.*correct user, password and authSource in store\.url \(SVC_DOCUMENT_URL\)/s)
      expect(`${String(thrown)} ${String((thrown as Error).cause)}`).not.toContain('s3cret-word')
    }
  })

  test('that does not listen is unavailable', async () => {
    const reader = await openReader('mongodb://device:s3cret-word@127.0.0.1:1/nowhere')
    const thrown = await thrownBy(reader.read(pageQuery({ channel }), signal))
    expect(thrown).toBeInstanceOf(StoreUnavailableError)
    expect(String(thrown)).not.toContain('s3cret-word')
  })
})
