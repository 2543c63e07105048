// Reading over HTTP: who reads what, and what a wrong request is answered.

import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import { createLogger } from '../../config/logger.ts'
import { type AccessControl, AccessUnavailableError, storedIdLengthMax } from '../../control-plane/client.ts'
import { openapiRoutes } from '../../http/openapi/openapi.ts'
import { createServer } from '../../http/server.ts'
import { QueryTooLargeError, StoreUnavailableError } from '../../readers/reader.ts'
import { readerRoutes } from '../../readers/routes.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'
import { channel, documentsAnswer, publishers, records, startUs } from '../conformance/reader/fixture.ts'
import { pageText } from './answers/page-text.ts'
import { access, cursorKey, looseKey, options, owner, serve, serveFixture, thing, unused } from './served.ts'

const served = serveFixture()
const { get } = served

test("the channel's owner reads the whole channel, in canonical bytes", async () => {
  const answer = await get('?limit=1000')
  expect(answer.status).toBe(200)
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(answer.text).toBe(records.answer)
})

test('a connected thing reads what it published itself, and nothing of others', async () => {
  const answer = await get('?limit=1000', thing)
  const rows = records.rows.filter(row => row.publisher === publishers[0])
  expect(answer.text).toBe(pageText({ total: { total: rows.length, isExact: true }, offset: 0, limit: 1000, format: 'messages' }, rows))
})

test('without parameters the ten newest of SenML are read (SPEC §8)', async () => {
  const answer = await get('')
  expect(answer.json).toMatchObject({ total: records.rows.length, offset: 0, limit: 10, format: 'messages' })
  const nextCursor = answer.json['next_cursor'] as string
  const frame = { total: { total: records.rows.length, isExact: true }, offset: 0, limit: 10, format: 'messages', nextCursor }
  expect(answer.text).toBe(pageText(frame, records.rows.slice(0, 10)))
})

test('offset and limit select the page', async () => {
  const answer = await get('?offset=3&limit=2')
  expect(answer.json).toMatchObject({ total: records.rows.length, offset: 3, limit: 2 })
  expect(answer.json.messages).toEqual((JSON.parse(records.answer) as { messages: unknown[] }).messages.slice(3, 5))
})

test('a format is read by its name, escaped like any text in a query', async () => {
  expect((await get(`?limit=1000&format=${encodeURIComponent('温度')}`)).text).toBe(documentsAnswer('温度'))
  expect((await get('?format=Weather&limit=1000')).text).toBe(documentsAnswer('Weather'))
  expect((await get('?format=unknown')).text).toBe('{"total":0,"offset":0,"limit":10,"format":"unknown","messages":[]}')
})

test('a channel in upper case is the same channel', async () => {
  expect((await get('?limit=1000', owner, channel.toUpperCase())).text).toBe(records.answer)
  const exports = await Promise.all([channel, channel.toUpperCase()].map(of => get('?limit=all', owner, of)))
  expect(exports.map(({ status }) => status)).toEqual([200, 200])
  expect(exports[1]!.text).toBe(exports[0]!.text)
})

test('a channel whose id is not a UUID is read by who may, page by page, with the id as it is in the store', async () => {
  const own = 'plant/1. ü%2F'
  const batch = new RecordBatch()
  batch.beginMessage({ at: logPartition(0, 9), offset: 0, channel: own, subtopic: '', publisher: 'p', protocol: 'kafka' })
  for (const index of [0, 1])
    batch.appendRecord(index, `n${index}`, undefined, startUs, ValueKind.number, 1, undefined, Number.NaN, Number.NaN)
  batch.endMessage()
  batch.cover(logPartition(0, 9), 0, 1)
  await served.store.store(batch)
  const asked: string[] = []
  const administrators: AccessControl = {
    async authorize({ channel: of }) {
      asked.push(of)
      return { allowed: true, publisher: null, owner: 'administrator' }
    },
    deletedChannels: async () => [],
    onChange: () => () => undefined,
  }
  const { app, url } = await serve(served.store.reader, options, administrators)
  onTestFinished(() => app.close())
  const names: unknown[] = []
  let next: URL | undefined = new URL(`${url}/channels/${encodeURIComponent(own)}/messages?limit=1`)
  while (next !== undefined) {
    const answer = await fetch(next, { headers: owner })
    names.push(...((await answer.json()) as { messages: { Channel: string; Name: string }[] }).messages.map(one => [one.Channel, one.Name]))
    const link = /<(.*)>/.exec(answer.headers.get('link') ?? '')?.[1]
    next = link === undefined ? undefined : new URL(link, next)
  }
  expect(names).toEqual([
    [own, 'n1'],
    [own, 'n0'],
  ])
  expect(new Set(asked)).toEqual(new Set([own]))
})

