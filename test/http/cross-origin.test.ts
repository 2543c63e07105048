// Browsers on pages of other origins (CORS): the headers of answers if the operator allows an origin, and none otherwise.

import { request } from 'node:http'
import { Registry } from 'prom-client'
import { Type } from 'typebox'
import { expect, onTestFinished, test } from 'vitest'
import { loadOptions } from '../../config/options/options.ts'
import { exposeLocation } from '../../control-plane/requests/answers.ts'
import { HttpError } from '../../http/errors.ts'
import { httpFaults, httpOptions } from '../../http/options.ts'
import { openRoleListeners } from '../../http/role-listeners.ts'
import { recordingLogger } from '../control-plane/platform.ts'
import { startServer, type TestServer } from './test-server.ts'

const app = 'https://app.example.com'
const ours = 'access-control-'

async function start(allowedOrigins: string[]): Promise<TestServer> {
  const server = await startServer({ allowedOrigins }, app => {
    app.get('/limited', async () => Promise.reject(new HttpError('too_many_requests', 'later', { retryAfterSeconds: 7 })))
    app.get('/away', async () => Promise.reject(new HttpError('unavailable')))
    app.get('/bulk', async (_request, reply) => {
      exposeLocation(reply)
      return {}
    })
  })
  onTestFinished(() => server.app.close())
  return server
}

const corsHeaders = (headers: Headers): string[] => [...headers.keys()].filter(name => name.startsWith(ours))
const ask = (server: TestServer, method: string, path: string, headers: Record<string, string> = {}): Promise<Response> =>
  fetch(server.url + path, { method, headers })
const preflight = { 'access-control-request-method': 'PUT', 'access-control-request-headers': 'authorization,if-match' }

test('by default answers have no CORS headers, and OPTIONS is not allowed on any path', async () => {
  const server = await start([])
  for (const [method, path, status] of [
    ['GET', '/things', 200],
    ['OPTIONS', '/things', 405],
    ['OPTIONS', '/nothing', 404],
  ] as const) {
    const { status: found, headers } = await ask(server, method, path, { origin: app, ...preflight })
    expect([method, path, found]).toEqual([method, path, status])
    expect(corsHeaders(headers)).toEqual([])
    expect(headers.get('vary')).toBeNull()
  }
})

const answered: [method: string, path: string, status: number][] = [
  ['GET', '/things', 200],
  ['DELETE', '/things/1', 204],
  ['GET', '/things?limit=x', 400],
  ['POST', '/closed', 401],
  ['GET', '/throws/forbidden', 403],
  ['GET', '/nothing', 404],
  ['PATCH', '/things', 405],
  ['GET', '/limited', 429],
  ['GET', '/throws/defect', 500],
  ['GET', '/away', 503],
]

test.each(answered)('only a page of an allowed origin may read the answer to %s %s (%i)', async (method, path, status) => {
  const server = await start(['http://localhost:5173', app])
  const allowed = await ask(server, method, path, { origin: app })
  expect(allowed.status).toBe(status)
  expect(allowed.headers.get('access-control-allow-origin')).toBe(app)
  expect(allowed.headers.get('vary')).toBe('Origin')
  expect(allowed.headers.get('access-control-allow-credentials')).toBeNull()
  for (const headers of [{ origin: 'https://app.example.com.evil.example' }, { origin: 'null' }, {}]) {
    const refused = await ask(server, method, path, headers)
    expect([refused.status, refused.headers.get('access-control-allow-origin'), refused.headers.get('vary')]).toEqual([
      status,
      null,
      'Origin',
    ])
  }
})

test('the headers that a page needs are exposed to it', async () => {
  const server = await start([app])
  const { headers } = await ask(server, 'GET', '/limited', { origin: app })
  const bulk = await ask(server, 'GET', '/bulk', { origin: app })
  expect(bulk.headers.get('access-control-expose-headers')).toBe(headers.get('access-control-expose-headers'))
  const exposed = headers.get('access-control-expose-headers')!.split(', ')
  expect(exposed).toEqual(
    expect.arrayContaining(['Location', 'ETag', 'Link', 'Retry-After', 'X-Request-Id', 'Deprecation', 'WWW-Authenticate']),
  )
  expect([headers.get('retry-after'), headers.get('x-request-id')]).toEqual(['7', expect.any(String)])
})

