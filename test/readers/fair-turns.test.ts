// Readers of many accounts: those who ask for much do not keep out one who asks for little.

import { setTimeout as wait } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import type { AccessControl } from '../../control-plane/client.ts'
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
    fetch(`${url}/channels/${channel}/messages${query}`, { headers: { authorization: `Bearer ${name}` }, signal })
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
