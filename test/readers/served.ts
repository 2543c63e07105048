// A reader over HTTP for the tests of its routes: who may read is made up, the store is real.

import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll } from 'vitest'
import { createLogger } from '../../config/logger.ts'
import type { AccessControl } from '../../control-plane/client.ts'
import { createServer, type HttpServer } from '../../http/server.ts'
import { openCursors } from '../../readers/cursor.ts'
import type { ReaderOptions } from '../../readers/options.ts'
import type { Reader } from '../../readers/reader.ts'
import { readerRoutes } from '../../readers/routes.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { channel, documents, neighbour, publishers, records } from '../conformance/reader/fixture.ts'
import { openEmbeddedSite, type PostgresSite } from './postgres/site.ts'

const key = randomUUID()
export const looseKey = randomUUID()
export const owner = { authorization: 'Bearer owner.s.token' }
export const thing = { authorization: `Thing ${key}` }

export const options: ReaderOptions = {
  limitMax: 1000,
  offsetMax: 100_000,
  countMax: 10_000,
  queriesMax: 256,
  exportsMax: 64,
  idleSeconds: 60,
}
export const cursorKey = Buffer.alloc(32, 7)
export const cursors = openCursors(cursorKey)

/** The first publisher's key, an unconnected thing's, the owner's token and a stranger's. */
export const access: AccessControl & { fail?: Error } = {
  async authorize({ credential, channel: asked }) {
    if (this.fail !== undefined) throw this.fail
    const known = credential.scheme === 'Thing' ? [key, looseKey] : ['owner.s.token', 'stranger.s.token']
    if (!known.includes(credential.secret)) return { allowed: false, reason: 'unauthenticated' }
    const isOwned = asked === channel || (asked === neighbour && credential.scheme === 'Bearer')
    if (!isOwned || credential.secret !== known[0]) return { allowed: false, reason: 'forbidden' }
    return { allowed: true, publisher: credential.scheme === 'Thing' ? publishers[0] : null, owner: 'user' }
  },
  deletedChannels: async () => [],
  onChange: () => () => undefined,
}

function unexpected(): never {
  throw new Error('no test asks for it')
}
/** Of a reader that is asked for nothing else but, beside a page, for its total. */
export const unused = {
  count: () => Promise.resolve(0),
  latest: unexpected,
  aggregate: unexpected,
  formats: unexpected,
  check: () => Promise.resolve(),
  close: () => Promise.resolve(),
}

export async function serve(
  reader: Reader,
  { queriesAtOnce = 10, ...own }: ReaderOptions & { readonly queriesAtOnce?: number } = options,
  who: AccessControl = access,
  logger = createLogger({ level: 'silent', pretty: false }),
): Promise<{ app: HttpServer; url: string }> {
  const app = createServer({ logger })
  await app.register(readerRoutes({ reader, access: who, key: cursorKey, options: own, queriesAtOnce }))
  await app.listen({ host: '127.0.0.1', port: 0 })
  return { app, url: `http://127.0.0.1:${(app.server.address() as AddressInfo).port}` }
}

export interface Served {
  readonly store: PostgresSite
  readonly url: string
  readonly raw: (
    query: string,
    headers?: Record<string, string>,
    of?: string,
  ) => Promise<{ status: number; headers: Headers; text: string }>
  /** As the owner, with a query that nothing escapes. */
  readonly bare: (query: string) => Promise<{ status: number; text: string }>
  readonly get: (
    query: string,
    headers?: Record<string, string>,
    of?: string,
  ) => Promise<{ status: number; headers: Headers; text: string; json: Record<string, unknown> & { messages: unknown[] } }>
}

/** What the owner is answered to a URL as it is: fetch would escape it. */
async function askBare(url: string): Promise<{ status: number; text: string }> {
  const { hostname, port } = new URL(url)
  const path = url.slice(url.indexOf('/', 'http://'.length))
  // A head that is refused ends the connection, maybe before it is sent to its end.
  const asking = request({ hostname, port, agent: false, headers: owner }).on('error', () => undefined)
  // The check of its own path is what is passed by here: other clients have none.
  asking.path = path
  const [answer] = (await once(asking.end(), 'response')) as [IncomingMessage]
  return { status: answer.statusCode!, text: Buffer.concat((await answer.toArray()) as Buffer[]).toString() }
}

/** The fixture, stored and served while the tests of the file run. */
export function serveFixture(): Served {
  let store: PostgresSite
  let app: HttpServer
  let url: string
  beforeAll(async () => {
    store = await openEmbeddedSite()
    const batch = new RecordBatch()
    records.appendTo(batch)
    documents.appendTo(batch)
    await store.store(batch)
    ;({ app, url } = await serve(store.reader))
  })
  afterAll(async () => {
    await app.close()
    await store.close()
  })
  const served: Served = {
    get store() {
      return store
    },
    get url() {
      return url
    },
    async raw(query, headers = owner, of = channel) {
      const answer = await fetch(`${url}/channels/${of}/messages${query}`, { headers })
      return { status: answer.status, headers: answer.headers, text: await answer.text() }
    },
    bare: query => askBare(`${url}/channels/${channel}/messages${query}`),
    async get(query, headers, of) {
      const answer = await served.raw(query, headers, of)
      return { ...answer, json: JSON.parse(answer.text) as Record<string, unknown> & { messages: unknown[] } }
    },
  }
  return served
}
