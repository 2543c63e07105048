// The Cassandra reader while its store is away, silent, not yet made, or refuses it.

import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'
import { openCassandraReader } from '../../../readers/cassandra/reader.ts'
import { type Reader, StoreUnavailableError } from '../../../readers/reader.ts'
import { openConnection } from '../../../sinks/cassandra/connection.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { openSink } from '../../../sinks/cassandra/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { pageQuery } from '../../conformance/reader/index.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithCassandra, describeWithOwnCassandra } from '../../servers/cassandra.ts'
import { type SecuredCassandra, startSecuredCassandra } from '../../sinks/cassandra/secured-server.ts'
import { identity, optionsFor } from '../../sinks/cassandra/store.ts'
import { type CassandraSite, openSite, readerOptions } from './site.ts'

const never = new AbortController().signal
const query = pageQuery({ channel: 'c' })

function oneRow(): RecordBatch {
  const batch = new RecordBatch()
  batch.beginMessage({ at: logPartition(0, 0), offset: 0, channel: 'c', subtopic: '', publisher: 'p', protocol: 'http' })
  batch.appendRecord(0, 'n', undefined, 1_700_000_000_000_000, 1, 1, undefined, Number.NaN, Number.NaN)
  batch.endMessage()
  batch.cover(logPartition(0, 0), 0, 1)
  return batch
}

const cleanups: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of cleanups.splice(0).toReversed()) await close()
})

async function readerOf(url: string, some: Partial<SinkOptions> = {}): Promise<Reader> {
  const connection = await openConnection({ ...readerOptions(url), ...some }, 'reader')
  cleanups.push(() => connection.close())
  return openCassandraReader({ connection, options: readerOptions(url) })
}

test('if nothing listens, the store is unavailable', async () => {
  const reader = await readerOf('cassandra://u:S3cr3t@127.0.0.1:1/k')
  for (const asked of [reader.check(), reader.read(query, never), reader.count(query, 1, never)]) {
    const error = (await asked.catch((found: unknown) => found)) as Error
    expect(error).toBeInstanceOf(StoreUnavailableError)
    expect(error.message).not.toContain('S3cr3t')
  }
})

describeWithOwnCassandra('a node', cassandra => {
  let site: CassandraSite
  beforeAll(async () => {
    site = await openSite(cassandra.contactPoint)
    await site.store(oneRow())
  })
  afterAll(() => site.close())

  test('without the keyspace, or without its tables, the error says to start a writer; afterwards it can be read', async () => {
    const options = optionsFor(cassandra.contactPoint)
    const reader = await readerOf(options.url)
    const isNotThere = async (): Promise<void> => {
      for (const format of ['messages', 'weather']) {
        await expect(reader.read({ ...query, format }, never)).rejects.toThrow(/contains no message tables: start a writer/)
      }
      await expect(reader.check()).rejects.toBeInstanceOf(StoreUnavailableError)
    }
    await isNotThere()
    const connection = await openConnection(options, 'writer')
    cleanups.push(() => connection.close())
    await connection.change(`CREATE KEYSPACE "${connection.keyspace}" WITH replication = ${options.replication}`)
    await isNotThere()
    const sink = await withNumbers(openSink({ connection, options, logs: [identity] }))
    await sink.write(sink.encode(oneRow()), async () => undefined, never)
    await sink.close()
    await reader.check()
    expect(await reader.read(query, never)).toHaveLength(1)

    // The keyspace is dropped and made again: nothing that was remembered harms.
    await connection.change(`DROP KEYSPACE "${connection.keyspace}"`)
    await isNotThere()
    await (await withNumbers(openSink({ connection, options: { ...options, bucketDays: 7 }, logs: [identity] }))).close()
    expect(await reader.read(query, never)).toEqual([])
  })

  test('a silent node: a query ends at once when its caller goes away, and a later one is answered when it responds again', async () => {
    await site.reader.check()
    cassandra.pause()
    const going = new AbortController()
    const asked = [site.reader.read(query, going.signal), site.reader.count(query, 1, going.signal)]
    const settled = Promise.allSettled(asked)
    await new Promise(setImmediate)
    going.abort(new Error('gone'))
    for (const one of await settled) expect(one).toMatchObject({ status: 'rejected', reason: { message: 'gone' } })
    cassandra.resume()
    expect(await site.reader.read(query, never)).toHaveLength(1)
  })

  test('a node that is silent for the time of a query makes the store unavailable', async () => {
    const reader = openCassandraReader({ connection: site.connection, options: { queryTimeoutMs: 3_000 } })
    await reader.check()
    cassandra.pause()
    await expect(reader.read(query, never)).rejects.toBeInstanceOf(StoreUnavailableError)
    cassandra.resume()
    await expect.poll(() => reader.read(query, never).catch(() => [])).toHaveLength(1)
  })

  test('a killed node makes the store unavailable, until it is back, for the same reader', async () => {
    await cassandra.kill()
    for (const asked of [site.reader.read(query, never), site.reader.check()]) {
      await expect(asked).rejects.toBeInstanceOf(StoreUnavailableError)
    }
    const fresh = await readerOf(site.options.url)
    await expect(fresh.check()).rejects.toBeInstanceOf(StoreUnavailableError)
    await cassandra.restart('KILL')
    for (const reader of [site.reader, fresh]) {
      await expect.poll(() => reader.read(query, never).catch(() => []), { interval: 250 }).toHaveLength(1)
    }
  })
})

