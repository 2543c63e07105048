// The OpenAPI document of a running platform.

import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { type Document, documentFaults } from '../http/document-faults.ts'
import { root } from '../tidy/files.ts'
import { call, makeSite } from './operator.ts'
import { startedFolder, startPlatform } from './platform.ts'

test('every endpoint is described in /openapi.json, with names and examples, and /docs renders it', async () => {
  await using folder = await startedFolder()
  const platform = await startPlatform({ data: folder.path, arguments: ['--demo'] })
  const answer = await call(platform.url, 'GET', '/openapi.json')
  expect(answer.status).toBe(200)
  const document = answer.json as unknown as Document & { openapi: string; info: { version: string } }
  expect(document.openapi).toMatch(/^3\.1/)
  await expectOneVersion(platform.url, document.info.version)
  const order =
    'users tokens things channels connections provisioning bootstrap messages brokers reading sharing groups policies certificates keys audit administration console operation'
  expect(document.tags?.map(({ name }) => name)).toEqual(order.split(' '))
  const names = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method.toUpperCase()} ${path}`),
  )
  expect(names).toEqual(
    expect.arrayContaining([
      'POST /users',
      'POST /tokens',
      'POST /things',
      'POST /things/bulk',
      'GET /things',
      'GET /things/{thing}',
      'POST /channels',
      'POST /channels/bulk',
      'POST /connect',
      'DELETE /channels/{channel}/things/{thing}',
      'POST /channels/{channel}/messages',
      'POST /channels/{channel}/messages/{subtopic}',
      'GET /channels/{channel}/messages',
      'GET /channels/{channel}/formats',
      'GET /health',
    ]),
  )
  await publishExamples(platform.url, document)
  const page = await call(platform.url, 'GET', '/docs/')
  expect(page.status).toBe(200)
  expect(page.text).toContain('swagger-ui')
  expect(await platform.stop()).toBe(0)
  // Last, since it blocks for long, in which the platform closes connections that the next request would be sent on.
  expect(await documentFaults(document)).toEqual([])
})

/** package.json has the version that everything prints. */
async function expectOneVersion(url: string, described: string): Promise<void> {
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string }
  const { stdout } = await promisify(execFile)(join(root, 'sluice'), ['--version'])
  const answers = await Promise.all(['/', '/health'].map(async path => (await call(url, 'GET', path)).json?.['version']))
  expect([described, stdout, ...answers]).toEqual([version, `${version}\n`, version, version])
}

/** Checks that example payloads can be decoded. */
async function publishExamples(url: string, { paths }: Document): Promise<void> {
  const { channel, device: authorization } = await makeSite(url)
  const published: string[] = []
  for (const path of ['/channels/{channel}/messages', '/channels/{channel}/messages/{subtopic}']) {
    const { requestBody, parameters = [] } = paths[path]!['post']!
    const subtopic = String(parameters.find(({ name }) => name === 'subtopic')?.example)
    for (const [type, { example }] of Object.entries(requestBody!.content)) {
      // The example of CBOR is in hexadecimal digits.
      const body = type.endsWith('cbor') ? Buffer.from(String(example).replace(/^\(.*?\)|\s/g, ''), 'hex') : (example as object)
      const headers = { prefer: 'handling=strict' }
      const to = path.replace('{channel}', channel).replace('{subtopic}', subtopic)
      const { status, text } = await call(url, 'POST', to, { authorization, type, headers, body })
      expect([status, type], text).toEqual([202, type])
      published.push(type)
    }
  }
  const all = ['application/senml+json', 'application/senml+cbor', 'application/x-ndjson']
  expect(published).toEqual([...all, 'application/json', ...all])
}
