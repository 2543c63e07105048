// Starting the roles as processes: what stops a start, and what a start waits for.

import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer as createHttpServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { openServer } from '../../database/server.ts'
import { inDepth } from '../depth.ts'
import { openSite } from '../readers/postgres/site.ts'
import { describeWithPostgres } from '../servers/postgres.ts'
import { freePort } from '../servers/process/free-port.ts'
import { openProxy } from '../servers/process/proxy.ts'
import { undocumentedMetrics } from '../tidy/metrics.ts'
import { call, expectStatus } from '../up/operator.ts'
import { promptStop } from '../up/platform.ts'
import {
  administrator,
  apiEnvironment,
  apiWords,
  ingestWords,
  internalAddress,
  masterKey,
  readerEnvironment,
  readerWords,
  spawnIngest,
  spawnRole,
  startApi,
  startIngest,
  token,
  untilPrinted,
  whenReady,
} from './processes.ts'

/** A failing check as shown to everyone. */
const away = expect.objectContaining({ status: 'fail', output: 'see the log' }) as unknown

/** The output of a start that must fail. */
async function failedStart(words: readonly string[], environment: Readonly<Record<string, string>>): Promise<string> {
  const { ended, printed } = spawnRole(words, environment)
  expect(await ended).toBe(1)
  expect(printed()).not.toMatch(/^\s+at /m)
  return printed()
}

