// Roles, permissions and certificates: what a writer says that is not let in, and what it does without where it may not.

import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Connection, openConnection, type TlsFiles } from '../../../sinks/cassandra/connection.ts'
import { classify } from '../../../sinks/cassandra/errors.ts'
import type { SinkOptions } from '../../../sinks/cassandra/options.ts'
import { openSink } from '../../../sinks/cassandra/sink.ts'
import type { Rejection, Sink } from '../../../sinks/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithCassandra } from '../../servers/cassandra.ts'
import { batchOf, plain, plainBatch } from '../batches.ts'
import { type SecuredCassandra, startSecuredCassandra } from './secured-server.ts'
import { identity, optionsFor } from './store.ts'

const never = new AbortController().signal
const ignoreRefused = async (): Promise<void> => undefined
const document = (offset: number) => batchOf(offset, offset + 1, [{ offset, documents: [{ format: 'engine', payload: {} }] }])

// The other suites' server is asked for, so that the libraries are there.
describeWithCassandra('a secured Cassandra', () => {
  let server: SecuredCassandra
  let base: SinkOptions
  let operator: Connection
  const cleanups: (() => Promise<unknown>)[] = []
  const roles = { user: 'cassandra', password: 'cassandra' }

  beforeAll(async () => {
    server = await startSecuredCassandra()
    base = optionsFor(server.contactPoint)
    operator = await openConnection({ ...base, ...roles }, 'operator')
  })
  afterAll(async () => {
    await operator.close()
    await server.stop()
  })
  afterEach(async () => {
    for (const close of cleanups.splice(0).toReversed()) await close()
  })

  async function open(some: Partial<SinkOptions>, tls?: TlsFiles, onNotice?: (sentence: string) => void): Promise<Sink> {
    const options = { ...base, ...some }
    const connection = await openConnection(options, 'writer', tls)
    cleanups.push(() => connection.close())
    const sink = (await withNumbers(
      openSink({ connection, options, logs: [identity], ...(onNotice === undefined ? {} : { onNotice }) }),
    )) as Sink
    cleanups.push(() => sink.close())
    return sink
  }
  const failure = async (opening: Promise<unknown>): Promise<Error> => (await opening.catch((error: unknown) => error)) as Error

  test('a role in the options, and in the URL', async () => {
    await open(roles)
    const inUrl = base.url.replace('//', '//cassandra:cassandra@')
    const sink = await open({ url: inUrl })
    await sink.write(sink.encode(plainBatch(0, 3)), ignoreRefused, never)
  })

  test.each([
    ['no role', {}, /requires a login, and none is configured/],
    ['a wrong password', { user: 'cassandra', password: 'S3cr3t-wrong' }, /refused the role "cassandra"/],
    ['an unknown role', { user: 'nobody', password: 'S3cr3t-wrong' }, /refused the role "nobody"/],
  ])('%s stops the writer, and the error contains no secret', async (_what, some, sentence) => {
    const error = await failure(open(some))
    expect(error.message).toMatch(sentence)
    expect(error.message).not.toContain('S3cr3t')
    expect(classify(error)).toBe('systemic')
  })

  test('TLS with the right CA, by address and by name; without it the writer stops', async () => {
    const tls = { ca: server.certificate }
    await open({ ...roles, tls: true }, tls)
    await open({ ...roles, tls: true, tlsName: 'node.example' }, tls)
    const untrusted = await failure(open({ ...roles, tls: true }))
    expect(untrusted.message).toMatch(/certificate of a Cassandra node is not trusted.*store\.ca_file/)
    expect(classify(untrusted)).toBe('systemic')
    const misnamed = await failure(open({ ...roles, tls: true, tlsName: 'other.example' }, tls))
    expect(misnamed.message).toMatch(/not trusted.*store\.tls_name/)
    expect(classify(misnamed)).toBe('systemic')
  })

  async function role(name: string, ...grants: string[]): Promise<Partial<SinkOptions>> {
    const change = async (cql: string) => void (await operator.change(cql))
    await change(`CREATE ROLE IF NOT EXISTS ${name} WITH PASSWORD = 'p' AND LOGIN = true`)
    for (const grant of grants) await change(`GRANT ${grant} TO ${name}`)
    return { user: name, password: 'p' }
  }

  test('a role that may not create a keyspace or a table gets an error that says so', async () => {
    const missing = await role('poor')
    const keyspace = await failure(open({ ...missing, url: `${base.url}_2` }))
    expect(keyspace.message).toMatch(/keyspace ".*_2" is missing, and the writer's role may not create it/)
    await operator.change(
      `CREATE KEYSPACE "${operator.keyspace}_3" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}`,
    )
    const table = await failure(open({ ...missing, url: `${base.url}_3` }))
    expect(table.message).toMatch(/table "sluice_schema" is missing, and the writer's role may not create it: grant the role CREATE/)
    expect([keyspace, table].map(classify)).toEqual(['systemic', 'systemic'])
  })

  test('a role that may write but not create tables stores existing formats; a new format is a dead letter until it is allowed', async () => {
    await open(roles)
    const keyspace = `KEYSPACE "${operator.keyspace}"`
    const some = await role('writer', `SELECT ON ${keyspace}`, `MODIFY ON ${keyspace}`)
    const notices: string[] = []
    const sink = await open(some, undefined, sentence => void notices.push(sentence))
    const rejections: Rejection[] = []
    const keep = async (more: readonly Rejection[]) => void rejections.push(...more)
    expect(await sink.write(sink.encode(batchOf(10, 11, [plain(10)])), keep, never)).toMatchObject([{ stored: 1 }])
    expect(await sink.write(sink.encode(document(11)), keep, never)).toMatchObject([{ stored: 0, deadLettered: 1 }])
    await sink.write(sink.encode(document(12)), keep, never)
    expect(rejections.map(({ rule, hint }) => [rule, hint])).toEqual(
      [0, 1].map(() => ['format-not-allowed', expect.stringContaining(`grant CREATE on the keyspace "${operator.keyspace}"`) as string]),
    )
    expect(notices).toEqual([expect.stringContaining('GRANT CREATE') as string])
    await role('writer', `CREATE ON ${keyspace}`)
    await expect.poll(() => sink.write(sink.encode(document(13)), keep, never)).toMatchObject([{ stored: 1 }])
  })

  test('a role that may not index the tables of another gets a notice, and writes', async () => {
    await open(roles)
    const keyspace = `KEYSPACE "${operator.keyspace}"`
    await operator.change(`DROP INDEX "${operator.keyspace}".messages_publisher_idx`)
    const some = await role('unindexing', `SELECT ON ${keyspace}`, `MODIFY ON ${keyspace}`)
    const notices: string[] = []
    const sink = await open(some, undefined, sentence => void notices.push(sentence))
    expect(notices).toEqual([
      expect.stringMatching(/no index by publisher.*no ALTER permission.*grant this role ALTER ON KEYSPACE/s) as string,
    ])
    expect(await sink.write(sink.encode(batchOf(30, 31, [plain(30)])), ignoreRefused, never)).toMatchObject([{ stored: 1 }])
    await operator.change(`GRANT ALTER ON ${keyspace} TO unindexing`)
    await open(some, undefined, sentence => void notices.push(sentence))
    expect(notices).toHaveLength(1)
  })

  test('a revoked permission stops the writer', async () => {
    await open(roles)
    const keyspace = `KEYSPACE "${operator.keyspace}"`
    const sink = await open(await role('reader', `SELECT ON ${keyspace}`, `MODIFY ON ${keyspace}`))
    await operator.change(`REVOKE MODIFY ON ${keyspace} FROM reader`)
    const write = async () => await failure(sink.write(sink.encode(plainBatch(20, 21)), ignoreRefused, never))
    await expect
      .poll(async () => (await write())?.message)
      .toMatch(/MODIFY.*grant the role in store\.url \(SVC_WIDECOLUMN_URL\) the permissions: GRANT SELECT ON KEYSPACE/)
    expect(classify(await write())).toBe('systemic')
  })
})
