// The description of the interfaces, as the running platform gives it.

import { expect, test } from 'vitest'
import { type Document, documentFaults } from '../config/http/document-faults.ts'
import { call } from './operator.ts'
import { disposableFolder, startPlatform } from './platform.ts'

test('every endpoint is described in /openapi.json, with names and examples, and /docs renders it', async () => {
  await using folder = await disposableFolder()
  const platform = await startPlatform({ data: folder.path })
  const answer = await call(platform.url, 'GET', '/openapi.json')
  expect(answer.status).toBe(200)
  const document = answer.json as unknown as Document & { openapi: string }
  expect(document.openapi).toMatch(/^3\.1/)
  expect(await documentFaults(document)).toEqual([])
  const order = 'users tokens things channels connections messages reading sharing groups policies keys audit administration operation'
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
  const page = await call(platform.url, 'GET', '/docs/')
  expect(page.status).toBe(200)
  expect(page.text).toContain('swagger-ui')
  expect(await platform.stop()).toBe(0)
})