describeWithPostgres('start of the roles', postgres => {
  test('four apis that start together on an empty database create the administrator once', async () => {
    const database = await postgres.createDatabase()
    const apis = await Promise.all([1, 2, 3, 4].map(() => startApi(database)))
    for (const { url } of apis) await expectStatus(call(url, 'POST', '/tokens', { body: administrator }), 201)
    expect(apis.filter(api => api.printed().includes('created the administrator'))).toHaveLength(1)
    for (const api of apis) expect(await api.stop()).toBe(0)
  })

  test('another master key than that of the database stops the start, and its text is not shown', async () => {
    const database = await postgres.createDatabase()
    await (await startApi(database)).stop()
    const wrong = Buffer.alloc(32, 8).fill(1, 4).toString('base64url')
    const said = await failedStart(apiWords, apiEnvironment(database, { SVC_MASTER_KEY: wrong }))
    expect(said).toMatch(/encrypted with another master key/)
    expect(said).not.toContain(wrong)
  })

  inDepth(() => {
    test('an api without a master key or a database names both; an invalid key is named too', async () => {
      const said = await failedStart(apiWords, {})
      expect(said).toMatch(/SVC_MASTER_KEY/)
      expect(said).toMatch(/SVC_DATABASE_URL/)
      expect(await failedStart(apiWords, apiEnvironment('postgres://127.0.0.1/x', { SVC_MASTER_KEY: 'no-key' }))).toMatch(
        /SVC_MASTER_KEY does not contain a master key/,
      )
    })
  })

  test('an internal listener that other machines can reach does not start without token or mutual TLS', async () => {
    const { SVC_CONTROL_TOKEN: _, ...environment } = apiEnvironment('postgres://127.0.0.1/x', { SVC_INTERNAL_LISTEN: '0.0.0.0:0' })
    expect(await failedStart(apiWords, environment)).toMatch(
      /internal\.listen: 0\.0\.0\.0:0 is reachable from other machines.*set SVC_CONTROL_TOKEN/,
    )
  })

  inDepth(() => {
    test('in production known secrets are refused', async () => {
      const environment = {
        SVC_ENV: 'production',
        SVC_CONTROL_TOKEN: 'changeme-changeme',
        SVC_ADMIN_PASSWORD: 'password1',
        SVC_MASTER_KEY: Buffer.alloc(32).toString('base64url'),
      }
      const said = await failedStart(apiWords, apiEnvironment('postgres://postgres:postgres@127.0.0.1/x', environment))
      for (const name of ['internal.token', 'admin.password', 'master_key', 'database.url']) {
        expect(said).toMatch(new RegExp(`${name}: with env = production it must not be a publicly known secret`))
      }
      expect(said).not.toMatch(/changeme|password1|postgres:postgres/)
    })
  })

  test('a missing database stops the start; one that is away is waited for', async () => {
    const database = new URL(await postgres.createDatabase())
    const absent = new URL(database)
    absent.pathname = '/absent'
    expect(await failedStart(apiWords, apiEnvironment(absent.href))).toMatch(
      /database does not exist \(SQLSTATE 3D000: .*set another one in database\.url \(SVC_DATABASE_URL\)/,
    )

    const proxy = await openProxy({ port: Number(database.port) })
    proxy.refuse()
    const behind = new URL(database)
    behind.port = String(proxy.port)
    const { child, printed, ended } = spawnRole(apiWords, apiEnvironment(behind.href))
    await untilPrinted({ printed }, /PostgreSQL is away .*: the start waits for it/)
    await proxy.heal()
    await untilPrinted({ printed }, /^ready on /m)
    child.kill('SIGTERM')
    expect(await ended).toBe(0)
    await proxy.close()
  })

  inDepth(() => {
    test('while its database is away an api listens, is alive and not ready, and answers 503; then it works', async () => {
      const database = new URL(await postgres.createDatabase())
      const proxy = await openProxy({ port: Number(database.port) })
      proxy.refuse()
      database.port = String(proxy.port)
      const [url, internal] = [await internalAddress(), await internalAddress()]
      const spawned = spawnRole(
        [...apiWords.slice(0, -1), url.split(':')[1]!],
        apiEnvironment(database.href, { SVC_INTERNAL_LISTEN: internal }),
      )
      await untilPrinted(spawned, /PostgreSQL is away .*: the start waits for it/)
      for (const base of [`http://${url}`, `http://${internal}`]) {
        expect((await call(base, 'GET', '/livez')).status).toBe(200)
        expect((await call(base, 'GET', '/readyz')).status).toBe(503)
        const { status, json } = await call(base, 'GET', '/health')
        expect([status, json]).toEqual([503, expect.objectContaining({ checks: expect.objectContaining({ database: [away] }) })])
      }
      const refused = await call(`http://${url}`, 'POST', '/tokens', { body: administrator })
      expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
      const request = { scheme: 'Thing', secret: 'x', channel: '0f8a6e7c-3c1b-4a55-9d0f-6f1f5a1f1c11', action: 'publish' }
      const asked = await call(`http://${internal}`, 'POST', '/internal/authorize', { authorization: `Bearer ${token}`, body: request })
      expect([asked.status, asked.headers.get('retry-after')]).toEqual([503, '1'])
      const metrics = await call(`http://${internal}`, 'GET', '/metrics')
      expect([metrics.status, undocumentedMetrics(metrics.text)]).toEqual([200, []])
      expect(spawned.printed()).not.toMatch(/^ready on /m)

      await proxy.heal()
      const api = await whenReady(spawned)
      expect((await call(api.url, 'GET', '/readyz')).status).toBe(200)
      await expectStatus(call(api.url, 'POST', '/tokens', { body: administrator }), 201)
      expect(await api.stop()).toBe(0)
      await proxy.close()
    })
  })

  inDepth(() => {
    test.each([
      // Its changes have a connection of their own.
      ['an api', apiWords, (port: number) => apiEnvironment(`postgres://127.0.0.1:${port}/x`), 2],
      ['ingest', ingestWords, (port: number) => ({ SVC_INTERNAL_LISTEN: '127.0.0.1:0', SVC_LOG_BROKERS: `127.0.0.1:${port}` }), 1],
      ['a reader', readerWords, (port: number) => readerEnvironment('http://127.0.0.1:1', `postgres://127.0.0.1:${port}/x`), 1],
    ] as const)(
      '%s whose start waits for a server that accepts connections and never answers stops immediately',
      async (_role, words, environment, connections) => {
        const connected = Promise.withResolvers<void>()
        let count = 0
        const silent = createServer(() => void (++count === connections && connected.resolve()))
        silent.listen(0, '127.0.0.1')
        await once(silent, 'listening')
        const { child, ended } = spawnRole(words, { ...environment((silent.address() as AddressInfo).port), ...promptStop })
        await connected.promise
        child.kill('SIGTERM')
        // Within the five seconds of a stop, which are fewer than those in which the attempt would be given up; later it would be 1.
        expect(await ended).toBe(0)
        silent.close()
      },
    )
  })

  inDepth(() => {
    test('an api that waits for its database stops immediately', async () => {
      const { child, printed, ended } = spawnRole(apiWords, apiEnvironment(`postgres://127.0.0.1:${await freePort()}/x`))
      await untilPrinted({ printed }, /the start waits for it/)
      child.kill('SIGTERM')
      expect(await ended).toBe(0)
    })
  })

  test('ingest and a reader wait for a control plane that is away, not ready and answering 503', async () => {
    const database = await postgres.createDatabase()
    const internal = await internalAddress()
    const controlUrl = `http://${internal}`
    const site = await openSite(await openServer({ url: database, applicationName: 'a-writer', connectionsMax: 2 }), async () => undefined)
    const apart = {
      ingest: (address: Address) => spawnIngest(controlUrl, address),
      reader: ({ SVC_HTTP_PORT: port, ...inside }: Address) =>
        spawnRole([...readerWords.slice(0, -1), port], readerEnvironment(controlUrl, database, inside)),
    }
    const waiting = await Promise.all(
      Object.entries(apart).map(async ([name, spawn]) => {
        const [outside, inside] = [await internalAddress(), await internalAddress()]
        const spawned = spawn({ SVC_HTTP_PORT: outside.split(':')[1]!, SVC_INTERNAL_LISTEN: inside })
        await untilPrinted(spawned, /the control plane is away .*: the start waits for it/)
        for (const base of [`http://${outside}`, `http://${inside}`]) {
          expect((await call(base, 'GET', '/livez')).status).toBe(200)
          expect((await call(base, 'GET', '/readyz')).status).toBe(503)
        }
        const asked =
          name === 'ingest' ? publish(`http://${outside}`) : call(`http://${outside}`, 'GET', messagesPath, { authorization: 'Thing x' })
        const { status, headers } = await asked
        expect([status, headers.get('retry-after')]).toEqual([503, '1'])
        expect(spawned.printed()).not.toMatch(/^ready on /m)
        return spawned
      }),
    )
    const api = await startApi(database, { SVC_INTERNAL_LISTEN: internal })
    for (const spawned of waiting) {
      const role = await whenReady(spawned)
      expect((await call(role.url, 'GET', '/readyz')).status).toBe(200)
      expect(await role.stop()).toBe(0)
    }
    expect(await api.stop()).toBe(0)
    await site.close()
  })

  test('a refused token, or an address that is not a control plane, stops the start with an error', async () => {
    const api = await startApi(await postgres.createDatabase())
    const answering = async (status: number, body: string): Promise<string> => {
      const server = createHttpServer((_request, response) => void response.writeHead(status, { 'content-type': 'text/html' }).end(body))
      onTestFinished(() => void server.close())
      return await listening(server)
    }
    const withTls = createTlsServer({ cert: pem('server.pem'), key: pem('server-key.pem') }, (_request, response) => void response.end())
    const silent = createServer(socket => void socket.on('error', () => undefined).end('E\0\0\0 no protocol of the web'))
    for (const server of [withTls, silent]) onTestFinished(() => void server.close())
    const tlsUrl = await listening(withTls)
    const wrong: [string, string, Readonly<Record<string, string | undefined>>, RegExp][] = [
      [
        'another token',
        api.internalUrl,
        { SVC_CONTROL_TOKEN: `${token}-of-another` },
        /refuses the token .*control\.token \(SVC_CONTROL_TOKEN\)/,
      ],
      [
        'no token',
        api.internalUrl,
        { SVC_CONTROL_TOKEN: undefined },
        /requires a token, and none is set: set control\.token \(SVC_CONTROL_TOKEN\)/,
      ],
      ['the public port', api.url, {}, /is not a control plane: it answers 404 to .*control\.url \(SVC_CONTROL_URL\)/],
      [
        'a page',
        await answering(200, '<html>'),
        {},
        /is not a control plane: it answers 200 with text\/html .*control\.url \(SVC_CONTROL_URL\)/,
      ],
      ['a redirect', await answering(302, ''), {}, /is not a control plane: it answers 302 to .*control\.url \(SVC_CONTROL_URL\)/],
      [
        'TLS to a plain port',
        api.internalUrl.replace('http', 'https'),
        {},
        /does not speak TLS.*control\.url \(SVC_CONTROL_URL\).* http:\/\//,
      ],
      ['plain to a port with TLS', tlsUrl, {}, /speaks TLS.*control\.url \(SVC_CONTROL_URL\).* https:\/\//],
      [
        'an unknown authority',
        tlsUrl.replace('http', 'https'),
        {},
        /certificate is not trusted .*control\.ca_file \(SVC_CONTROL_CA_FILE\)/,
      ],
      [
        'another protocol',
        await listening(silent),
        {},
        /is not a control plane: it does not speak HTTP .*control\.url \(SVC_CONTROL_URL\)/,
      ],
    ]
    const said = await Promise.all(
      wrong.map(async ([name, url, environment]) => {
        const { ended, printed } = spawnIngest(url, environment)
        return [name, await ended, printed()]
      }),
    )
    expect(said).toEqual(wrong.map(([name, , , sentence]) => [name, 1, expect.stringMatching(sentence)]))
    for (const [, , printed] of said) expect(printed).not.toMatch(new RegExp(`^ready on |^\\s+at |${token}`, 'm'))
    const reading = readerEnvironment(api.internalUrl, await postgres.createDatabase(), { SVC_CONTROL_TOKEN: `${token}-of-another` })
    expect(await failedStart(readerWords, reading)).toMatch(/refuses the token .*control\.token \(SVC_CONTROL_TOKEN\)/)
    expect(api.printed()).not.toContain(token)
    expect(api.printed()).not.toContain(masterKey)
    expect(await api.stop()).toBe(0)
  })

  inDepth(() => {
    test('a token that is refused later makes ingest not ready, with the reason, until it is accepted again', async () => {
      const database = await postgres.createDatabase()
      const internal = await internalAddress()
      const first = await startApi(database, { SVC_INTERNAL_LISTEN: internal })
      const ingest = await startIngest(`http://${internal}`)
      expect(await first.stop()).toBe(0)
      expect((await call(ingest.url, 'GET', '/readyz')).status).toBe(200)

      const other = await startApi(database, { SVC_INTERNAL_LISTEN: internal, SVC_CONTROL_TOKEN: `${token}-of-another` })
      await untilPrinted(ingest, /refuses the token .*control\.token \(SVC_CONTROL_TOKEN\)/)
      expect((await call(ingest.url, 'GET', '/readyz')).status).toBe(503)
      expect(await other.stop()).toBe(0)

      const again = await startApi(database, { SVC_INTERNAL_LISTEN: internal })
      await expect.poll(async () => (await call(ingest.url, 'GET', '/readyz')).status).toBe(200)
      expect(ingest.printed()).not.toContain(token)
      expect(await ingest.stop()).toBe(0)
      expect(await again.stop()).toBe(0)
    })
  })
})

type Address = Readonly<Record<'SVC_HTTP_PORT' | 'SVC_INTERNAL_LISTEN', string>>

const messagesPath = '/channels/0f8a6e7c-3c1b-4a55-9d0f-6f1f5a1f1c11/messages'

function publish(url: string): ReturnType<typeof call> {
  return call(url, 'POST', messagesPath, { authorization: 'Thing x', type: 'application/senml+json', body: '[]' })
}

function pem(name: string): string {
  return readFileSync(new URL(`../control-plane/internal/fixtures/${name}`, import.meta.url), 'utf8')
}

async function listening(server: Server): Promise<string> {
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
