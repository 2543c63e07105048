// Sluice behind nginx and HAProxy with the files of deploy/proxies: what reaches it, what stays outside, and who the client is.

import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request } from 'node:https'
import { text } from 'node:stream/consumers'
import { connect } from 'node:tls'
import mqtt from 'mqtt'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { firstOf } from '../depth.ts'
import { fixture, type Headers, openDevice, type Shown } from '../pipeline/ingest/device.ts'
import { describeUnlessMissing } from '../servers/describe-with.ts'
import { call, expectStatus, makeSite, type Site } from '../up/operator.ts'
import { administrator, type Platform, startedFolder, startPlatform } from '../up/platform.ts'
import { type Edge, kinds, type RoleName, startEdge } from './edge.ts'

const pack = '[{"n":"t","v":1}]'
const senml = { 'content-type': 'application/senml+json' }
const messages = '/channels/CHANNEL/messages'

describe('behind a reverse proxy', () => {
  let folder: Awaited<ReturnType<typeof startedFolder>>
  let platform: Platform
  let site: Site
  let authority: string
  /** The administrator's token. */
  let chief: string
  beforeAll(async () => {
    folder = await startedFolder()
    const environment = { SVC_HTTP_TRUSTED_PROXIES: '127.0.0.1', SVC_INGEST_CLIENT_CERTIFICATES: 'header' }
    platform = await startPlatform({ data: folder.path, environment })
    site = await makeSite(platform.url)
    authority = (await issue()).authority
    chief = `Bearer ${String((await call(platform.url, 'POST', '/tokens', { body: administrator })).json!['token'])}`
  })
  afterAll(async () => {
    expect(await platform?.stop()).toBe(0)
    await folder[Symbol.asyncDispose]()
  })

  async function issue({ thing, owner } = site): Promise<Shown & { readonly authority: string; readonly header: string }> {
    const body = { thing_id: thing, key_type: 'ec' }
    const { json } = await expectStatus(call(platform.url, 'POST', '/certs', { authorization: owner, body }), 201)
    const cert = String(json!['ClientCert'])
    const header = `:${new X509Certificate(cert).raw.toString('base64')}:`
    return { cert, key: String(json!['ClientKey']), authority: String(json!['IssuingCA']), header }
  }

  describe.each(Object.entries(kinds))('%s', (name, kind) =>
    describeUnlessMissing(name, kind.missing(), () => {
      let edge: Edge
      beforeAll(async () => {
        edge = await startEdge(kind, Number(new URL(platform.url).port), authority)
      })
      afterAll(() => edge?.stop())

      /** Resolves with the head of the answer. @param body null sends only the head */
      async function send(
        method: string,
        path: string,
        headers: Headers = {},
        body: string | null = '',
        more = {},
      ): Promise<IncomingMessage> {
        const to = { host: '127.0.0.1', port: edge.port, ca: fixture('ca'), agent: false, path: path.replace('CHANNEL', site.channel) }
        const sent = request({ ...to, method, headers, ...more })
        onTestFinished(() => void sent.destroy())
        if (body === null) sent.flushHeaders()
        else sent.end(body)
        const [answer] = (await once(sent, 'response')) as [IncomingMessage]
        // When the test ends it.
        sent.on('error', () => undefined)
        return answer
      }
      const deviceHeaders = (): Headers => ({ ...senml, authorization: site.device })
      const linesHeaders = (): Headers => ({ ...deviceHeaders(), 'content-type': 'application/x-ndjson' })
      const ownerHeaders = (): Headers => ({ 'content-type': 'application/json', authorization: site.owner })

      test('a device publishes with its certificate, also in a resumed TLS session, and another one with its key', async () => {
        const device = openDevice(edge.port, site.channel, await issue())
        expect([await device.publishAndClose(), await device.publishAndClose()]).toEqual([
          [202, false],
          [202, true],
        ])
        expect((await openDevice(edge.port, site.channel, undefined).publish({ authorization: site.device })).status).toBe(202)
      })

      test('a header Client-Cert of a client is dropped: without a certificate, and beside that of another thing', async () => {
        const { header } = await issue()
        const forged = { 'client-cert': header, 'client-cert-chain': header }
        const unknown = await openDevice(edge.port, site.channel, undefined).publish(forged)
        expect(unknown).toEqual({ status: 401, detail: expect.not.stringContaining('Client-Cert') })
        const other = await issue(await makeSite(platform.url))
        expect((await openDevice(edge.port, site.channel, other).publish(forged)).status).toBe(403)
        // The header is good where it comes from a trusted proxy.
        const direct = await call(platform.url, 'POST', messages.replace('CHANNEL', site.channel), {
          headers: forged,
          type: 'application/senml+json',
          body: pack,
        })
        expect(direct.status).toBe(202)
      })

      test.each([4, 5] as const)('a device publishes and hears over WebSocket, with MQTT version %i', async protocolVersion => {
        const own = await makeSite(platform.url)
        const options = { protocolVersion, username: own.thing, password: own.device.replace('Thing ', ''), reconnectPeriod: 0 }
        const client = await mqtt.connectAsync(`wss://127.0.0.1:${edge.port}/mqtt`, { ...options, ca: fixture('ca') })
        onTestFinished(() => client.endAsync())
        const heard = new Promise(resolve => client.once('message', (topic, payload) => resolve([topic, payload.toString()])))
        const topic = `channels/${own.channel}/messages`
        await client.subscribeAsync(topic, { qos: 1 })
        await client.publishAsync(topic, pack, { qos: 1 })
        expect(await heard).toEqual([topic, pack])
      })

      test('an event of a live stream arrives while the stream is open', async () => {
        const answer = await send('GET', `${messages}/stream`, { authorization: site.owner, accept: 'text/event-stream' })
        expect([answer.statusCode, answer.headers['content-type']]).toEqual([200, 'text/event-stream'])
        let received = ''
        const arrived = new Promise<void>(resolve =>
          answer.setEncoding('utf8').on('data', (part: string) => {
            received += part
            if (received.includes('"Name":"live"')) resolve()
          }),
        )
        expect((await send('POST', messages, deviceHeaders(), '[{"n":"live","v":1}]')).statusCode).toBe(202)
        await arrived
        expect(answer.complete).toBe(false)
      })

      test.each([
        ['a request', '/things', 1_048_576, ownerHeaders, '{"name":"large"}', 201],
        ['many messages', messages, 1_048_576, linesHeaders, `{"payload":${pack}}`, 202],
      ])(
        'the body of %s may be as large as Sluice allows; a larger one is refused here',
        async (_name, path, bytes, headers, body, status) => {
          const fits = await send('POST', path, headers(), body.padEnd(bytes))
          const large = await send('POST', path, { ...headers(), 'content-length': String(bytes + 1) }, null)
          // Sluice gives each of its answers an id.
          expect([fits.statusCode, typeof fits.headers['x-request-id']]).toEqual([status, 'string'])
          expect([large.statusCode, large.headers['x-request-id']]).toEqual([413, undefined])
        },
      )

      test('a body in chunks that is too large gets 413', async () => {
        const headers = { ...deviceHeaders(), 'transfer-encoding': 'chunked' }
        expect((await send('POST', messages, headers, pack.padEnd(262_145))).statusCode).toBe(413)
      })

      const forged = { 'x-forwarded-for': '192.0.2.1', forwarded: 'for=192.0.2.1' }
      test.each<[string, Headers]>(
        firstOf([
          ['both headers of an address', forged],
          ['X-Forwarded-For', { 'x-forwarded-for': forged['x-forwarded-for'] }],
          ['Forwarded', { forwarded: forged.forwarded }],
          ['none', {}],
        ]),
      )('the client has its own address, if it sends %s', async (_name, headers) => {
        const from = { localAddress: '127.0.0.2' }
        const created = await send('POST', '/things', { ...ownerHeaders(), ...headers }, '{"name":"device"}', from)
        const id = created.headers.location!.replace('/things/', '')
        const audit = await call(platform.url, 'GET', `/audit?object=${id}`, { authorization: chief })
        expect(audit.json!['entries']).toMatchObject([{ action: 'thing.create', address: '127.0.0.2' }])
      })

      test('TLS 1.2 is refused', async () => {
        const socket = connect({ host: '127.0.0.1', port: edge.port, ca: fixture('ca'), maxVersion: 'TLSv1.2' })
        const [error] = (await once(socket, 'error')) as [Error]
        expect(error.message).toMatch(/protocol version/)
      })

      test.each<[string, string, RoleName]>([
        ['POST', messages, 'ingest'],
        ['POST', `/http${messages}/a/b`, 'ingest'],
        ['GET', messages, 'reader'],
        ['GET', `${messages}?limit=1`, 'reader'],
        ['GET', `${messages}/stream`, 'reader'],
        ['GET', '/channels/CHANNEL', 'api'],
        ['POST', '/things', 'api'],
        ['GET', '/messages?channel=CHANNEL', 'reader'],
        ['GET', '/channels/CHANNEL/formats', 'reader'],
        ['GET', '/messages/a', 'api'],
        ['GET', '/mqtt', 'ingest'],
        ['GET', '/mqtt/a', 'api'],
      ])('%s %s goes to %s', async (method, path, role) => {
        expect(await edge.roleOf(async () => text(await send(method, path)))).toBe(role)
      })

      test.each(['/metrics', '/metrics?a=b', '/http/metrics', '/%6detrics'])('GET %s is refused here', async path => {
        expect(await edge.roleOf(async () => expect((await send('GET', path)).statusCode).toBe(404))).toBeUndefined()
      })
    }),
  )
})
