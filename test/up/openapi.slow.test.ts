// The description of the interfaces, as the running platform gives it.

import { expect, test } from 'vitest'
import { call } from './operator.ts'
import { disposableFolder, startPlatform } from './platform.ts'

interface Operation {
  readonly summary?: string
  readonly responses?: Record<string, unknown>
  readonly security?: Record<string, unknown>[]
}

test('every endpoint is described in /openapi.json, and /docs renders it', async () => {
  await using folder = await disposableFolder()
  const platform = await startPlatform({ data: folder.path })
  const answer = await call(platform.url, 'GET', '/openapi.json')
  expect(answer.status).toBe(200)
  const document = answer.json as unknown as {
    openapi: string
    paths: Record<string, Record<string, Operation>>
    components: { securitySchemes: object }
  }
  expect(document.openapi).toMatch(/^3\.1/)
  const operations = Object.entries(document.paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, one]) => ({ name: `${method.toUpperCase()} ${path}`, ...one })),
  )
  expect(operations.map(({ name }) => name)).toEqual(
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
      'POST /channels/{channel}/messages/{*}',
      'GET /channels/{channel}/messages',
      'GET /channels/{channel}/formats',
      'GET /health',
    ]),
  )
  const schemes = Object.keys(document.components.securitySchemes)
  for (const { name, security, responses } of operations) {
    expect(Object.keys(responses ?? {}), name).not.toEqual([])
    for (const one of security ?? []) expect(schemes, name).toEqual(expect.arrayContaining(Object.keys(one)))
  }
  const page = await call(platform.url, 'GET', '/docs/')
  expect(page.status).toBe(200)
  expect(page.text).toContain('swagger-ui')
  expect(await platform.stop()).toBe(0)
})
