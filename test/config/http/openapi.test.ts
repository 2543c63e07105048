// The description of the interfaces and the page that renders it.

import { Type } from 'typebox'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { errorAnswers } from '../../../config/http/error-schema.ts'
import { listen } from '../../../config/http/listen.ts'
import { openapiRoutes } from '../../../config/http/openapi.ts'
import { createServer, type HttpServer } from '../../../config/http/server.ts'
import { createLogger } from '../../../config/logger.ts'
import type { Document } from './document-faults.ts'

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

/** The description of one route. */
async function describe(schema: object, path = '/things/:id'): Promise<Document> {
  const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  openapiRoutes(app, { version: '1.2.3' })
  app.register(async (app: HttpServer) => void app.post(path, { schema }, async () => undefined as never))
  const document = (await app.inject('/openapi.json')).json<Document>()
  await app.close()
  return document
}

const thing = Type.Object(
  { id: Type.String({ examples: ['a'] }), size: Type.Optional(Type.Integer()) },
  { title: 'Thing', description: 'A thing.' },
)

test('a schema with a title stands once, by its name; its places may say something else of it', async () => {
  const { components, paths } = await describe({
    body: thing,
    response: {
      200: { ...thing, headers: { ETag: { type: 'string' } } },
      201: Type.Object({ things: Type.Array(thing, { description: 'All.' }) }),
    },
  })
  expect(components.schemas).toEqual({ Thing: expect.objectContaining({ description: 'A thing.', required: ['id'] }) })
  const { requestBody, responses } = paths['/things/{id}']!['post']!
  const reference = { $ref: '#/components/schemas/Thing' }
  expect(requestBody!.content['application/json']).toEqual({ schema: reference, example: { id: 'a' } })
  expect(responses['200']!.content!['application/json']).toEqual({ schema: reference, example: { id: 'a' } })
  expect(responses['201']!.content!['application/json']).toMatchObject({
    schema: { properties: { things: { description: 'All.', items: reference } } },
    example: { things: [{ id: 'a' }] },
  })
})

test('two schemas of one name are a mistake, and the description is not given', async () => {
  const answer = await describe({ body: Type.Array(thing), response: { 200: Type.Object({}, { title: 'Thing' }) } })
  expect(answer).toMatchObject({ code: 'internal', status: 500 })
})

test('bodies and headers that may be left out are said to be; words for errors are not shown', async () => {
  const { paths } = await describe({
    body: Type.Object({ name: Type.String({ examples: ['a'], allowed: 'a name' }) }, { optionalBody: true }),
    response: { 200: { type: 'null', headers: { Link: { type: 'string', optional: true }, ETag: { type: 'string' } } } },
  })
  const { requestBody, responses } = paths['/things/{id}']!['post']!
  expect(requestBody).toMatchObject({ required: false })
  expect(responses['200']!.headers).toEqual({
    Link: { required: false, schema: { type: 'string' } },
    ETag: { required: true, schema: { type: 'string' } },
  })
  expect(JSON.stringify(requestBody)).not.toMatch(/allowed|optionalBody/)
})

test('the rest of a path has a name, and bytes are described by what is in them', async () => {
  const { paths } = await describe(
    {
      params: Type.Object({ id: Type.String(), '*': Type.String({ examples: ['a.b'] }) }),
      body: { content: { 'application/senml+json': { schema: { contentSchema: thing, examples: [{ id: 'b' }] } } } },
    },
    '/things/:id/*',
  )
  expect(Object.keys(paths)).toEqual(['/things/{id}/{subtopic}'])
  const { parameters, requestBody } = paths['/things/{id}/{subtopic}']!['post']!
  expect(parameters?.map(({ name, example }) => [name, example])).toEqual([
    ['id', undefined],
    ['subtopic', 'a.b'],
  ])
  expect(requestBody!.content['application/senml+json']).toEqual({ schema: { $ref: '#/components/schemas/Thing' }, example: { id: 'b' } })
})

test('the answer of an error stands once in the description', async () => {
  const { components, paths } = await describe({ response: { 200: Type.Null(), ...errorAnswers('forbidden') } })
  expect(paths['/things/{id}']!['post']!.responses['403']).toEqual({ $ref: '#/components/responses/forbidden' })
  expect(Object.keys((components as { responses?: object }).responses ?? {}).sort()).toEqual([
    'forbidden',
    'malformed_request',
    'unavailable',
  ])
})
