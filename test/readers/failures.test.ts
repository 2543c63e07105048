// What fails while a store is asked: what is answered, and what the log says.

import { once } from 'node:events'
import { request } from 'node:http'
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { createLogger } from '../../config/logger.ts'
import type { Row } from '../../readers/reader.ts'
import { channel, records } from '../conformance/reader/fixture.ts'
import { takeFaults } from '../described-answers/faults.ts'
import { access, options, owner, serve, unused } from './served.ts'

type Read = (query: unknown, signal: AbortSignal) => Promise<readonly Row[]>

/** A store that is read so, and the lines of its log. */
async function serveLogged(read: Read) {
  const log = new PassThrough()
  const served = await serve({ ...unused, read }, options, access, createLogger({ level: 'trace', pretty: false }, log))
  const lines = (): Record<string, unknown>[] =>
    String(log.read() ?? '')
      .split('\n')
      .filter(line => line !== '')
      .map(line => JSON.parse(line) as Record<string, unknown>)
  return { ...served, lines, messages: `${served.url}/channels/${channel}/messages` }
}

test('an error that a store throws is an outage of it, with the cause in the log', async () => {
  const { app, messages, lines } = await serveLogged(() => Promise.reject(new Error('password authentication failed for user "reader"')))
  const answer = await fetch(messages, { headers: owner })
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
  expect(await answer.text()).not.toMatch(/password/)
  await fetch(messages, { headers: owner })
  const [first, second] = lines()
  expect(first).toMatchObject({ level: 'warn', msg: expect.stringMatching(/^request not served \(.*password authentication failed/) })
  expect(first).not.toHaveProperty('err')
  expect(second).toMatchObject({ level: 'debug', msg: expect.stringMatching(/^request not served/) })
  await app.close()
})

test.each([TypeError, RangeError, ReferenceError, SyntaxError])('a programming error is not an outage of the store: %o', async kind => {
  const { app, messages, lines } = await serveLogged(() => Promise.reject(new kind('a is not b')))
  expect((await fetch(messages, { headers: owner })).status).toBe(500)
  expect(takeFaults()).toEqual([expect.stringContaining('answers 500')])
  expect(lines()).toMatchObject([{ level: 'error', msg: 'request failed', err: { message: 'a is not b' } }])
  await app.close()
})

const gzip = { ...owner, 'accept-encoding': 'gzip' }

test.each([
  ['', owner],
  ['?limit=all', owner],
  ['?limit=all', gzip],
])('nothing is logged for a client that disconnected: %s %j', async (query, headers) => {
  const reading = Promise.withResolvers<AbortSignal>()
  const many = Array.from({ length: 1000 }, () => records.rows[0]!)
  let asked = 0
  const { app, messages, lines } = await serveLogged((_query, signal) => {
    // Of an export the second page is waited for.
    if (query !== '' && ++asked === 1) return Promise.resolve(many)
    reading.resolve(signal)
    return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
  })
  const client = request(messages + query, { headers, agent: false }).on('error', () => undefined)
  client.end()
  const signal = await reading.promise
  const gone = once(signal, 'abort')
  client.destroy()
  await gone
  // Waits for what is under way.
  await app.close()
  expect(lines()).toEqual([])
})
