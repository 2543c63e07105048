// The formats of a channel over HTTP: who sees which, and the answers to wrong requests.

import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Access, AccessControl } from '../../control-plane/client.ts'
import { type FormatsQuery, type FoundFormat, QueryTooLargeError, type Reader, StoreUnavailableError } from '../../readers/reader.ts'
import { channel, dayUs, formats, publishers, startUs } from '../conformance/reader/fixture.ts'
import { access, looseKey, options, owner, serve, serveFixture, thing, unused } from './served.ts'

const served = serveFixture()
const startSeconds = startUs / 1e6

/** Three days after the beginning of the fixture. */
function atRest(): void {
  vi.spyOn(Date, 'now').mockReturnValue((startUs + 3 * dayUs) / 1000)
  onTestFinished(() => void vi.restoreAllMocks())
}

async function ask(url: string, query = '', headers: Record<string, string> = owner, of = channel) {
  const answer = await fetch(`${url}/channels/${of}/formats${query}`, { headers })
  return { status: answer.status, headers: answer.headers, text: await answer.text() }
}

async function serveFound(found: Reader['formats'], own: Partial<typeof options> = {}, who: AccessControl = access) {
  const { app, url } = await serve({ ...unused, read: unused.latest, formats: found }, { ...options, ...own }, who)
  onTestFinished(() => app.close())
  return url
}

const many = Array.from({ length: 101 }, (_, nth): FoundFormat => ({ format: `f${nth}`, subtopics: [], hasMore: nth === 1 }))
const documents = ['Weather', formats[4], 'room-1', 'weather', '温度'].map(format => ({
  format,
  subtopics: [{ subtopic: `house.${format}`, last: startSeconds + 2 * 86_400 }],
  more: false,
}))

test("the channel's owner gets every format of the last days, with its subtopics and their last times", async () => {
  atRest()
  const answer = await ask(served.url)
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
  const records = {
    format: 'messages',
    subtopics: [
      { subtopic: 'a', last: startSeconds + 300 * 86_400 },
      { subtopic: 'küche.温度', last: 1_793_491_199.250001 },
      { subtopic: '', last: startSeconds },
      { subtopic: 'bedroom.temperature', last: startSeconds },
    ],
    more: false,
  }
  expect(answer.text).toBe(JSON.stringify({ formats: [records, ...documents], more: false, since: startSeconds - 4 * 86_400 }))
  for (const { format, subtopics } of documents) {
    const page = await served.get(`?format=${encodeURIComponent(format)}&subtopic=${encodeURIComponent(subtopics[0]!.subtopic)}`)
    expect(page.json['total'], format).toBeGreaterThan(0)
  }
})

test('a connected thing gets what it published itself, and of fewer days less', async () => {
  atRest()
  const subtopics = async (query: string) => {
    const { formats: found } = JSON.parse((await ask(served.url, query, thing)).text) as { formats: (typeof documents)[number][] }
    return found.map(one => [one.format, ...one.subtopics.map(({ subtopic }) => subtopic)])
  }
  const own = formats.toSorted().map(format => [format, `house.${format}`])
  expect(await subtopics('?days=4')).toEqual([['messages', 'a', 'küche.温度', ''], ...own])
  expect(await subtopics('?days=1')).toEqual([['messages', 'a']])
})

type Refusal = [what: string, status: number, sentence: RegExp, query: string, headers: Record<string, string>, of: string]
const refusals: Refusal[] = [
  ['a request without a credential', 401, /Authorization: Thing <key>/, '', {}, channel],
  ['an unknown key, with a wrong request', 401, /unknown thing key/, '?days=x', { authorization: `Thing ${randomUUID()}` }, channel],
  ['a thing that is not connected', 403, /authorization over the entity/, '', { authorization: `Thing ${looseKey}` }, channel],
  ['another user', 403, /authorization over the entity/, '', { authorization: 'Bearer stranger.s.token' }, channel],
  ['another user with a wrong request', 400, /days/, '?days=0', { authorization: 'Bearer stranger.s.token' }, channel],
  ['a channel that does not exist', 403, /authorization over the entity/, '', owner, randomUUID()],
  ['a channel that is no UUID', 403, /authorization over the entity/, '', owner, 'my-channel'],
  ['a channel with a NUL', 400, /\/path\/channel/, '', owner, 'a%00b'],
  ...['0', '31', '-1', '1.5', 'x', ''].map(
    (days): Refusal => [`days=${days}`, 400, /\/query\/days.*a whole number from 1 to 30/, `?days=${days}`, owner, channel],
  ),
  ['days given twice', 400, /\/query\/days/, '?days=1&days=2', owner, channel],
  ['a parameter of pages', 400, /\/query\/format/, '?format=weather', owner, channel],
  ['a % that begins no character', 400, /does not start a UTF-8 character/, '?days=%', owner, channel],
  ['another form', 406, /give application\/json/, '', { ...owner, accept: 'text/csv' }, channel],
]

