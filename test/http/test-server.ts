// A real server with a few routes of each kind.

import type { AddressInfo } from 'node:net'
import { PassThrough } from 'node:stream'
import { Type } from 'typebox'
import { createLogger } from '../../config/logger.ts'
import { DatabaseError } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import { createServer, type HttpServer, type ServerOptions } from '../../http/server.ts'

export interface Answer {
  readonly status: number
  readonly headers: Headers
  readonly body: Record<string, unknown>
}

export interface TestServer {
  readonly app: HttpServer
  readonly port: number
  readonly url: string
  /** Everything logged so far, one line each. */
  lines(): Record<string, unknown>[]
  ask(path: string, request?: RequestInit): Promise<Answer>
  post(path: string, body: string | Uint8Array<ArrayBuffer>, type?: string): Promise<Answer>
}

const Thing = Type.Object(
  {
    name: Type.String({ minLength: 1, maxLength: 10 }),
    id: Type.Optional(Type.String({ format: 'uuid' })),
    metadata: Type.Optional(Type.Record(Type.String(), Type.Unknown())),
    order: Type.Optional(Type.Union([Type.Literal('asc'), Type.Literal('desc')])),
    unit: Type.Optional(Type.Union([Type.String(), Type.Null()])),
  },
  { additionalProperties: false },
)

const Page = Type.Object({
  limit: Type.Integer({ minimum: 1, maximum: 100, default: 10 }),
  value: Type.Optional(Type.Number()),
  connected: Type.Optional(Type.Boolean()),
  name: Type.Optional(Type.String()),
})

export async function startServer(options: Partial<ServerOptions> = {}, routes?: (app: HttpServer) => void): Promise<TestServer> {
  const log = new PassThrough()
  const app = createServer({ logger: createLogger({ level: 'debug', pretty: false }, log), ...options })
  app.register(async (app: HttpServer) => {
    app.post('/things/bulk', { schema: { body: Type.Array(Thing, { maxItems: 1000 }) } }, request => ({ things: request.body }))
    app.get('/things', { schema: { querystring: Page } }, request => request.query)
    app.get('/things/:id', { schema: { params: Type.Object({ id: Type.String({ format: 'uuid' }) }) } }, request => request.params)
    app.delete('/things/:id', async (_request, reply) => reply.code(204).send())
    app.get(
      '/strict',
      { schema: { querystring: Type.Object({ publisher: Type.Optional(Type.String()) }, { additionalProperties: false }) } },
      async () => ({}),
    )
    app.addContentTypeParser('text/csv', { parseAs: 'string' }, (_request, text, done) => done(null, { text }))
    app.post('/csv', request => request.body)
    app.post('/closed', { onRequest: async () => Promise.reject(new HttpError('unauthenticated')) }, async () => ({}))
    app.get('/throws/:what', request => {
      const { what } = request.params as { what: string }
      throw thrown[what]
    })
  })
  routes?.(app)
  await app.listen({ port: 0, host: '127.0.0.1' })
  const { port } = app.server.address() as AddressInfo
  const url = `http://127.0.0.1:${port}`
  let logged = ''

  async function ask(path: string, request?: RequestInit): Promise<Answer> {
    const response = await fetch(url + path, request)
    const text = await response.text()
    return { status: response.status, headers: response.headers, body: text === '' ? {} : (JSON.parse(text) as Record<string, unknown>) }
  }

  return {
    app,
    port,
    url,
    lines() {
      logged += (log.read() as Buffer | null)?.toString() ?? ''
      return logged
        .split('\n')
        .filter(line => line !== '')
        .map(line => JSON.parse(line) as Record<string, unknown>)
    },
    ask,
    post: (path, body, type = 'application/json') => ask(path, { method: 'POST', headers: { 'content-type': type }, body }),
  }
}

const thrown: Readonly<Record<string, unknown>> = {
  forbidden: new HttpError('forbidden'),
  unauthenticated: new HttpError('unauthenticated'),
  conflict: new HttpError('conflict', 'another thing has this key: choose another'),
  defect: new Error('hidden'),
  text: 'hidden',
  away: new DatabaseError('connection refused', { sqlState: '', cause: undefined }),
  query: new DatabaseError('hidden', { sqlState: '42601', cause: undefined }),
  limited: Object.assign(new Error('slow down'), { statusCode: 429 }),
}
