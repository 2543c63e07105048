// Publishing with a certificate instead of a key: over TLS, or through a proxy that sends it as `Client-Cert` (RFC 9440).

import { X509Certificate } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { request } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { connect as connectTls } from 'node:tls'
import mqtt from 'mqtt'
import { Registry } from 'prom-client'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { cacheAccess } from '../../../control-plane/access/cache.ts'
import { type AccessChange, type AccessControl, AccessUnavailableError } from '../../../control-plane/client.ts'
import { createServer, type ServerOptions } from '../../../http/server.ts'
import { openIngestMetrics } from '../../../pipeline/ingest/metrics.ts'
import { ingestRoutes } from '../../../pipeline/ingest/routes.ts'
import type { OutgoingMessage } from '../../../pipeline/log.ts'
import { openssl } from '../../control-plane/certificates/openssl.ts'
import { describePlatform, recordingLogger } from '../../control-plane/platform.ts'
import { temporaryFolder } from '../../temporary-folder.ts'
import { type Answer, call, makeSite, type Site } from '../../up/operator.ts'
import { openSite as openMqttSite, openWebSockets } from '../mqtt/site.ts'
import {
  type Device,
  endsWithinASecond,
  fixture,
  type Headers,
  openDevice as openDeviceOn,
  type Published,
  publish,
  type Shown,
} from './device.ts'
import { unlimited } from './site.ts'

const serverTls = { cert: fixture('server'), key: fixture('server-key'), asksForCertificate: true }
const headerOf = ({ cert }: Pick<Shown, 'cert'>): Headers => ({
  'client-cert': `:${new X509Certificate(cert).raw.toString('base64')}:`,
})

