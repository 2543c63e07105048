// How sinks start: many at once, on what others have made, and on what is not theirs.

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Connection, openConnection } from '../../../sinks/cassandra/connection.ts'
import { classify } from '../../../sinks/cassandra/errors.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { readLogs } from '../../../sinks/cassandra/registry.ts'
import { openSink } from '../../../sinks/cassandra/sink.ts'
import type { Sink } from '../../../sinks/sink.ts'
import { logsOf, withNumbers } from '../../conformance/sink/fixture.ts'
import { startConformance } from '../../conformance/sink/starts.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { freePort } from '../../servers/process/free-port.ts'
import { batchOf } from '../batches.ts'
import { identity, optionsFor, rowsOf } from './store.ts'

const never = new AbortController().signal
const ignoreRefused = async (): Promise<void> => undefined

describeWithCassandra('a start on Cassandra', cassandra => {
  const cleanups: (() => Promise<unknown>)[] = []
  let operator: Connection
  let options: SinkOptions

  beforeAll(async () => {
    operator = await openConnection(optionsFor(cassandra.contactPoint), 'operator')
  })
  afterAll(() => operator.close())
  afterEach(async () => {
    for (const close of cleanups.splice(0).toReversed()) await close()
  })

  /** A keyspace that is not there. */
  function nowhere(some: Partial<SinkOptions> = {}): void {
    options = optionsFor(cassandra.contactPoint, some)
    const { url } = options
    cleanups.push(async () => void (await operator.change(`DROP KEYSPACE IF EXISTS "${url.slice(url.lastIndexOf('/') + 1)}"`)))
  }

  async function open(some: object = {}, changed: Partial<SinkOptions> = {}): Promise<Sink> {
    const own = { ...options, ...changed }
    const connection = await openConnection(own, 'writer')
    cleanups.push(() => connection.close())
    const sink = await withNumbers(openSink({ connection, options: own, logs: logsOf(some) }), some)
    cleanups.push(() => sink.close())
    return sink
  }

  const look = async (): Promise<Connection> => {
    const connection = await openConnection(options, 'operator')
    cleanups.push(() => connection.close())
    return connection
  }

  startConformance('Cassandra', async () => {
    nowhere()
    const connection = await look()
    return {
      open,
      logs: () => readLogs(connection),
      async formats() {
        const rows = await connection.query(`SELECT format, channel FROM ${connection.table('sluice_formats')}`)
        return rows.map(({ format, channel }) => ({ format: format as string, channel: channel as string }))
      },
      rowCount: async () => (await rowsOf(connection)).length,
    }
  })

  const indexes = async (connection: Connection) => {
    const cql = 'SELECT index_name, table_name, options FROM system_schema.indexes WHERE keyspace_name = ?'
    return await connection.query(cql, [connection.keyspace], { consistency: 1 })
  }
  const indexed = async (connection: Connection) => (await indexes(connection)).map(({ table_name: name }) => name as string).sort()
  const documentOf = (format: string) => batchOf(0, 1, [{ offset: 0, documents: [{ format, payload: {} }] }])

  test('every table of rows has an index by publisher, also if it is missing when a writer starts', async () => {
    nowhere()
    const sink = await open()
    for (const format of ['engine', 'Odd format']) await sink.write(sink.encode(documentOf(format)), ignoreRefused, never)
    const connection = await look()
    const made = await indexes(connection)
    const tables = await indexed(connection)
    expect(tables).toEqual(['engine', 'messages', expect.stringMatching(/^odd_format_/)])
    for (const { options } of made) expect(options).toEqual({ class_name: 'sai', target: 'publisher' })
    for (const { index_name: name } of made) await connection.change(`DROP INDEX ${connection.table(name as string)}`)
    await Promise.all([open(), open(), open()])
    expect(await indexed(connection)).toEqual(tables)
  })

  test('without the option no table is indexed, and an existing index stays', async () => {
    nowhere()
    const sink = await open({}, { publisherIndex: false })
    await sink.write(sink.encode(documentOf('engine')), ignoreRefused, never)
    const connection = await look()
    expect(await indexed(connection)).toEqual([])
    await open()
    expect(await indexed(connection)).toEqual(['engine', 'messages'])
    await open({}, { publisherIndex: false })
    expect(await indexed(connection)).toEqual(['engine', 'messages'])
  })

  test('a lock whose holder has died is waited for, until it expires', async () => {
    nowhere()
    const sink = await open()
    const connection = await look()
    const atMs = performance.now()
    await connection.query(
      `INSERT INTO ${connection.table('sluice_schema')} (name, value) VALUES ('lock', 'dead') IF NOT EXISTS USING TTL 3`,
    )
    expect(await sink.write(sink.encode(documentOf('engine')), ignoreRefused, never)).toMatchObject([{ stored: 1 }])
    expect(performance.now() - atMs).toBeGreaterThan(1_000)
    expect(await connection.query(`SELECT value FROM ${connection.table('sluice_schema')} WHERE name = 'lock'`)).toEqual([])
  })

  test('a writer with another bucket size stops, and the error names the stored one', async () => {
    nowhere({ bucketDays: 7 })
    await open()
    const error = await open({}, { bucketDays: 1 }).catch((error: unknown) => error)
    expect(error).toMatchObject({
      message: expect.stringMatching(/have 7 days each.*store\.bucket_days \(SVC_STORE_BUCKET_DAYS\) is 1.*set it to 7/) as string,
    })
    expect(classify(error)).toBe('systemic')
  })

  test('rows of a larger bucket are in the partition of its first day', async () => {
    nowhere({ bucketDays: 7 })
    const sink = await open()
    const timeUs = Date.UTC(2026, 2, 4) * 1000
    await sink.write(
      sink.encode(
        batchOf(0, 2, [
          { offset: 0, records: [{ value: 1, timeUs }] },
          { offset: 1, records: [{ value: 1, timeUs: -1 }] },
        ]),
      ),
      ignoreRefused,
      never,
    )
    const connection = await look()
    const days = (await connection.query(`SELECT day FROM ${connection.table('messages')}`)).map(({ day }) => String(day)).sort()
    expect(days).toEqual(['1969-12-25', '2026-02-26'])
  })

  test.each([
    [
      'a table that is not ours',
      (name: (table: string) => string) => `CREATE TABLE ${name('messages')} (id int PRIMARY KEY)`,
      /"messages".*was not created by sluice.*no column "channel"/,
    ],
    [
      'a column of another type',
      (name: (table: string) => string) =>
        `CREATE TABLE ${name('sluice_logs')} (number int PRIMARY KEY, name text, id int, writer text, accepted_at timestamp)`,
      /"sluice_logs".*"id" has the type int/,
    ],
  ])('%s stops the writer', async (_what, statement, sentence) => {
    nowhere()
    const connection = await look()
    await connection.change(
      `CREATE KEYSPACE "${connection.keyspace}" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
    )
    await connection.change(statement(name => connection.table(name)))
    const error = await open().catch((error: unknown) => error)
    expect(error).toMatchObject({ message: expect.stringMatching(sentence) as string })
    expect(classify(error)).toBe('systemic')
  })

  test('an existing keyspace keeps its replication; a missing one gets the configured one', async () => {
    nowhere({ replication: "{'class': 'NetworkTopologyStrategy', 'datacenter1': 1}" })
    await open()
    await open({}, { replication: "{'class': 'SimpleStrategy', 'replication_factor': 3}" })
    const [row] = await operator.query(`SELECT replication FROM system_schema.keyspaces WHERE keyspace_name = ?`, [(await look()).keyspace])
    expect(JSON.stringify(row!['replication'])).toContain('NetworkTopologyStrategy')
  })

  test('a data center that the cluster does not have is named', async () => {
    nowhere()
    const error = await open({}, { url: `${options.url}?dc=elsewhere` }).catch((error: unknown) => error)
    expect(error).toMatchObject({ message: expect.stringMatching(/has no data center "elsewhere", only datacenter1/) as string })
    expect(classify(error)).toBe('systemic')
  })

  test('while a cluster is down the sink waits: the same connection finds it later', async () => {
    nowhere()
    const away = { ...options, url: `cassandra://127.0.0.1:${await freePort()}/nowhere` }
    const connection = await openConnection(away, 'writer')
    cleanups.push(() => connection.close())
    for (let attempt = 0; attempt < 2; attempt++) {
      const error = await withNumbers(openSink({ connection, options: away, logs: [identity] })).catch((error: unknown) => error)
      expect(classify(error)).toBe('transient')
    }
  })
})