test.each(refusals)('%s is answered %i, with an error that names the problem', async (_what, status, sentence, query, headers, of) => {
  const answer = await ask(served.url, query, headers, of)
  expect(answer.status).toBe(status)
  expect(answer.text).toMatch(sentence)
})

test('a client that prefers another format gets JSON, and gzip', async () => {
  atRest()
  const url = await serveFound(async () => many)
  const headers = { ...owner, accept: 'text/csv, application/json;q=0.1', 'accept-encoding': 'gzip' }
  const answer = await ask(url, '', headers)
  expect([answer.status, answer.headers.get('content-encoding')]).toEqual([200, 'gzip'])
  expect(answer.text).toBe((await ask(url, '', { ...owner, 'accept-encoding': 'identity' })).text)
})

test('the work of a store is limited, and the answer says if something is left out', async () => {
  atRest()
  const asked: FormatsQuery[] = []
  const url = await serveFound(async query => {
    asked.push(query)
    return asked.length === 1 ? many : many.slice(0, 100)
  })
  const answers = [await ask(url, '?days=30', thing), await ask(url)].map(({ text }) => JSON.parse(text) as Record<string, unknown>)
  expect(answers.map(({ more, formats: found }) => [more, (found as unknown[]).length])).toEqual([
    [true, 100],
    [false, 100],
  ])
  expect((answers[0]!['formats'] as unknown[]).slice(0, 2)).toMatchObject([{ more: false }, { more: true }])
  const bounds = { channel, rowsMax: 10_000, formatsMax: 101, subtopicsMax: 100 }
  expect(asked).toEqual([
    { ...bounds, publisher: publishers[0], fromUs: startUs - 27 * dayUs },
    { ...bounds, publisher: undefined, fromUs: startUs - 4 * dayUs },
  ])
})

test.each([
  [new StoreUnavailableError('away'), 503, /the store is unavailable/],
  [new Error('password authentication failed'), 503, /the store is unavailable/],
  [new QueryTooLargeError('ask for less by name'), 422, /query_too_large.*give fewer days/],
])('%o of a store is answered %i', async (thrown, status, sentence) => {
  const answer = await ask(await serveFound(() => Promise.reject(thrown)))
  expect([answer.status, answer.text]).toEqual([status, expect.stringMatching(sentence)])
  expect(answer.headers.has('retry-after')).toBe(status === 503)
})

test('they count among the limited queries of one user', async () => {
  const ending = Promise.withResolvers<FoundFormat[]>()
  const begun = Promise.withResolvers<void>()
  const found: Reader['formats'] = () => {
    begun.resolve()
    return ending.promise
  }
  const url = await serveFound(found, { queriesMax: 4 })
  const first = ask(url)
  await begun.promise
  expect((await ask(url, '', thing)).status).toBe(429)
  expect((await fetch(`${url}/channels/${channel}/messages`, { headers: owner })).status).toBe(429)
  ending.resolve([])
  expect((await first).status).toBe(200)
  await expect.poll(async () => (await ask(url)).status).toBe(200)
})

test('a slow answer is sent only to those who may still read it, and the store is aborted if the client disconnects', async () => {
  let answer: Access = { allowed: true, publisher: publishers[0], owner: 'user' }
  const now = performance.now.bind(performance)
  onTestFinished(() => void vi.restoreAllMocks())
  const url = await serveFound(
    async () => {
      answer = { allowed: true, publisher: publishers[1], owner: 'user' }
      vi.spyOn(performance, 'now').mockImplementation(() => now() + 1001)
      return []
    },
    {},
    { ...access, authorize: () => Promise.resolve(answer) },
  )
  expect((await ask(url, '', thing)).status).toBe(403)

  const reading = Promise.withResolvers<AbortSignal>()
  const slow = await serveFound((_query, signal) => {
    reading.resolve(signal)
    return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason as Error)))
  })
  const client = new AbortController()
  const left = fetch(`${slow}/channels/${channel}/formats`, { headers: owner, signal: client.signal })
  const signal = await reading.promise
  client.abort()
  await expect(left).rejects.toMatchObject({ name: 'AbortError' })
  await expect.poll(() => signal.aborted).toBe(true)
})