describePlatform('certificates of devices', platform => {
  let site: Site
  let accepted: OutgoingMessage[]
  beforeEach(async () => {
    site = await makeSite(platform().url)
    accepted = []
  })
  const ask = (method: string, path: string, body?: object): Promise<Answer> =>
    call(platform().url, method, path, { authorization: site.owner, ...(body === undefined ? {} : { body }) })

  async function issue(body: object = {}, thing = site.thing): Promise<Shown & { readonly serial: string }> {
    const { json } = await ask('POST', '/certs', { thing_id: thing, key_type: 'ec', ...body })
    return { cert: String(json!['ClientCert']), key: String(json!['ClientKey']), serial: String(json!['Serial']) }
  }
  const revoke = (serial: string): Promise<Answer> => ask('DELETE', '/certs/revoke', { thing_id: site.thing, serial })

  /** Ingest on its own port, with the platform's access control. */
  async function openIngest(
    clientCertificates: 'none' | 'tls' | 'header',
    server: Partial<ServerOptions>,
    control: AccessControl = platform().plane.access,
  ): Promise<number> {
    const access = cacheAccess(control, { lifetimeMs: 60_000, entriesMax: 100 })
    const app = createServer({ logger: recordingLogger().logger, ...server })
    const log = {
      name: 'log',
      id: '',
      append: async (messages: readonly OutgoingMessage[]) => {
        accepted.push(...messages)
        return messages.map((_, nth) => ({ partition: 0, offset: nth }))
      },
      close: async () => undefined,
    }
    const options = { payloadBytesMax: 1000, linesMax: 1, ...unlimited, clientCertificates }
    await app.register(ingestRoutes({ log, logLabel: () => '1', access, metrics: openIngestMetrics(new Registry()), options }))
    await app.listen({ host: '127.0.0.1', port: 0 })
    onTestFinished(async () => {
      await app.close()
      access.close()
    })
    return (app.server.address() as AddressInfo).port
  }
  const openTls = (control?: AccessControl): Promise<number> => openIngest('tls', { tls: serverTls }, control)

  const openDevice = (port: number, shown: Shown | undefined): Device => openDeviceOn(port, site.channel, shown)
  const publishPlain = (port: number, headers: Headers): Promise<Published> => publish(request, { port }, site.channel, headers)

  test('over TLS a thing publishes with its certificate to the channels that it is connected to', async () => {
    const device = openDevice(await openTls(), await issue())
    expect((await device.publish()).status).toBe(202)
    expect(accepted).toMatchObject([{ channel: site.channel, publisher: site.thing }])
    const other = (await ask('POST', '/channels/bulk', [{ name: 'other' }])).json!['channels'] as [{ id: string }]
    expect((await device.publish({}, other[0].id)).status).toBe(403)
  })

  test('without a certificate a key is required, and with one the header Authorization takes precedence', async () => {
    const port = await openTls()
    const shown = await issue()
    expect((await openDevice(port, undefined).publish()).status).toBe(401)
    expect((await openDevice(port, undefined).publish({ authorization: site.device })).status).toBe(202)
    expect((await openDevice(port, shown).publish({ authorization: 'Thing x' })).status).toBe(401)
    expect((await openDevice(port, shown).publish({ authorization: site.owner })).status).toBe(401)
    await revoke(shown.serial)
    expect((await openDevice(port, shown).publish({ authorization: site.device })).status).toBe(202)
  })

  test('a revoked certificate is refused immediately, its open connection is closed within a second, and one with another certificate of the thing stays open', async () => {
    const port = await openTls()
    const shown = await issue()
    const [device, other] = [openDevice(port, shown), openDevice(port, await issue())]
    expect([await device.publish(), await other.publish()]).toMatchObject([{ status: 202 }, { status: 202 }])
    const [socket, stays] = [device.socket(), other.socket()]
    expect((await revoke(shown.serial)).status).toBe(200)
    await endsWithinASecond(socket)
    expect(await device.publish()).toEqual({ status: 401, detail: expect.stringMatching(/revoked.*POST \/certs/) })
    expect((await other.publish()).status).toBe(202)
    expect(other.socket()).toBe(stays)
  })

  test('if a certificate is revoked in the middle of a body, the connection is closed within a second and the message is refused', async () => {
    const { access } = platform().plane
    let answered = 0
    let watches = (): void => undefined
    const watched = new Promise<void>(resolve => (watches = resolve))
    const port = await openTls({
      // Called for the request, and again when its connection is watched.
      authorize: request => access.authorize(request).finally(() => ++answered === 2 && watches()),
      deletedChannels: channels => access.deletedChannels(channels),
      onChange: listener => access.onChange(listener),
    })
    const shown = await issue()
    const socket = connectTls({ port, host: '127.0.0.1', ca: fixture('ca'), ...shown })
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => undefined)
    const head = `POST /channels/${site.channel}/messages HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/senml+json\r\nContent-Length: 18`
    socket.write(`${head}\r\n\r\n[{"n":"t",`)
    await watched
    expect((await revoke(shown.serial)).status).toBe(200)
    await endsWithinASecond(socket)
    expect(accepted).toEqual([])
  })

  test('a resumed session also has its certificate: if it was revoked meanwhile, it is refused', async () => {
    const shown = await issue()
    const device = openDevice(await openTls(), shown)
    expect([await device.publishAndClose(), await device.publishAndClose()]).toEqual([
      [202, false],
      [202, true],
    ])
    await revoke(shown.serial)
    expect(await device.publishAndClose()).toEqual([401, true])
  })

  test('a connection without a TLS handshake is closed', async () => {
    const port = await openIngest('tls', { tls: serverTls, requestTimeoutMs: 1_000 })
    const socket = connect({ port, host: '127.0.0.1' }).resume()
    onTestFinished(() => void socket.destroy())
    socket.on('error', () => undefined)
    await once(socket, 'close')
  })

  test('deleting the thing closes the connection', async () => {
    const device = openDevice(await openTls(), await issue())
    await device.publish()
    const socket = device.socket()
    expect((await ask('DELETE', `/things/${site.thing}`)).status).toBe(204)
    await endsWithinASecond(socket)
    expect((await device.publish()).status).toBe(401)
  })

  test('a certificate is accepted until it expires, also if its grant is cached', async () => {
    const port = await openTls()
    let device: Device
    const publishFirst = async (): Promise<number | undefined> => {
      device = openDevice(port, await issue({ ttl: '2s' }))
      return (await device.publish()).status
    }
    // On a busy machine it may have expired before; then another one is issued.
    await expect.poll(publishFirst).toBe(202)
    await expect.poll(async () => (await device.publish()).status).toBe(401)
  })

  test("a certificate of another authority is refused, although it has the thing's name and the serial of a valid one", async () => {
    const { serial } = await issue()
    const key = `${temporaryFolder()}/key.pem`
    const newKey = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes', '-keyout', key]
    const made = await openssl(['req', '-x509', ...newKey, '-subj', `/CN=${site.thing}`, '-set_serial', `0x${serial}`, '-days', '1'])
    const cert = /-----BEGIN CERT[\s\S]+CERTIFICATE-----\n/.exec(made.output)![0]
    expect(new X509Certificate(cert).serialNumber.toLowerCase()).toBe(serial)
    const answer = await openDevice(await openTls(), { cert, key: readFileSync(key, 'utf8') }).publish()
    expect(answer).toEqual({ status: 401, detail: expect.stringContaining('not issued by this platform') })
  })

  test('after missed changes open connections are checked, and closed if they are refused or there is no answer', async () => {
    const { access } = platform().plane
    let isAway = false
    const listeners: ((change: AccessChange) => void)[] = []
    const missChanges = (): void => listeners.forEach(listener => listener({ kind: 'unheard' }))
    const port = await openTls({
      authorize: request => (isAway ? Promise.reject(new AccessUnavailableError('away')) : access.authorize(request)),
      deletedChannels: channels => access.deletedChannels(channels),
      onChange: listener => (listeners.push(listener), () => undefined),
    })
    const shown = await issue()
    const [device, other] = [openDevice(port, shown), openDevice(port, await issue())]
    await device.publish()
    await other.publish()
    const [socket, stays] = [device.socket(), other.socket()]
    await revoke(shown.serial)
    missChanges()
    await endsWithinASecond(socket)
    expect(stays.destroyed).toBe(false)
    isAway = true
    missChanges()
    await endsWithinASecond(stays)
  })

  test('a trusted proxy sends the certificate in the header Client-Cert', async () => {
    const port = await openIngest('header', { trustedProxies: ['127.0.0.1'] })
    const shown = await issue()
    expect((await publishPlain(port, headerOf(shown))).status).toBe(202)
    expect(accepted).toMatchObject([{ publisher: site.thing }])
    expect((await publishPlain(port, { ...headerOf(shown), authorization: 'Thing x' })).status).toBe(401)
    await revoke(shown.serial)
    expect((await publishPlain(port, headerOf(shown))).status).toBe(401)
    expect((await publishPlain(port, { ...headerOf(shown), authorization: site.device })).status).toBe(202)
  })

  test.each(['', '::', ':AAAA:', 'MIIB', ':%:', '-----BEGIN%20CERTIFICATE-----', 'twice'])(
    'the header Client-Cert with %j is refused with a description of its format',
    async text => {
      const port = await openIngest('header', { trustedProxies: ['127.0.0.1'] })
      const { 'client-cert': good = '' } = headerOf(await issue())
      const answer = await publishPlain(port, { 'client-cert': text === 'twice' ? `${good}, ${good}` : text })
      expect(answer).toEqual({ status: 401, detail: expect.stringContaining('RFC 9440') })
    },
  )

  test.each<[string, string[]]>([
    ['not trusted', ['10.0.0.0/8']],
    ['not trusted, without trusted proxies', []],
  ])('from an address that is %s the header is refused', async (_name, trustedProxies) => {
    const port = await openIngest('header', { trustedProxies })
    const shown = await issue()
    const forwarded = { ...headerOf(shown), 'x-forwarded-for': '10.0.0.1' }
    expect(await publishPlain(port, forwarded)).toEqual({ status: 401, detail: expect.stringContaining('http.trusted_proxies') })
    expect((await publishPlain(port, { ...forwarded, authorization: site.device })).status).toBe(202)
  })

  test('the header is refused if certificates are accepted over TLS only, and both if they are not accepted at all', async () => {
    const shown = await issue()
    const overTls = openDevice(await openIngest('tls', { tls: serverTls, trustedProxies: ['127.0.0.1'] }), undefined)
    expect((await overTls.publish(headerOf(shown))).status).toBe(401)
    const port = await openIngest('none', { tls: serverTls, trustedProxies: ['127.0.0.1'] })
    expect((await openDevice(port, shown).publish(headerOf(shown))).status).toBe(401)
  })

  const ways = ['TCP', 'WebSocket', 'WebSocket through a proxy'] as const
  type Way = (typeof ways)[number]

  async function openMqtt(way: Way) {
    const webSocketCertificates = way === 'WebSocket' ? 'tls' : 'header'
    const mqttSite = await openMqttSite({ tls: serverTls, webSocketCertificates, access: platform().plane.access })
    const server = way === 'WebSocket' ? { tls: serverTls } : { trustedProxies: ['127.0.0.1'] }
    const url = way === 'TCP' ? `mqtts://127.0.0.1:${mqttSite.port}` : await openWebSockets(mqttSite, server)
    return {
      site: mqttSite,
      connect: async (shown: Shown) => {
        const throughProxy =
          way === 'WebSocket through a proxy' ? { wsOptions: { headers: headerOf(shown) } } : { ca: fixture('ca'), ...shown }
        const client = await mqtt.connectAsync(url, { protocolVersion: 5, reconnectPeriod: 0, keepalive: 0, ...throughProxy }, false)
        onTestFinished(() => client.endAsync(true))
        return client
      },
    }
  }

  test.each(ways)('MQTT over %s: a thing connects with its certificate until that is revoked, which ends its connection', async way => {
    const { site: mqttSite, connect } = await openMqtt(way)
    const shown = await issue()
    const [client, other] = [await connect(shown), await connect(await issue())]
    await client.publishAsync(`channels/${site.channel}/messages`, '[{"n":"t","v":1}]', { qos: 1 })
    expect(mqttSite.log.messages).toMatchObject([{ channel: site.channel, publisher: site.thing }])
    const ended = new Promise(resolve => client.on('disconnect', ({ reasonCode }) => resolve(reasonCode)))
    await revoke(shown.serial)
    await endsWithinASecond(client.stream)
    expect(await ended).toBe(0x87)
    await expect(connect(shown)).rejects.toMatchObject({ code: 0x87 })
    await other.publishAsync(`channels/${site.channel}/messages`, '[{"n":"t","v":1}]', { qos: 1 })
  })

  test('MQTT: a certificate that expires ends its connection', async () => {
    const { site: mqttSite, connect } = await openMqtt('TCP')
    let client: mqtt.MqttClient
    // On a busy machine it may have expired before; then another one is issued.
    await expect.poll(async () => void (client = await connect(await issue({ ttl: '2s' })))).toBeUndefined()
    const ended = new Promise(resolve => client.on('disconnect', ({ reasonCode }) => resolve(reasonCode)))
    await expect
      .poll(() => {
        // The last timer is that of the certificate, which begins again until it has expired.
        mqttSite.timers.at(-1)!.fire()
        return client.disconnecting || !client.connected
      })
      .toBe(true)
    expect(await ended).toBe(0x87)
  })

  test('an invalid certificate is limited after twenty failures within a minute', async () => {
    const port = await openIngest('header', { trustedProxies: ['127.0.0.1'] })
    const shown = await issue()
    await revoke(shown.serial)
    const headers = { ...headerOf(shown), 'x-forwarded-for': '192.0.2.77' }
    for (let nth = 0; nth < 20; nth++) expect((await publishPlain(port, headers)).status).toBe(401)
    expect(await publishPlain(port, headers)).toEqual({ status: 429, detail: expect.stringContaining('this invalid certificate') })
  })
})
