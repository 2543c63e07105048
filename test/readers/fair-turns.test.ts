// Readers of many accounts: those who ask for much do not keep out one who asks for little.

import type { AddressInfo } from 'node:net'
import { setTimeout as wait } from 'node:timers/promises'
import { Type } from 'typebox'
import { expect, onTestFinished, test } from 'vitest'
import { createLogger } from '../../config/logger.ts'
import type { AccessControl } from '../../control-plane/client.ts'
import { boundedRows, searcherOf } from '../../control-plane/requests/page.ts'
import type { Asking, Database } from '../../database/database.ts'
import { openQueue } from '../../database/mutex.ts'
import { HttpError } from '../../http/errors.ts'
import { createServer } from '../../http/server.ts'
import type { Reader, Row } from '../../readers/reader.ts'
import { channel, records } from '../conformance/reader/fixture.ts'
import { access, options, serve, unused } from './served.ts'

const greedyNames = Array.from({ length: 50 }, (_, nth) => `greedy${nth}`)
/** The owner of each token is the account of its name. */
const who: AccessControl = {
  ...access,
  authorize: async ({ credential }) => ({ allowed: true, publisher: null, owner: credential.secret }),
}

async function serveAll(reader: Partial<Reader>) {
  const { app, url } = await serve({ ...unused, read: async () => [], ...reader }, options, who)
  const leaving = new AbortController()
  onTestFinished(async () => {
    leaving.abort()
    app.server.closeAllConnections()
    await app.close()
  })
  const ask = (name: string, query = '', signal = leaving.signal): Promise<Response> =>
    fetch(query.startsWith('/') ? url + query : `${url}/channels/${channel}/messages${query}`, {
      headers: { authorization: `Bearer ${name}` },
      signal,
    })
  /** Each account asks so often at once, and again a second after each answer, as Retry-After says. */
  const askAll = (query: (nth: number) => string, each: number): void => {
    const one = async (name: string, nth: number): Promise<void> => {
      while (!leaving.signal.aborted) {
        const answer = await ask(name, query(nth)).catch(() => undefined)
        await answer?.text().catch(() => undefined)
        await wait(1000, undefined, { signal: leaving.signal }).catch(() => undefined)
      }
    }
    for (const name of greedyNames) for (let nth = 0; nth < each; nth++) void one(name, nth)
  }
  return { ask, askAll }
}

const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_resolve, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason as Error))
  })

