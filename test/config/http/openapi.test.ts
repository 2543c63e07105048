// The description of the interfaces and the page that renders it.

import { Type } from 'typebox'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listen } from '../../../config/http/listen.ts'
import { openapiRoutes } from '../../../config/http/openapi.ts'
import { createServer, type HttpServer } from '../../../config/http/server.ts'
import { createLogger } from '../../../config/logger.ts'

let app: HttpServer
let url: string

beforeAll(async () => {
  app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  openapiRoutes(app, { version: '1.2.3' })
  app.register(async (app: HttpServer) => {
    const schema = {
      querystring: Type.Object({ limit: Type.Integer({ minimum: 1, allowed: 'a few' }) }),
      response: { 200: Type.Object({ total: Type.Integer() }) },
    }
    app.get('/things/:id', { schema }, async () => ({ total: 1 }))
  })
  url = await listen(app, { host: '127.0.0.1', port: 0 })
})
afterAll(() => app.close())

test('the description is OpenAPI 3.1 with the routes and their schemas', async () => {
  const description = (await (await fetch(`${url}/openapi.json`)).json()) as Record<string, unknown>
  expect(description).toMatchObject({
    openapi: '3.1.0',
    info: { title: 'Sluice', version: '1.2.3' },
    paths: {
      '/things/{id}': {
        get: {
          parameters: [
            { name: 'limit', in: 'query' },
            { name: 'id', in: 'path' },
          ],
          responses: { 200: {} },
        },
      },
    },
  })
  expect(JSON.stringify(description)).not.toContain('/docs')
})

test('the page and everything it loads are served here, under a policy that allows them and nothing from elsewhere', async () => {
  const response = await fetch(`${url}/docs`)
  const page = await response.text()
  const policy = response.headers.get('content-security-policy')!
  expect(policy).toContain("default-src 'self'")
  expect(policy).not.toContain('upgrade-insecure-requests')
  const files = [...page.matchAll(/(?:src|href)="([^"]+)"/g)].map(match => match[1]!)
  expect(files.some(file => file.endsWith('swagger-ui-bundle.js'))).toBe(true)
  for (const file of files) {
    expect(file).toMatch(/^(\/|\.\/)/)
    const served = await fetch(new URL(file, `${url}/docs/`))
    expect([file, served.status, (await served.arrayBuffer()).byteLength > 0]).toEqual([file, 200, true])
  }
  expect(page).not.toMatch(/<script>|<script [^>]*>\s*[^<\s]|\son\w+=/)
})
