// What an error means, provoked on the server.

import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, test } from 'vitest'
import { openConnection } from '../../../sinks/mongodb/connection.ts'
import type { SinkOptions } from '../../../sinks/mongodb/options.ts'
import { classify, openSink } from '../../../sinks/mongodb/sink.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { plainBatch } from '../batches.ts'
import { identity, optionsOf } from './store.ts'

const { signal } = new AbortController()
const nobody = async (): Promise<void> => undefined

async function thrownByOpening(url: string, some: Partial<SinkOptions> = {}): Promise<unknown> {
  const options = optionsOf(url, { connectTimeoutMs: 300, ...some })
  try {
    const connection = await openConnection(options, 'test')
    try {
      return await openSink({ connection, options, ...identity })
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
    ['a port where nobody is', () => 'mongodb://127.0.0.1:1/errors', /ECONNREFUSED/],
    ['a host that the DNS does not know', () => 'mongodb://nowhere.invalid:27017/errors', /ENOTFOUND|EAI_AGAIN/],
    ['a service that the DNS does not know', () => 'mongodb+srv://nowhere.invalid/errors', /ENOTFOUND|EAI_AGAIN/],
    ['a server that speaks no TLS', () => `${mongo.url}errors?tls=true`, /TLS/],
    ['a server that is no member of the set', () => `${mongo.url}errors?replicaSet=set`, /selection/],
  ])('transient: %s', async (_what, url, says) => {
    const thrown = await thrownByOpening(url())
    expect([classify(thrown), String(thrown)]).toEqual(['transient', expect.stringMatching(says)])
  })

  test('transient: a server that says nothing', async () => {
    const silent = createServer().listen(0, '127.0.0.1')
    await once(silent, 'listening')
    const { port } = silent.address() as { port: number }
    expect(classify(await thrownByOpening(`mongodb://127.0.0.1:${port}/errors`))).toBe('transient')
    silent.close()
  })

  test.each([
    ['a user that the server does not let in, in the URL', () => `${withUser()}errors`, {}],
    ['one in the options', () => `${mongo.url}errors`, { user: 'device', password: 's3cret-word' }],
  ])('systemic: %s, with what to do and without the password', async (_what, url, some) => {
    const thrown = await thrownByOpening(url(), some)
    expect(classify(thrown)).toBe('systemic')
    expect(String(thrown)).toMatch(/code 18.*correct user, password and authSource in store\.url \(SVC_DOCUMENT_URL\)/s)
    expect(String(thrown)).not.toContain('s3cret-word')
    expect(String((thrown as Error).cause)).not.toContain('s3cret-word')
  })

  test.each([
    ['a parameter that the driver does not know', () => `${withUser()}errors?nonsense=1`, /nonsense/],
    ['a value that it cannot read', () => `${withUser()}errors?tls=maybe`, /tls/],
    ['no database', () => withUser(), /names no database/],
  ])('systemic: a URL with %s, without its password', async (_what, url, says) => {
    const thrown = await thrownByOpening(url())
    expect(classify(thrown)).toBe('systemic')
    expect(String(thrown)).toMatch(says)
    expect(String(thrown)).not.toContain('s3cret-word')
  })

  test('parameters of the URL that would make rows less durable do not count', async () => {
    const options = optionsOf(`${mongo.url}errors?retryWrites=true&w=0&journal=false&readPreference=secondary`)
    const connection = await openConnection(options, 'test')
    const { writeConcern, readPreference, readConcern } = connection.database
    expect([writeConcern?.w, writeConcern?.journal, readPreference?.mode, readConcern?.level]).toEqual([
      'majority',
      true,
      'primary',
      'majority',
    ])
    const sink = await openSink({ connection, options, ...identity })
    expect((await sink.write(sink.encode(plainBatch(0, 2)), nobody, signal))[0]!.stored).toBe(2)
    await sink.close()
    await connection.close()
  })

  test('a connection that was closed is closed once more in peace', async () => {
    const connection = await openConnection(optionsOf(`${mongo.url}errors`), 'test')
    await connection.close()
    await connection.close()
  })
})