test('50 accounts whose queries never end do not keep another one from its pages', async () => {
  let begun = 0
  const { ask, askAll } = await serveAll({
    latest(_query, signal) {
      begun++
      return untilAborted(signal)
    },
    read: async () => [records.rows[0]!],
  })
  askAll(nth => `?latest=true&limit=${nth + 1}`, 16)
  await expect.poll(() => begun).toBeGreaterThan(10)
  const answers = await Promise.all(['', '?limit=5', '?dir=asc'].map(query => ask('honest', query)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
})

test('50 accounts that read a hundred channels at once do not keep another one from its pages', async () => {
  let open = 0
  let most = 0
  const { ask, askAll } = await serveAll({
    async read({ channel: of }, signal) {
      if (of === channel) return [records.rows[0]!]
      most = Math.max(most, ++open)
      return await untilAborted(signal).finally(() => open--)
    },
  })
  const hundred = Array.from({ length: 100 }, (_, nth) => `&channel=fleet-${nth}`).join('')
  askAll(nth => `/messages?limit=${nth + 1}${hundred}`, 16)
  await expect.poll(() => most).toBeGreaterThan(6)
  const answers = await Promise.all(['', '?limit=5', '?dir=asc'].map(query => ask('honest', query)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
})

test.each([
  ['of a field', `?format=weather&field=payload.t&aggregation=avg&interval=1d`],
  ['of several channels', `/messages?channel=${channel}&channel=other&aggregation=avg&interval=1d`],
])('four aggregations %s are merged at once, and others after them', async (_what, query) => {
  const ends = new Set<() => void>()
  let most = 0
  async function held<Answer>(answer: Answer, of: string, signal: AbortSignal): Promise<Answer> {
    if (of !== channel) return answer
    const { promise, resolve } = Promise.withResolvers<void>()
    ends.add(resolve)
    most = Math.max(most, ends.size)
    return await Promise.race([promise.then(() => answer), untilAborted(signal)]).finally(() => ends.delete(resolve))
  }
  const { ask } = await serveAll({
    read: ({ channel: of }, signal) => held([], of, signal),
    aggregate: ({ channel: of }, signal) => held({ groups: [], total: 0 }, of, signal),
  })
  let left = 8
  const answers = greedyNames.slice(0, left).map(async name => {
    const { status } = await ask(name, query)
    left--
    return status
  })
  await expect.poll(() => ends.size).toBeGreaterThan(3)
  await expect
    .poll(() => {
      for (const end of ends) end()
      return left
    })
    .toBe(0)
  expect([await Promise.all(answers), most]).toEqual([Array.from({ length: 8 }, () => 200), 4])
})

test('50 accounts whose exports never end do not keep another one from an export', async () => {
  const many: Row[] = Array.from({ length: 128 }, () => records.rows[0]!)
  let open = 0
  const { ask, askAll } = await serveAll({
    async read({ after, name }, signal) {
      if (name === 'honest') return []
      if (after === undefined) return many
      open++
      return await untilAborted(signal)
    },
  })
  askAll(() => '?limit=all', 16)
  await expect.poll(() => open).toBeGreaterThan(9)
  const answer = await ask('honest', '?limit=all&name=honest')
  expect([answer.status, ((await answer.json()) as { messages: unknown[] }).messages]).toEqual([200, []])
})

test('50 accounts whose queries and exports never end do not keep another one from a long export, nor a third from its pages', async () => {
  let begun = 0
  let chunks = 0
  let rows = 0
  const { ask, askAll } = await serveAll({
    latest(_query, signal) {
      begun++
      return untilAborted(signal)
    },
    async read({ after, limit, name }, signal) {
      if (name === 'page') return [records.rows[0]!]
      if (name !== 'long') return after === undefined ? Array.from({ length: limit }, () => records.rows[0]!) : await untilAborted(signal)
      if (chunks++ === 6) return []
      rows += limit
      return Array.from({ length: limit }, () => records.rows[0]!)
    },
  })
  askAll(nth => (nth % 2 === 0 ? `?latest=true&limit=${nth + 1}` : '?limit=all'), 16)
  await expect.poll(() => begun).toBeGreaterThan(10)
  const pages = async (): Promise<number[]> => {
    const statuses: number[] = []
    for (let nth = 1; nth <= 5; nth++) statuses.push((await ask('reader', `?name=page&limit=${nth}`)).status)
    return statuses
  }
  const [answer, statuses] = await Promise.all([ask('exporter', '?limit=all&name=long'), pages()])
  const { messages } = (await answer.json()) as { messages: unknown[] }
  expect([answer.status, messages.length, statuses]).toEqual([200, rows, [200, 200, 200, 200, 200]])
  expect(chunks).toBe(7)
})

/** A search of the control plane. */
const search = (database: Database, name: string, signal: AbortSignal): Promise<unknown> =>
  boundedRows(database, { user: name as never, signal }, 'narrow it', 'SELECT', []).catch((error: unknown) => error)

/** Stands in for the embedded database: one statement at a time, the first come first. */
function openEmbeddedStandIn(statement: () => Promise<unknown> = () => wait(5)) {
  const queue = openQueue(200)
  let searches = 0
  const query = (_sql: string, _values: unknown, asking: Asking): Promise<unknown[]> =>
    queue(async () => {
      searches++
      await statement()
      return []
    }, asking)
  const database = { kind: 'embedded', connectionsMax: 1, query } as unknown as Database
  return { database, queue, searches: () => searches }
}

test('a page waits for one search at most, however many search', async () => {
  const { database, queue, searches } = openEmbeddedStandIn()
  const searchedMeanwhile: number[] = []
  const { ask } = await serveAll({
    read(_query, signal) {
      const before = searches()
      const statement = async (): Promise<Row[]> => {
        searchedMeanwhile.push(searches() - before)
        return [records.rows[0]!]
      }
      return queue(statement, { signal, priority: 'reader' })
    },
  })
  const leaving = new AbortController()
  onTestFinished(() => leaving.abort())
  for (const name of greedyNames) for (let nth = 0; nth < 10; nth++) void search(database, name, leaving.signal)
  const answers = await Promise.all(['', '?limit=5', '?dir=asc'].map(query => ask('honest', query)))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200])
  // One more than what runs, if that one waited in the queue already.
  expect(Math.max(...searchedMeanwhile)).toBeLessThan(3)
})

test('a user who searches little is before one who searches much, who has a quarter of what may wait', async () => {
  const { database } = openEmbeddedStandIn()
  const { signal } = new AbortController()
  const order: string[] = []
  const searchNoted = async (name: string): Promise<unknown> => {
    const answer = await search(database, name, signal)
    if (!(answer instanceof HttpError)) order.push(name)
    return answer
  }
  const greedy = Array.from({ length: 70 }, () => searchNoted('greedy'))
  await searchNoted('honest')
  expect(order.length).toBeLessThan(4)
  const refused = (await Promise.all(greedy)).filter(answer => answer instanceof HttpError)
  expect(refused.map(({ code }) => code)).toEqual(Array.from({ length: 6 }, () => 'too_many_requests'))
})

test('a search leaves when its client is gone, and not when its body was read', async () => {
  const gate = Promise.withResolvers<void>()
  const { database, searches } = openEmbeddedStandIn(() => gate.promise)
  const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  let begun = 0
  let ended = 0
  app.post('/search', { schema: { body: Type.Object({}) } }, async (_request, reply) => {
    begun++
    const by = searcherOf('greedy' as never, reply)
    const rows = await boundedRows(database, by, 'narrow it', 'SELECT', []).finally(() => ended++)
    return { found: rows.length }
  })
  await app.listen({ host: '127.0.0.1', port: 0 })
  onTestFinished(async () => {
    gate.resolve()
    await app.close()
  })
  const post = (signal: AbortSignal): Promise<Response> =>
    fetch(`http://127.0.0.1:${(app.server.address() as AddressInfo).port}/search`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: '{}',
      signal,
    })
  const leaving = new AbortController()
  const first = post(new AbortController().signal)
  await expect.poll(searches).toBe(1)
  const waiting = Array.from({ length: 10 }, () => post(leaving.signal).catch(() => undefined))
  await expect.poll(() => begun).toBe(11)
  leaving.abort()
  await Promise.all(waiting)
  await expect.poll(() => ended).toBe(10)
  const last = post(new AbortController().signal)
  await expect.poll(() => begun).toBe(12)
  gate.resolve()
  expect([(await first).status, (await last).status]).toEqual([200, 200])
  expect(searches()).toBe(2)
})

test('a quarter of the connections search; one is dropped when another account gets its turn, not when its client is gone', async () => {
  const done = Promise.withResolvers<unknown[]>()
  let running = 0
  let most = 0
  let dropped = 0
  function transaction(_work: unknown, signal: AbortSignal): Promise<unknown[]> {
    most = Math.max(most, ++running)
    const broken = Promise.withResolvers<never>()
    signal.addEventListener('abort', () => {
      running--
      dropped++
      broken.reject(signal.reason as Error)
    })
    return Promise.race([done.promise, broken.promise])
  }
  const database = { kind: 'server', connectionsMax: 8, transaction } as unknown as Database
  const leaving = new AbortController()
  const gone = search(database, 'gone', leaving.signal)
  await expect.poll(() => running).toBe(1)
  leaving.abort()
  expect([running, dropped]).toEqual([1, 0])
  const { signal } = new AbortController()
  const searches = greedyNames.slice(0, 10).map(name => search(database, name, signal))
  await expect.poll(() => dropped).toBeGreaterThan(2)
  expect(most).toBe(2)
  done.resolve([])
  expect(await Promise.all(searches)).toEqual(searches.map(() => []))
  await gone
})