// The other suites' server is asked for, so that the libraries are there.
describeWithCassandra('a secured node', () => {
  let server: SecuredCassandra
  let options: SinkOptions
  const admin = { user: 'cassandra', password: 'cassandra' }
  beforeAll(async () => {
    server = await startSecuredCassandra()
    options = optionsFor(server.contactPoint, admin)
  })
  afterAll(() => server.stop())

  describe('roles', () => {
    test.each([
      ['no role', {}, /requires a login, and none is configured/],
      [
        'a wrong password',
        { user: 'cassandra', password: 'S3cr3t' },
        /refused the role "cassandra".*store\.user \(SVC_STORE_USER\) and store\.password/,
      ],
    ])('%s is an error, and not an outage', async (_what, some, sentence) => {
      const reader = await readerOf(options.url, some)
      for (const ask of [() => reader.check(), () => reader.read(query, never)]) {
        const error = (await ask().catch((found: unknown) => found)) as Error
        expect(error).not.toBeInstanceOf(StoreUnavailableError)
        expect(error.message).toMatch(sentence)
        expect(error.message).not.toContain('S3cr3t')
      }
    })

    test('a reader needs only SELECT, and without it the error says so', async () => {
      const connection = await openConnection(options, 'writer')
      cleanups.push(() => connection.close())
      const sink = await withNumbers(openSink({ connection, options, logs: [identity] }))
      await sink.write(sink.encode(oneRow()), async () => undefined, never)
      await sink.close()
      await connection.change("CREATE ROLE reader WITH PASSWORD = 'p' AND LOGIN = true")
      const reader = await readerOf(options.url, { user: 'reader', password: 'p' })
      await expect(reader.check()).rejects.toThrow(
        /SELECT.*grant the role in store\.url \(SVC_WIDECOLUMN_URL\) the permissions: GRANT SELECT ON KEYSPACE/,
      )
      await connection.change(`GRANT SELECT ON KEYSPACE "${connection.keyspace}" TO reader`)
      await expect.poll(() => reader.check().then(() => 'answers', String)).toBe('answers')
      expect(await reader.read(query, never)).toHaveLength(1)
      expect((await reader.latest(query, never)).groups).toHaveLength(1)
      expect(await reader.read({ ...query, format: 'new' }, never)).toEqual([])
    })
  })
})
