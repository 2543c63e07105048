// TLS to the server: its certificate is checked against the given authority, and ours is shown to it.

import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer, type Server } from 'node:tls'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openConnection, type TlsFiles } from '../../../sinks/mongodb/connection.ts'
import { classify, openSink } from '../../../sinks/mongodb/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithMongo } from '../../servers/mongo.ts'
import { plainBatch } from '../batches.ts'
import { identity, optionsOf } from './store.ts'

const run = promisify(execFile)

/** A certificate that is its own authority, for 127.0.0.1. */
async function certificateOf(name: string): Promise<{ cert: string; key: string }> {
  const folder = await mkdtemp(join(tmpdir(), 'sluice-tls-'))
  const [cert, key] = [join(folder, 'cert.pem'), join(folder, 'key.pem')]
  const kind = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes']
  const subject = ['-subj', `/CN=${name}`, '-addext', 'subjectAltName=IP:127.0.0.1']
  await run('openssl', ['req', '-x509', ...kind, '-keyout', key, '-out', cert, '-days', '2', ...subject])
  const texts = { cert: await readFile(cert, 'utf8'), key: await readFile(key, 'utf8') }
  await rm(folder, { recursive: true })
  return texts
}

describeWithMongo('a server behind TLS', mongo => {
  let server: { cert: string; key: string }
  let ours: { cert: string; key: string }
  let listener: Server
  let url: string

  beforeAll(async () => {
    server = await certificateOf('server')
    ours = await certificateOf('writer')
    listener = createServer({ ...server, requestCert: true, rejectUnauthorized: true, ca: ours.cert }, client => {
      const upstream = connect(Number(new URL(mongo.url).port), '127.0.0.1')
      client.on('error', () => upstream.destroy())
      upstream.on('error', () => client.destroy())
      client.pipe(upstream).pipe(client)
    }).listen(0, '127.0.0.1')
    await once(listener, 'listening')
    url = `mongodb://127.0.0.1:${(listener.address() as { port: number }).port}/tls`
  })
  afterAll(() => listener.close())

  async function stored(tls: TlsFiles, parameters = ''): Promise<unknown> {
    const options = optionsOf(`${url}${parameters}`, { connectTimeoutMs: 5_000 })
    const connection = await openConnection(options, 'test', tls)
    try {
      const sink = await withNumbers(openSink({ connection, options, logs: [identity] }))
      const [counts] = await sink.write(sink.encode(plainBatch(0, 2)), async () => undefined, new AbortController().signal)
      await sink.close()
      return counts!.received
    } catch (error) {
      return error
    } finally {
      await connection.close()
    }
  }

  test('with its CA and a client certificate, rows are stored', async () => {
    expect(await stored({ ca: server.cert, ...ours })).toBe(2)
  })

  test.each([
    ['without its authority', () => ours, '?tls=true', /certificate/],
    ['without a certificate of ours', () => ({ ca: server.cert }), '', /certificate|closed|ECONNRESET|EPIPE|selection/],
    ['without TLS', () => ({}), '', /selection|closed|timed out|ECONNRESET/],
  ])('%s nothing is stored, and the error is transient', async (_what, tls, parameters, says) => {
    const thrown = await stored(tls(), parameters)
    expect([classify(thrown), String(thrown)]).toEqual(['transient', expect.stringMatching(says)])
  })
})