type Refusal = [what: string, status: number, sentence: RegExp, query: string, headers: Record<string, string>, of: string]
const refusals: Refusal[] = [
  ['a request without a credential', 401, /Authorization: Thing <key>.*Authorization: Bearer <token>/, '', {}, channel],
  ['another scheme', 401, /Authorization: Thing/, '', { authorization: 'Basic abc' }, channel],
  ['an unknown key', 401, /unknown thing key/, '', { authorization: `Thing ${randomUUID()}` }, channel],
  ['an invalid token', 401, /is invalid or has expired/, '', { authorization: 'Bearer x.y.z' }, channel],
  ['an invalid token, with a wrong request', 401, /is invalid/, '?limit=x&a=1&a=2', { authorization: 'Bearer x.y.z' }, 'my-channel'],
  ['a thing that is not connected', 403, /authorization over the entity/, '', { authorization: `Thing ${looseKey}` }, channel],
  ['another user', 403, /authorization over the entity/, '', { authorization: 'Bearer stranger.s.token' }, channel],
  ['a channel that does not exist', 403, /authorization over the entity/, '', owner, randomUUID()],
  ['another user with a wrong request', 400, /limit/, '?limit=0', { authorization: 'Bearer stranger.s.token' }, channel],
  ['a channel that is no UUID', 403, /authorization over the entity/, '', owner, 'my-channel'],
  ['a channel that is no UUID, by a URN', 403, /authorization over the entity/, '', owner, `urn:uuid:${channel}`],
  ['a channel with a NUL', 400, /\/path\/channel/, '', owner, 'a%00b'],
  ...['-1', 'abc', '0', '1001', '', '1.5', '1e2', '%201', '0x10', '99999999999999999999'].map(
    (limit): Refusal => [`limit=${limit}`, 400, /\/query\/limit.*a whole number from 1 to 1000/, `?limit=${limit}`, owner, channel],
  ),
  ...['-1', 'abc', '', '9007199254740992', 'NaN', '1.0'].map(
    (offset): Refusal => [`offset=${offset}`, 400, /\/query\/offset.*a whole number from 0/, `?offset=${offset}`, owner, channel],
  ),
  ['a repeated limit', 400, /\/query\/limit.*is repeated/, '?limit=1&limit=1', owner, channel],
  ['a repeated format', 400, /\/query\/format.*is repeated/, '?format=a&format=b', owner, channel],
  ['an unknown parameter', 400, /\/query\/limmit.*limit/, '?limmit=5', owner, channel],
  ['an unknown parameter far from all', 400, /\/query\/publisher_name/, '?publisher_name=5', owner, channel],
  ['an empty format', 400, /\/query\/format/, '?format=', owner, channel],
  ['a format with a NUL', 400, /\/query\/format/, '?format=a%00b', owner, channel],
  ['a format that is not escaped', 400, /\/query\/format.*does not start a UTF-8 character/, '?format=100%', owner, channel],
  ['a name that is not UTF-8', 400, /\/query\/name.*does not start a UTF-8 character/, '?name=%E6%B8', owner, channel],
  [
    'a wrong escape, of another user',
    400,
    /does not start a UTF-8 character/,
    '?name=%',
    { authorization: 'Bearer stranger.s.token' },
    channel,
  ],
  ['a path that is not escaped', 400, /not a valid URL path/, '', owner, '%E0%A4'],
  ['an instant with an exponent', 400, /\/query\/from.*seconds since 1970/, '?from=1e9', owner, channel],
  ['a path of 100 keys', 400, /is deeper than the 64 levels/, `?format=Weather&payload.${'a.'.repeat(99)}b=1`, owner, channel],
  ['a format that is too long', 400, /\/query\/format/, `?format=${'a'.repeat(storedIdLengthMax + 1)}`, owner, channel],
  ['an id that is too long', 400, /too long/, '', owner, 'a'.repeat(storedIdLengthMax + 1)],
]

test.each(refusals)('%s is answered %i, with an error that names the problem', async (_what, status, sentence, query, headers, of) => {
  const answer = await get(query, headers, of)
  expect(answer.json).toMatchObject({ status, error: expect.any(String), code: expect.any(String), request_id: expect.any(String) })
  expect(answer.status).toBe(status)
  expect(answer.text).toMatch(sentence)
})

test('a refusal lists the accepted schemes', async () => {
  expect((await get('', {})).headers.get('www-authenticate')).toBe('Thing realm="sluice", Bearer realm="sluice"')
})

test('unescaped characters are refused and not read as others', async () => {
  const answer = await served.bare(`?name=${Buffer.from('温度').toString('latin1')}`)
  expect([answer.status, answer.text]).toEqual([400, expect.stringMatching(/Invalid char in url/)])
})

