// The OpenAPI document and the page that renders it.

import { Type } from 'typebox'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLogger } from '../../config/logger.ts'
import { listen } from '../../http/listen.ts'
import { errorAnswers } from '../../http/openapi/error-schema.ts'
import { openapiRoutes } from '../../http/openapi/openapi.ts'
import { createServer, type HttpServer } from '../../http/server.ts'
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

test('the document is OpenAPI 3.1 with the routes and their schemas', async () => {
  const description = (await (await fetch(`${url}/openapi.json`)).json()) as Record<string, unknown>
  expect(description).toMatchObject({
    openapi: '3.1.0',
    info: { title: 'Sluice API', version: '1.2.3' },
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

test('the page and all its files are served here, with a policy that allows only these', async () => {
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
  expect(page).toContain('<title>Sluice API</title>')
  expect(page).not.toMatch(/<script>|<script [^>]*>\s*[^<\s]|\son\w+=/)
})

/** The document of one route. */
async function documentOf(schema: object, path = '/things/:id'): Promise<Document> {
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

test('a schema with a title appears once, by its name; references to it may have their own descriptions', async () => {
  const { components, paths } = await documentOf({
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

test('two schemas with the same name are an error', async () => {
  const answer = await documentOf({ body: Type.Array(thing), response: { 200: Type.Object({}, { title: 'Thing' }) } })
  expect(answer).toMatchObject({ code: 'internal', status: 500 })
})

test('optional bodies and headers are marked; texts for errors are left out', async () => {
  const { paths } = await documentOf({
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

test('properties with a default are optional and not part of examples, and a parameter that is JSON is described as such', async () => {
  const { paths } = await documentOf({
    querystring: Type.Object({
      limit: Type.Integer({ default: 10 }),
      filter: Type.Optional(Type.String({ contentSchema: thing })),
      name: Type.String({ examples: ['a'] }),
    }),
    body: Type.Object({ name: Type.String({ default: '', examples: ['a'] }), size: Type.Integer({ examples: [1] }) }),
  })
  const { parameters, requestBody } = paths['/things/{id}']!['post']!
  expect(parameters?.filter(one => one.in === 'query')).toEqual([
    { name: 'limit', in: 'query', required: false, schema: { type: 'integer', default: 10, examples: [10] } },
    {
      name: 'filter',
      in: 'query',
      required: false,
      content: { 'application/json': { schema: { $ref: '#/components/schemas/Thing', examples: [{ id: 'a' }] } } },
    },
    { name: 'name', in: 'query', required: true, schema: { type: 'string' }, example: 'a' },
  ])
  expect(requestBody!.content['application/json']).toMatchObject({ schema: { required: ['size'] }, example: { name: 'a', size: 1 } })
})

test('the rest of a path has a name, and bytes are described by their content', async () => {
  const { paths } = await documentOf(
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

test('the answer of an error appears once in the document', async () => {
  const { components, paths } = await documentOf({ response: { 200: Type.Null(), ...errorAnswers('forbidden') } })
  expect(paths['/things/{id}']!['post']!.responses['403']).toEqual({ $ref: '#/components/responses/forbidden' })
  expect(Object.keys((components as { responses?: object }).responses ?? {}).sort()).toEqual([
    'forbidden',
    'headers_too_large',
    'malformed_request',
    'misdirected',
    'unavailable',
  ])
})
