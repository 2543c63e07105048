// What each answer of InfluxDB means, provoked on the real server; and, on small servers of the tests' own, what a real one says seldom.

import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { openConnection } from '../../../sinks/influxdb/connection.ts'
import { classify } from '../../../sinks/influxdb/errors.ts'
import type { SinkOptions } from '../../../sinks/influxdb/options.ts'
import { readLogs } from '../../../sinks/influxdb/registry.ts'
import { openSink } from '../../../sinks/influxdb/sink.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { describeWithOwnInflux, startInflux } from '../../servers/influx.ts'
import { batchOf, plainBatch } from '../batches.ts'
import { defaults, openStore } from './store.ts'

const signal = new AbortController().signal
const identity = { logName: 'messages', logId: 'id-1', writer: 'writer-1' }

async function openingOf(options: SinkOptions): Promise<{ errorClass: string; message: string }> {
  const connection = await openConnection(options, 'test')
  try {
    await withNumbers(openSink({ connection, options, logs: [identity] }))
    return { errorClass: 'none', message: 'it was opened' }
  } catch (error) {
    return { errorClass: classify(error), message: (error as Error).message }
  } finally {
    await connection.close()
  }
}

/** Answers in turn: the first request by the first, and so on; the last one again and again. */
async function serverOf(answers: readonly ((request: IncomingMessage, response: ServerResponse) => void)[]) {
  const asked: number[] = []
  const server = createServer((request, response) => {
    asked.push(performance.now())
    request.resume()
    request.on('end', () => answers[Math.min(asked.length, answers.length) - 1]!(request, response))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    asked,
    options: { ...defaults, url: `http://127.0.0.1:${port}/?org=o&bucket=b`, token: 'geheim' },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections()
      server.close()
      await once(server, 'close')
    },
  }
}

const says =
  (status: number, body = '', headers: Record<string, string> = {}) =>
  (_request: IncomingMessage, response: ServerResponse): void =>
    void response.writeHead(status, headers).end(body)

const gzipped = new Uint8Array(0)