test('a value of 100 KB is refused as part of a head that is too large', async () => {
  const answer = await served.bare(`?name=${'a'.repeat(100_000)}`)
  expect([answer.status, answer.text]).toEqual([431, expect.stringMatching(/headers_too_large/)])
})

test('times that no record has are requests like any other', async () => {
  for (const format of ['messages', 'Weather']) {
    const all = (await get(`?format=${format}&limit=1000`)).text
    expect((await get(`?format=${format}&limit=1000&from=-999999999999&to=999999999999.999999999`)).text).toBe(all)
    for (const none of [
      'from=999999999999',
      'to=-999999999999',
      'from=9223372036',
      'to=-9223372036.5',
      'from=-70000000000&to=-60000000000',
    ])
      expect((await get(`?format=${format}&${none}`)).json, none).toMatchObject({ total: 0, messages: [] })
  }
})

test('a request for a range of bytes is answered in full', async () => {
  const answer = await get('?limit=1000', { ...owner, range: 'bytes=0-10' })
  expect([answer.status, answer.text]).toEqual([200, records.answer])
})

test('a format of the maximum length is a request like any other', async () => {
  expect((await get(`?format=${'a'.repeat(storedIdLengthMax)}`)).json).toMatchObject({ total: 0 })
})

test('the longest ids that are stored can be asked for', async () => {
  const longest = '温'.repeat(682) + 'xy'
  expect(Buffer.byteLength(longest)).toBe(storedIdLengthMax)
  const more = ['publisher', 'subtopic'].map(name => `&${name}=${encodeURIComponent(longest.slice(0, 500))}`).join('')
  // Not the owner's, so 403 and not 400.
  expect((await get(`?limit=1${more}`, owner, encodeURIComponent(longest))).status).toBe(403)
  for (const name of ['publisher', 'subtopic'])
    expect((await get(`?${name}=${'x'.repeat(storedIdLengthMax)}`)).json).toMatchObject({ total: 0 })
})

test('if permissions cannot be checked the answer is 503 with Retry-After', async () => {
  access.fail = new AccessUnavailableError('away')
  try {
    const answer = await get('')
    expect(answer.status).toBe(503)
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
  } finally {
    delete access.fail
  }
})

test('if the store is unavailable the answer is 503 with Retry-After', async () => {
  const away = await serve({
    ...unused,
    read: () => Promise.reject(new StoreUnavailableError('away')),
  })
  const answer = await fetch(`${away.url}/channels/${channel}/messages`, { headers: owner })
  expect(answer.status).toBe(503)
  expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
  expect(await answer.text()).toMatch(/the store is unavailable/)
  await away.app.close()
})

test('a request that costs too much is a 422 that says what to narrow', async () => {
  const busy = await serve({
    ...unused,
    read: () => Promise.reject(new QueryTooLargeError('ask for less')),
  })
  const answer = await fetch(`${busy.url}/channels/${channel}/messages`, { headers: owner })
  expect([answer.status, await answer.text()]).toEqual([422, expect.stringMatching(/query_too_large.*ask for less/)])
  await busy.app.close()
})

test('when the client disconnects, the read is aborted', async () => {
  const reading = Promise.withResolvers<AbortSignal>()
  const slow = await serve({
    ...unused,
    read: (_query, signal) =>
      new Promise((_resolve, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason as Error))
        reading.resolve(signal)
      }),
  })
  const client = new AbortController()
  const answer = fetch(`${slow.url}/channels/${channel}/messages`, { headers: owner, signal: client.signal })
  const signal = await reading.promise
  expect(signal.aborted).toBe(false)
  client.abort()
  await expect(answer).rejects.toMatchObject({ name: 'AbortError' })
  await expect.poll(() => signal.aborted).toBe(true)
  await slow.app.close()
})

test('the description lists the errors, and an error is answered in full, whatever its schema contains', async () => {
  const described = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  openapiRoutes(described, { version: '0' })
  await described.register(readerRoutes({ reader: served.store.reader, access, key: cursorKey, options, queriesAtOnce: 10 }))
  const { paths } = (await described.inject('/openapi.json')).json<{ paths: Record<string, { get: { responses: object } }> }>()
  await described.close()
  const statuses = ['400', '401', '403', '406', '421', '422', '429', '431', '503']
  expect(Object.values(paths).map(({ get }) => Object.keys(get.responses))).toEqual([
    ['200', '304', ...statuses],
    ['200', '304', ...statuses],
    ['200', ...statuses],
  ])

  const answer = await get('?limit=0', { ...owner, accept: 'application/problem+json' })
  expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  expect(answer.json).toMatchObject({ type: 'about:blank', title: 'the request is malformed', errors: [{ pointer: '/query/limit' }] })
})
