// The files of the console's page: complete, small, cached by their content, and nothing else is served.

import { readdir, readFile } from 'node:fs/promises'
import { get as httpGet } from 'node:http'
import { join, posix } from 'node:path'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { type Asset, libraries, readAssets } from '../../console/assets.ts'
import { consoleRoutes, readConsolePage } from '../../console/console.ts'
import { homeRoute } from '../../http/home.ts'
import { startServer, type TestServer } from '../http/test-server.ts'

const gzippedBytesMax = 150 * 1024
const linesMax = 4000
let assets: ReadonlyMap<string, Asset>
let server: TestServer
beforeAll(async () => {
  assets = await readAssets()
  const page = await readConsolePage()
  server = await startServer({}, app => {
    consoleRoutes(app)
    homeRoute(app, { version: '1', services: ['ingest'], hasMetrics: false, more: () => ({ overview: '/console/overview/stream' }), page })
  })
})
afterAll(() => server.app.close())

/** Of `import … from '…'`, `export … from '…'`, `import '…'` and `import('…')`, without those in comments. */
function specifiersIn(code: string): string[] {
  const text = code.replace(/\/\*[\s\S]*?\*\//g, '').replace(/^\s*\/\/.*$/gm, '')
  return [...text.matchAll(/\b(?:(?:import|export)\b[^'";]*?\bfrom|import)\s*\(?\s*(['"])([^'"\n]+)\1/g)].map(
    ([, , specifier]) => specifier!,
  )
}

describe('the files', () => {
  test('import each other and the listed libraries, and everything that they import is served', async () => {
    let imports = 0
    for (const [path, { bytes, mediaType }] of assets) {
      if (!mediaType.startsWith('text/javascript')) continue
      for (const specifier of specifiersIn(bytes.toString())) {
        imports++
        expect(specifier, `${path} imports ${specifier}: make it relative, or list the library in console/assets.ts`).toMatch(/^\.\.?\//)
        expect([...assets.keys()], `${path} imports ${specifier}`).toContain(posix.join(posix.dirname(path), specifier))
      }
    }
    expect(imports).toBeGreaterThan(10)
    for (const path of Object.values(libraries)) expect([...assets.keys()]).toContain(`vendor/${path}`)
  })

  test('that the page and its styles name are served', async () => {
    const { html } = await readConsolePage()
    const named = [...html.matchAll(/(?:src|href)="([^"#]+)"/g)].map(([, path]) => path!)
    const files = named.filter(path => path.startsWith('console/'))
    expect(files.length).toBeGreaterThan(2)
    for (const path of files) expect([...assets.keys()]).toContain(path.slice('console/'.length))
    for (const [path, { bytes, mediaType }] of assets) {
      if (!mediaType.startsWith('text/css')) continue
      for (const [, url] of bytes.toString().matchAll(/url\(["']?([^"')]+)/g))
        if (!url!.startsWith('data:')) expect([...assets.keys()]).toContain(posix.join(posix.dirname(path), url!))
    }
  })

  test(`have at most ${linesMax} lines, with the code that serves them`, async () => {
    const folder = new URL('../../console/', import.meta.url)
    const files = (await readdir(folder, { recursive: true, withFileTypes: true })).filter(
      file => file.isFile() && file.name !== 'README.md',
    )
    const texts = await Promise.all(files.map(({ parentPath, name }) => readFile(join(parentPath, name), 'utf8')))
    expect(texts.reduce((sum, text) => sum + text.split('\n').length - 1, 0)).toBeLessThanOrEqual(linesMax)
  })

  test(`are at most ${gzippedBytesMax / 1024} KiB over the wire, all together`, () => {
    expect([...assets.values()].reduce((sum, { gzipped }) => sum + gzipped.length, 0)).toBeLessThan(gzippedBytesMax)
  })
})

const ask = (path: string, headers: Record<string, string> = {}, method = 'GET'): Promise<Response> =>
  fetch(server.url + path, { method, headers })

/** The path as it is written: fetch would resolve `..`. */
function askPlain(path: string): Promise<number> {
  return new Promise((resolve, reject) => {
    httpGet({ port: server.port, host: '127.0.0.1', path }, response => resolve(response.resume().statusCode!)).on('error', reject)
  })
}

describe('a served file', () => {
  test.each([
    ['main.js', 'text/javascript; charset=utf-8'],
    ['style.css', 'text/css; charset=utf-8'],
    ['icon.svg', 'image/svg+xml'],
    ['vendor/preact/dist/preact.mjs', 'text/javascript; charset=utf-8'],
  ])('%s has its type, in the coding that the client takes', async (path, type) => {
    const { bytes, gzipped, etag } = assets.get(path)!
    const plain = await ask(`/console/${path}`, { 'accept-encoding': 'identity' })
    expect(plain.headers.get('content-type')).toBe(type)
    expect(plain.headers.get('content-encoding')).toBeNull()
    expect(plain.headers.get('x-content-type-options')).toBe('nosniff')
    expect(Buffer.from(await plain.arrayBuffer())).toEqual(bytes)
    const coded = await ask(`/console/${path}`, { 'accept-encoding': 'gzip' })
    expect(coded.headers.get('content-encoding')).toBe('gzip')
    expect(coded.headers.get('vary')).toBe('Accept-Encoding')
    expect(coded.headers.get('etag')).toBe(etag)
    expect(Buffer.from(await coded.arrayBuffer())).toEqual(bytes)
    expect(gunzipSync(gzipped)).toEqual(bytes)
  })

  test('is not sent again while its content is the same', async () => {
    const { etag } = assets.get('main.js')!
    const same = await ask('/console/main.js', { 'if-none-match': etag })
    expect([same.status, await same.text(), same.headers.get('etag')]).toEqual([304, '', etag])
    expect((await ask('/console/main.js', { 'if-none-match': '"other"' })).status).toBe(200)
  })

  test('answers HEAD with the same head and no body', async () => {
    const head = await ask('/console/main.js', { 'accept-encoding': 'identity' }, 'HEAD')
    const get = await ask('/console/main.js', { 'accept-encoding': 'identity' })
    expect([head.status, await head.text()]).toEqual([200, ''])
    for (const name of ['content-type', 'etag', 'content-length', 'cache-control'])
      expect(head.headers.get(name)).toBe(get.headers.get(name))
  })
})

test.each([
  '/console/',
  '/console/unknown.js',
  '/console/main.ts',
  '/console/tsconfig.json',
  '/console/index.html/',
  '/console/../package.json',
  '/console/%2e%2e/package.json',
  '/console/..%2fpackage.json',
  '/console/..%5cassets.ts',
  '/console/views/../../assets.ts',
  '/console/vendor/../../../../etc/passwd',
  '/console//etc/passwd',
  '/console/main.js%00',
  '/console/__proto__',
])('%s is not found', async path => {
  expect(await askPlain(path)).toBe(404)
})

test('a browser gets the page, and a program the links with those of the console', async () => {
  const page = await ask('/', { accept: 'text/html' })
  expect(page.headers.get('content-security-policy')).toContain("script-src 'self'")
  expect(await page.text()).toBe(await readFile(new URL('../../console/page/index.html', import.meta.url), 'utf8'))
  const links = (await server.ask('/')).body['links']
  expect(links).toEqual({ docs: '/docs', openapi: '/openapi.json', health: '/health', overview: '/console/overview/stream' })
})
