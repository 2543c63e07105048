// What `GET /` shows to browsers and programs.

import { createHash } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { homeRoute } from '../../http/home.ts'
import { startServer, type TestServer } from './test-server.ts'

/** As Firefox and Chrome send it. */
const browser = 'text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8'
let server: TestServer
let inner: TestServer
/** Known later than the routes. */
let mqtt = ''

beforeAll(async () => {
  server = await startServer({}, app => homeRoute(app, { version: '1.2.3-<b>"&', services: ['ingest', 'reader of <i>'], hasMetrics: true }))
  inner = await startServer({}, app => homeRoute(app, { version: '1', services: ['ingest'], hasMetrics: false, more: () => ({ mqtt }) }))
})
afterAll(() => Promise.all([server, inner].map(({ app }) => app.close())))

test('programs get links, whatever they accept besides pages; metrics are linked only where they are', async () => {
  for (const accept of [
    '*/*',
    'application/json',
    'text/csv',
    'application/json, text/html;q=0.5',
    'application/json;q=0.2, text/html;q=0',
  ]) {
    const { status, headers, body } = await server.ask('/', { headers: { accept } })
    expect([accept, status, headers.get('content-type'), headers.get('vary')]).toEqual([
      accept,
      200,
      'application/json; charset=utf-8',
      'Accept, Origin',
    ])
    expect(body).toEqual({
      name: 'Sluice',
      version: '1.2.3-<b>"&',
      services: ['ingest', 'reader of <i>'],
      links: { docs: '/docs', openapi: '/openapi.json', health: '/health', metrics: '/metrics' },
    })
  }
  mqtt = 'mqtt://127.0.0.1:1883'
  expect((await inner.ask('/')).body.links).toEqual({ docs: '/docs', openapi: '/openapi.json', health: '/health', mqtt })
})

test('browsers get a page with the same links, whose texts are escaped and whose policy allows its own style only', async () => {
  const response = await fetch(server.url, { headers: { accept: browser } })
  const page = await response.text()
  expect([response.status, response.headers.get('content-type'), response.headers.get('vary')]).toEqual([
    200,
    'text/html; charset=utf-8',
    'Accept, Origin',
  ])
  expect([...page.matchAll(/href="([^"]*)"/g)].map(([, path]) => path)).toEqual(['/docs', '/openapi.json', '/health', '/metrics'])
  expect(page).toContain('<h1>Sluice 1.2.3-&#60;b&#62;&#34;&#38;</h1>')
  expect(page).toContain('ingest, reader of &#60;i&#62;')
  expect(page).toContain('README.md')
  const [, style] = /<style>(.*)<\/style>/s.exec(page)!
  const hash = createHash('sha256').update(style!).digest('base64')
  expect(response.headers.get('content-security-policy')).toBe(
    `default-src 'none'; style-src 'sha256-${hash}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'`,
  )
  expect(response.headers.get('x-content-type-options')).toBe('nosniff')
})

test('HEAD answers like GET without a body; other methods are refused', async () => {
  const [get, head] = await Promise.all(['GET', 'HEAD'].map(method => fetch(server.url, { method, headers: { accept: browser } })))
  expect([head!.status, head!.headers.get('content-type'), await head!.text()]).toEqual([200, 'text/html; charset=utf-8', ''])
  expect(head!.headers.get('content-length')).toBe(get!.headers.get('content-length'))
  const post = await server.ask('/', { method: 'POST' })
  expect([post.status, post.headers.get('allow')]).toEqual([405, 'GET, HEAD'])
})