test.each(['/things', '/closed', '/nothing', '/throws/defect'])(
  'a preflight of %s is answered like any other, without a token',
  async path => {
    const server = await start([app])
    const { status, headers } = await ask(server, 'OPTIONS', path, { origin: app, ...preflight })
    expect([status, headers.get('content-length')]).toEqual([204, '0'])
    expect([headers.get('x-request-id'), headers.get('x-content-type-options'), headers.get('content-security-policy')]).toEqual([
      expect.stringMatching(/^[\da-f-]{36}$/),
      'nosniff',
      expect.stringContaining("default-src 'none'"),
    ])
    expect(Object.fromEntries(corsHeaders(headers).map(name => [name.slice(ours.length), headers.get(name)]))).toEqual({
      'allow-origin': app,
      'allow-methods': 'GET, HEAD, POST, PUT, PATCH, DELETE',
      'allow-headers': 'Accept, Authorization, Content-Type, If-Match, If-None-Match, Last-Event-ID, Prefer',
      'expose-headers': expect.any(String),
      'max-age': '600',
    })
    expect((await ask(server, 'OPTIONS', path)).status).toBe(204)
    const foreign = await ask(server, 'OPTIONS', path, { origin: 'https://evil.example', ...preflight })
    expect([foreign.status, foreign.headers.get('access-control-allow-origin')]).toEqual([204, null])
  },
)

test('a preflight for a host other than this machine is refused, as any request', async () => {
  const server = await start(['*'])
  const statusOf = (host: string): Promise<number | undefined> =>
    new Promise((resolve, reject) => {
      const sent = request(`${server.url}/things`, { method: 'OPTIONS', headers: { host, origin: app, ...preflight } }, answer => {
        answer.resume()
        resolve(answer.statusCode)
      })
      sent.on('error', reject).end()
    })
  expect([await statusOf('localhost'), await statusOf('evil.example')]).toEqual([204, 421])
})

test('with * every page may, and the answer is the same for all', async () => {
  const server = await start(['*'])
  const { headers } = await ask(server, 'GET', '/things', { origin: 'https://anything.example' })
  expect([headers.get('access-control-allow-origin'), headers.get('vary')]).toEqual(['*', null])
})

test('other pages still cannot embed a resource', async () => {
  const server = await start([app])
  expect((await ask(server, 'GET', '/things', { origin: app })).headers.get('cross-origin-resource-policy')).toBe('same-origin')
})

test('a role that waits for its dependencies answers pages too, and its internal port allows none', async () => {
  const { logger, logged } = recordingLogger()
  const cleanups: (() => Promise<void>)[] = []
  const http = { ...loadOptions(Type.Object({ http: httpOptions }), { environment: {} }).http, port: 0, allowedOrigins: [app] }
  const routes = async (): Promise<void> => undefined
  const internal = { address: '127.0.0.1:0' }
  const parts = {
    logger,
    version: '1',
    name: 'ingest',
    services: ['ingest'],
    http,
    compatibility: 'none',
    routes,
    internal,
    registry: new Registry(),
    checks: {},
  } as const
  await openRoleListeners(parts, close => void cleanups.push(close))
  onTestFinished(async () => {
    for (const close of cleanups.toReversed()) await close()
  })
  const urls = JSON.parse(
    logged()
      .split('\n')
      .find(line => line.includes('listening'))!,
  ) as { url: string; internal: string }
  for (const [url, allowed] of [
    [urls.url, app],
    [urls.internal, null],
  ] as const) {
    expect((await fetch(`${url}/readyz`, { headers: { origin: app } })).headers.get('access-control-allow-origin')).toBe(allowed)
  }
  // Before anything else is served, and without a link to the metrics, which the internal port has.
  expect(await (await fetch(urls.url)).json()).toEqual({
    name: 'Sluice',
    version: '1',
    services: ['ingest'],
    links: { docs: '/docs', openapi: '/openapi.json', health: '/health' },
  })
  expect((await fetch(urls.internal)).status).toBe(404)
})

test.each<[string[], RegExp | undefined]>([
  [['https://app.example.com', 'http://localhost:5173', 'https://[2001:db8::1]:8443'], undefined],
  [['*'], undefined],
  [['*', 'https://app.example.com'], /"\*" allows every origin/],
  [['https://app.example.com/'], /"https:\/\/app\.example\.com\/" is not an origin.*such as https:\/\/app\.example\.com$/],
  [['https://app.example.com/path'], /such as https:\/\/app\.example\.com$/],
  [['https://App.Example.com'], /such as https:\/\/app\.example\.com$/],
  [['https://app.example.com:443'], /such as https:\/\/app\.example\.com$/],
  [['http://user@localhost:5173'], /such as http:\/\/localhost:5173$/],
  [['app.example.com'], /"app\.example\.com" is not an origin/],
  [['localhost:5173'], /is not an origin/],
  [['https://*.example.com'], /is not an origin/],
  [['null'], /is not an origin/],
])('the option %j stops the start with a reason', (allowedOrigins, sentence) => {
  const { http } = loadOptions(Type.Object({ http: httpOptions }), { environment: {} })
  const problems = httpFaults({ ...http, allowedOrigins }).map(({ place, problem }) => `${place}: ${problem}`)
  expect(problems).toEqual(sentence === undefined ? [] : [expect.stringMatching(sentence)])
  if (sentence !== undefined) expect(problems[0]).toMatch(/^http\.allowed_origins: /)
})
