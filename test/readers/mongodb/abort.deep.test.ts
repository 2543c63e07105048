// A query that no caller waits for any longer ends soon, also while the server is silent; and one that the store cannot answer says why.

import { getEventListeners } from 'node:events'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import type { ReaderStoreOptions } from '../../../readers/mongodb/options.ts'
import { openMongodbReader } from '../../../readers/mongodb/reader.ts'
import { QueryTooLargeError, type Reader, StoreUnavailableError } from '../../../readers/reader.ts'
import { type Connection, openConnection } from '../../../sinks/mongodb/connection.ts'
import { aggregateQuery, formatsQuery, pageQuery } from '../../conformance/reader/index.ts'
import { describeWithOwnMongo } from '../../servers/mongo.ts'
import { openProxy, type Proxy } from '../../servers/process/proxy.ts'
import { plainBatch } from '../../sinks/batches.ts'
import { type MongoSite, openSite, readerOptionsOf } from './site.ts'

const { signal: never } = new AbortController()
const query = pageQuery({ channel: 'channel-1', limit: 10 })
/** So many that FerretDB needs some hundred milliseconds for a look at them. */
const rows = 10_000

const thrownBy = (work: Promise<unknown>): Promise<unknown> =>
  work.then(
    () => 'answered',
    (error: unknown) => error,
  )

describeWithOwnMongo('an aborted query', mongo => {
  let proxy: Proxy
  let site: MongoSite
  const connections: Connection[] = []

  beforeAll(async () => {
    proxy = await openProxy({ port: Number(new URL(mongo.url).port) })
    site = await openSite(`${mongo.url}giving_up`)
    await site.store(plainBatch(0, rows))
  })
  afterEach(async () => {
    for (const connection of connections.splice(0)) await connection.close()
    await proxy.heal()
  })
  afterAll(async () => {
    await site.close()
    await proxy.close()
  })

  async function open(some: Partial<ReaderStoreOptions> = {}, url = `mongodb://127.0.0.1:${proxy.port}/giving_up`): Promise<Reader> {
    const options = readerOptionsOf(url, some)
    const connection = await openConnection(options, 'test')
    connections.push(connection)
    return openMongodbReader({ connection, options })
  }
  const queries = (reader: Reader, signal: AbortSignal): [string, () => Promise<unknown>][] => [
    ['read', () => reader.read(query, signal)],
    ['count', () => reader.count(query, Number.MAX_SAFE_INTEGER - 1, signal)],
    ['latest', () => reader.latest(query, signal)],
    ['aggregate', () => reader.aggregate(aggregateQuery({ channel: 'channel-1' }), signal)],
    ['formats', () => reader.formats(formatsQuery({ channel: 'channel-1' }), signal)],
    ['read of a format', () => reader.read({ ...query, format: 'engine' }, signal)],
  ]

  test('sends nothing if it is aborted before it starts', async () => {
    const reader = await open()
    await reader.check()
    const passed = proxy.passedBytes
    const reason = new Error('gone')
    for (const [what, ask] of queries(reader, AbortSignal.abort(reason))) expect(await thrownBy(ask()), what).toBe(reason)
    expect(proxy.passedBytes).toBe(passed)
  })

  test('while the server is silent it ends with the reason, leaves no listener, and the next is answered when the server is back', async () => {
    const reader = await open({ queryTimeoutMs: 3_600_000 })
    await reader.read(query, never)
    proxy.halfOpen()
    const going = new AbortController()
    const asked = queries(reader, going.signal).map(([, ask]) => thrownBy(ask()))
    const reason = new Error('gone')
    setImmediate(() => going.abort(reason))
    for (const one of asked) expect(await one).toBe(reason)
    expect(getEventListeners(going.signal, 'abort')).toEqual([])
    await proxy.heal()
    expect(await reader.read(query, never)).toHaveLength(10)
  })

  test('before a connection it ends with the reason', async () => {
    const reader = await open({ connectTimeoutMs: 60_000 }, 'mongodb://127.0.0.1:1/giving_up')
    const going = new AbortController()
    const asked = thrownBy(reader.read(query, going.signal))
    setImmediate(() => going.abort(new Error('gone')))
    expect(String(await asked)).toBe('Error: gone')
  })

  test('answered queries leave no listener either', async () => {
    const reader = await open()
    const asking = new AbortController()
    for (const [, ask] of queries(reader, asking.signal)) await ask()
    expect(getEventListeners(asking.signal, 'abort')).toEqual([])
  })

  test('a server that is silent for longer than a query may take is unavailable', async () => {
    const hurried = await open({ queryTimeoutMs: 3_000 })
    await hurried.check()
    proxy.halfOpen()
    const thrown = await thrownBy(hurried.read(query, never))
    expect([thrown, String(thrown)]).toEqual([expect.any(StoreUnavailableError), expect.stringMatching(/not answered for 3000 ms/)])
  })

  test('a query that takes the store too long is too large', async () => {
    const options = readerOptionsOf(`${mongo.url}giving_up`)
    const connection = await openConnection(options, 'test')
    connections.push(connection)
    // A look at the rows takes longer than the limit on any machine, and a busy one is waited for until it says so.
    const reader = openMongodbReader({ connection, options: { ...options, queryTimeoutMs: 20 }, graceMs: 600_000 })
    await reader.check()
    for (const [what, ask] of queries(reader, never).slice(0, 4)) {
      const thrown = await thrownBy(ask())
      expect([what, thrown, String(thrown)]).toEqual([what, expect.any(QueryTooLargeError), expect.stringMatching(/narrow it/)])
    }
  })

  test('a paused server, one that is down, and one that is back', async () => {
    const reader = await open({ queryTimeoutMs: 5_000, connectTimeoutMs: 5_000 })
    await reader.check()
    mongo.pause()
    try {
      expect(await thrownBy(reader.read(query, never))).toBeInstanceOf(StoreUnavailableError)
    } finally {
      mongo.resume()
    }
    await mongo.kill()
    expect(await thrownBy(reader.read(query, never))).toBeInstanceOf(StoreUnavailableError)
    expect(await thrownBy(reader.check())).toBeInstanceOf(StoreUnavailableError)
    await mongo.restart()
    await expect
      .poll(() =>
        reader.read(query, never).then(
          found => found.length,
          () => -1,
        ),
      )
      .toBe(10)
  })
})
