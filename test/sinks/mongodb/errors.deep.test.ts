// What an error means, provoked on the server.

import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { openConnection } from '../../../sinks/mongodb/connection.ts'
import type { SinkOptions } from '../../../sinks/mongodb/options.ts'
import { classify, openSink } from '../../../sinks/mongodb/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { plainBatch } from '../batches.ts'
import { identity, optionsOf } from './store.ts'

const { signal } = new AbortController()
const ignoreRefused = async (): Promise<void> => undefined
/** For servers that never accept a connection: the error comes after this time. */
const hurried = { connectTimeoutMs: 2_000 }

async function thrownByOpening(url: string, some: Partial<SinkOptions> = {}): Promise<unknown> {
  const options = optionsOf(url, some)
  try {
    const connection = await openConnection(options, 'test')
    try {
      return await withNumbers(openSink({ connection, options, logs: [identity] }))
    } finally {
      await connection.close()
    }
  } catch (error) {
    return error
  }
}

describeWithMongo('an error of MongoDB', mongo => {
  const withUser = (): string => mongo.url.replace('//', '//device:s3cret-word@')

  test.each([
    ['a port that is not open', () => 'mongodb://127.0.0.1:1/errors', /ECONNREFUSED/],
    ['an unknown host', () => 'mongodb://nowhere.invalid:27017/errors', /ENOTFOUND|EAI_AGAIN/],
    ['an unknown service', () => 'mongodb+srv://nowhere.invalid/errors', /ENOTFOUND|EAI_AGAIN/],
    ['a server without TLS', () => `${mongo.url}errors?tls=true`, /TLS/],
    ['a server that is not a member of the replica set', () => `${mongo.url}errors?replicaSet=set`, /selection/],
  ])('transient: %s', async (_what, url, says) => {
    const thrown = await thrownByOpening(url(), hurried)
    expect([classify(thrown), String(thrown)]).toEqual(['transient', expect.stringMatching(says)])
  })

  test('transient: a silent server', async () => {
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as { port: number }
    expect(classify(await thrownByOpening(`mongodb://127.0.0.1:${port}/errors`, hurried))).toBe('transient')
    silent.close()
  })

  test.each([
    ['a refused user in the URL', () => `${withUser()}errors`, {}],
    ['a refused user in the options', () => `${mongo.url}errors`, { user: 'device', password: 's3cret-word' }],
  ])('systemic: %s, with what to do and without the password', async (_what, url, some) => {
    const thrown = await thrownByOpening(url(), some)
    expect(classify(thrown)).toBe('systemic')
    expect(String(thrown)).toMatch(/code 18.*correct user, password and authSource in store\.url \(SVC_DOCUMENT_URL\)/s)
    expect(String(thrown)).not.toContain('s3cret-word')
    expect(String((thrown as Error).cause)).not.toContain('s3cret-word')
  })

  test.each([
    ['an unknown parameter', () => `${withUser()}errors?nonsense=1`, /nonsense/],
    ['an invalid value', () => `${withUser()}errors?tls=maybe`, /tls/],
    ['no database', () => withUser(), /has no database/],
  ])('systemic: a URL with %s, without its password', async (_what, url, says) => {
    const thrown = await thrownByOpening(url())
    expect(classify(thrown)).toBe('systemic')
    expect(String(thrown)).toMatch(says)
    expect(String(thrown)).not.toContain('s3cret-word')
  })

  test('parameters of the URL that would make rows less durable have no effect', async () => {
    const options = optionsOf(`${mongo.url}errors?retryWrites=true&w=0&journal=false&readPreference=secondary`)
    const connection = await openConnection(options, 'test')
    const { writeConcern, readPreference, readConcern } = connection.database
    expect([writeConcern?.w, writeConcern?.journal, readPreference?.mode, readConcern?.level]).toEqual([
      'majority',
      true,
      'primary',
      'majority',
    ])
    const sink = await withNumbers(openSink({ connection, options, logs: [identity] }))
    expect((await sink.write(sink.encode(plainBatch(0, 2)), ignoreRefused, signal))[0]!.stored).toBe(2)
    await sink.close()
    await connection.close()
  })

  test('a closed connection can be closed again', async () => {
    const connection = await openConnection(optionsOf(`${mongo.url}errors`), 'test')
    await connection.close()
    await connection.close()
  })
})