describeWithOwnInflux('on the real server', influx => {
  const optionsOf = (more: Partial<SinkOptions> = {}, query = `org=${influx.org}&bucket=errors`): SinkOptions => ({
    ...defaults,
    url: `${influx.url}/?${query}`,
    token: influx.token,
    ...more,
  })

  test.each([
    [
      'an unknown token',
      { token: 'geheim' },
      undefined,
      /does not know the token \(401 .*unauthorized access\): correct store\.token \(SVC_TIMESERIES_TOKEN\)$/,
    ],
    [
      'an unknown organisation',
      {},
      'org=nobody&bucket=b',
      /no organisation "nobody" .*\(404 .*organization name "nobody" not found\): correct org in store\.url \(SVC_TIMESERIES_URL\)$/,
    ],
  ])('%s is systemic, and the error does not contain the token', async (_what, more, query, message) => {
    const found = await openingOf(optionsOf(more, query))
    expect(found).toEqual({ errorClass: 'systemic', message: expect.stringMatching(message) as string })
    expect(found.message).not.toContain('geheim')
  })

  test('missing buckets are created, with shards of 28 days, and the registry keeps everything', async () => {
    expect(await openingOf(optionsOf({ retentionDays: 60 }))).toMatchObject({ errorClass: 'none' })
    const found = await fetch(`${influx.url}/api/v2/buckets?org=${influx.org}`, { headers: { authorization: `Token ${influx.token}` } })
    const { buckets } = (await found.json()) as { buckets: { name: string; retentionRules: object[] }[] }
    const rulesOf = (name: string) => buckets.find(bucket => bucket.name === name)!.retentionRules[0]
    expect(rulesOf('errors')).toMatchObject({ everySeconds: 60 * 86_400, shardGroupDurationSeconds: 15 * 86_400 })
    expect(rulesOf('errors_sluice')).toMatchObject({ everySeconds: 0, shardGroupDurationSeconds: 28 * 86_400 })
  })

  test('missing buckets that may not be created are systemic, and so are buckets that may not be written', async () => {
    const headers = { authorization: `Token ${influx.token}`, 'content-type': 'application/json' }
    const orgs = (await (await fetch(`${influx.url}/api/v2/orgs?org=${influx.org}`, { headers })).json()) as { orgs: { id: string }[] }
    const orgID = orgs.orgs[0]!.id
    const permissions = [
      { action: 'read', resource: { type: 'buckets', orgID } },
      { action: 'read', resource: { type: 'orgs', id: orgID } },
    ]
    const made = await fetch(`${influx.url}/api/v2/authorizations`, {
      method: 'POST',
      headers,
      body: JSON.stringify({ orgID, permissions }),
    })
    const { token } = (await made.json()) as { token: string }
    expect(await openingOf(optionsOf({ token }, `org=${influx.org}&bucket=missing`))).toEqual({
      errorClass: 'systemic',
      message: expect.stringMatching(
        /the bucket "missing_sluice" is missing .* create it, or give the token in store\.token \(SVC_TIMESERIES_TOKEN\)/,
      ) as string,
    })
    await openingOf(optionsOf({}, `org=${influx.org}&bucket=readable`))
    expect(await openingOf(optionsOf({ token }, `org=${influx.org}&bucket=readable`)).then(({ errorClass }) => errorClass)).toBe('none')
    const connection = await openConnection(optionsOf({ token }, `org=${influx.org}&bucket=readable`), 'test')
    const sink = await withNumbers(openSink({ connection, options: optionsOf(), logs: [identity] }))
    const error = await sink.write(sink.encode(plainBatch(0, 1)), async () => undefined, signal).catch((error: unknown) => error)
    expect([classify(error), (error as Error).message]).toEqual([
      'systemic',
      expect.stringMatching(/403 .*insufficient permissions.*store\.token \(SVC_TIMESERIES_TOKEN\).*write permission on both/),
    ])
    await connection.close()
  })

  test('a registry with a retention is systemic', async () => {
    const store = await openStore(influx)
    const { orgs } = await store.connection.ask<{ orgs: { id: string }[] }>('GET', '/api/v2/orgs', { org: influx.org })
    const body = { orgID: orgs[0]!.id, name: store.connection.registryBucket, retentionRules: [{ type: 'expire', everySeconds: 86_400 }] }
    await store.connection.ask('POST', '/api/v2/buckets', {}, body)
    await expect(store.open()).rejects.toThrow(/deletes what is older than 1 days, but it contains the registry/)
    await store.close()
  })

  test('a bucket that was deleted is systemic', async () => {
    const store = await openStore(influx)
    const sink = await store.open()
    const { buckets } = await store.connection.ask<{ buckets: { id: string }[] }>('GET', '/api/v2/buckets', {
      org: influx.org,
      name: store.connection.bucket,
    })
    await fetch(`${influx.url}/api/v2/buckets/${buckets[0]!.id}`, { method: 'DELETE', headers: { authorization: `Token ${influx.token}` } })
    const error = await sink.write(sink.encode(plainBatch(0, 1)), async () => undefined, signal).catch((error: unknown) => error)
    expect([sink.classify(error), (error as Error).message]).toEqual([
      'systemic',
      expect.stringMatching(/no bucket "test-.*" .*\(404 .*bucket .* not found\): correct bucket in store.url/),
    ])
    await store.close()
  })

  test('a query for a missing organisation is systemic, and the error names it', async () => {
    const connection = await openConnection(optionsOf({}, 'org=nobody&bucket=b'), 'test')
    const error = await readLogs(connection).catch((error: unknown) => error)
    expect([classify(error), (error as Error).message]).toEqual([
      'systemic',
      expect.stringMatching(/no organisation "nobody" .*\(400 to POST \/api\/v2\/query: .*correct org in store.url/),
    ])
    await connection.close()
  })

  test('a retention that the token may not set is a notice, and the sink opens', async () => {
    const headers = { authorization: `Token ${influx.token}`, 'content-type': 'application/json' }
    const store = await openStore(influx)
    await store.open()
    const { orgs } = await store.connection.ask<{ orgs: { id: string }[] }>('GET', '/api/v2/orgs', { org: influx.org })
    const permissions = []
    for (const name of [store.connection.bucket, store.connection.registryBucket]) {
      const found = await store.connection.ask<{ buckets: { id: string }[] }>('GET', '/api/v2/buckets', { org: influx.org, name })
      const resource = { type: 'buckets', id: found.buckets[0]!.id, orgID: orgs[0]!.id }
      permissions.push({ action: 'read', resource })
      if (name !== store.connection.bucket) permissions.push({ action: 'write', resource })
    }
    const body = JSON.stringify({ orgID: orgs[0]!.id, permissions })
    const made = await fetch(`${influx.url}/api/v2/authorizations`, { method: 'POST', headers, body })
    const { token } = (await made.json()) as { token: string }
    const options = { ...store.options, token, retentionDays: 30 }
    const connection = await openConnection(options, 'test')
    const notices: string[] = []
    await withNumbers(openSink({ connection, options, logs: [identity], onNotice: sentence => void notices.push(sentence) }))
    expect(notices).toEqual([expect.stringMatching(/keeps everything, and store.retention_days is 30, which the token may not set/)])
    await Promise.all([connection.close(), store.close()])
  })
})

describe('on a server of the tests', () => {
  test.each([429, 503])('%i is transient, and nothing is sent before the time in Retry-After', async status => {
    await using server = await serverOf([says(status, '{"code":"unavailable","message":"later"}', { 'retry-after': '1' }), says(204)])
    const connection = await openConnection(server.options, 'test')
    const error = await connection.write('b', gzipped).catch((error: unknown) => error)
    expect([classify(error), (error as Error).message]).toEqual([
      'transient',
      expect.stringContaining(`${status} to POST /api/v2/write: later`),
    ])
    await connection.write('b', gzipped)
    expect(server.asked[1]! - server.asked[0]!).toBeGreaterThanOrEqual(990)
    await connection.close()
  })

  test('Retry-After as a date, and a writer that stops meanwhile', async () => {
    const timestamp = new Date(Date.now() + 100_000).toUTCString()
    await using server = await serverOf([says(503, '', { 'retry-after': timestamp })])
    const connection = await openConnection(server.options, 'test')
    await connection.write('b', gzipped).catch(() => undefined)
    const stopping = new AbortController()
    const waiting = connection.write('b', gzipped, stopping.signal).catch((error: unknown) => error)
    stopping.abort()
    expect(classify(await waiting)).toBe('transient')
    expect(server.asked).toHaveLength(1)
    await connection.close()
  })

  test.each([
    [408, 'transient'],
    [500, 'transient'],
    [502, 'transient'],
    [599, 'transient'],
    [302, 'systemic'],
    [405, 'systemic'],
    [501, 'systemic'],
  ])('%i is %s', async (status, meaning) => {
    await using server = await serverOf([says(status, '<html>')])
    const connection = await openConnection(server.options, 'test')
    expect(classify(await connection.write('b', gzipped).catch((error: unknown) => error))).toBe(meaning)
    await connection.close()
  })

  test('a server that is down, that hangs up, or that does not speak HTTP', async () => {
    const nobody = await openConnection({ ...defaults, url: 'http://127.0.0.1:9/?org=o&bucket=b', token: 'geheim' }, 'test')
    const refused = await nobody.write('b', gzipped).catch((error: unknown) => error)
    expect([classify(refused), (refused as Error).message]).toEqual([
      'transient',
      expect.stringMatching(/127.0.0.1:9 cannot be reached \(ECONNREFUSED/),
    ])
    await nobody.close()
    await using rude = await serverOf([request => request.socket.destroy()])
    const cut = await openConnection(rude.options, 'test')
    expect(classify(await cut.write('b', gzipped).catch((error: unknown) => error))).toBe('transient')
    await cut.close()
    await using odd = await serverOf([request => request.socket.end('SSH-2.0\r\n')])
    const foreign = await openConnection(odd.options, 'test')
    const error = await foreign.write('b', gzipped).catch((error: unknown) => error)
    expect([classify(error), (error as Error).message]).toEqual([
      'systemic',
      expect.stringMatching(/no connection to InfluxDB at .* http or https/),
    ])
    await foreign.close()
  })
})

describeWithOwnInflux('a body that is too large', influx => {
  test('is halved, and a single line that is too large is rejected', async () => {
    // influxd itself has no such limit; a proxy before it may.
    const refusing = createServer((request, response) => {
      const chunks: Buffer[] = []
      request.on('data', (chunk: Buffer) => chunks.push(chunk))
      request.on('end', () => {
        const body = Buffer.concat(chunks)
        if (request.url!.startsWith('/api/v2/write') && body.length > 400) {
          response.writeHead(413).end('too large')
          return
        }
        const { host: _, connection: __, ...headers } = request.headers as Record<string, string>
        void fetch(influx.url + request.url!, { method: request.method!, headers, ...(body.length === 0 ? {} : { body }) }).then(
          async answer => {
            response.writeHead(answer.status, { 'content-type': 'text/plain' })
            response.end(Buffer.from(await answer.arrayBuffer()))
          },
        )
      })
    })
    refusing.listen(0, '127.0.0.1')
    await once(refusing, 'listening')
    const { port } = refusing.address() as AddressInfo
    const store = await openStore(influx, { proxy: { port, cut: () => undefined } as never })
    const sink = await store.open()
    const random = Buffer.from(Array.from({ length: 3000 }, (_, at) => (at * 7919 + (at >> 3) * 104_729) % 251)).toString('base64')
    const messages = Array.from({ length: 40 }, (_, offset) => ({
      offset,
      records: [{ value: offset }, ...(offset === 20 ? [{ stringValue: random }] : [])],
    }))
    const rejections: object[] = []
    const [counts] = await sink.write(sink.encode(batchOf(0, 40, messages)), async some => void rejections.push(...some), signal)
    expect(counts).toMatchObject({ stored: 39, deadLettered: 1 })
    expect(rejections).toEqual([expect.objectContaining({ partial: true, message: 20, record: 1, rule: 'store-refused' })])
    // Its first record was in another body, or in the other half of one.
    expect(await store.rows()).toHaveLength(40)
    await store.close()
    refusing.closeAllConnections()
    refusing.close()
  })
})

describe('TLS', () => {
  test('accepts its own CA, and no other', { timeout: 1_800_000 }, async () => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-tls-'))
    const [key, cert] = [join(folder, 'key.pem'), join(folder, 'cert.pem')]
    const subject = ['-subj', '/CN=localhost', '-addext', 'subjectAltName=DNS:localhost,IP:127.0.0.1', '-days', '2', '-nodes']
    execFileSync(
      'openssl',
      ['req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-keyout', key, '-out', cert, ...subject],
      {
        stdio: 'pipe',
      },
    )
    const influx = await startInflux({ tls: { key, cert, ca: readFileSync(cert, 'utf8') } })
    try {
      const options: SinkOptions = { ...defaults, url: `${influx.url}/?org=${influx.org}&bucket=${influx.bucket}`, token: influx.token }
      const connection = await openConnection(options, 'test', { ca: readFileSync(cert, 'utf8') })
      const sink = await withNumbers(openSink({ connection, options, logs: [identity] }))
      await sink.write(sink.encode(plainBatch(0, 1)), async () => undefined, signal)
      await connection.close()
      expect(await openingOf(options)).toEqual({
        errorClass: 'systemic',
        message: expect.stringMatching(/no connection to InfluxDB at .*SELF_SIGNED_CERT.* store.ca_file/) as string,
      })
      const plain = await openingOf({ ...options, url: options.url.replace('https', 'http') })
      expect(plain).toEqual({
        errorClass: 'systemic',
        message: expect.stringMatching(/use https in store\.url \(SVC_TIMESERIES_URL\)$/) as string,
      })
    } finally {
      await influx.stop()
      rmSync(folder, { recursive: true })
    }
  })
})
