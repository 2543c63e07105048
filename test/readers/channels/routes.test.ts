// Several channels over HTTP: the bytes of one, its rights for each, and what is refused.

import { randomUUID } from 'node:crypto'
import { expect, onTestFinished, test } from 'vitest'
import type { AccessControl, AccessRequest } from '../../../control-plane/client.ts'
import { channel, neighbour, neighbourRow, records } from '../../conformance/reader/fixture.ts'
import { inOrder } from '../../conformance/reader/oracle.ts'
import { pageText, rowsText } from '../answers/page-text.ts'
import { access, looseKey, options, owner, serve, serveFixture, thing, unused } from '../served.ts'

const served = serveFixture()
const both = `channel=${channel}&channel=${neighbour}`

async function get(query: string, headers: Record<string, string> = owner) {
  const answer = await fetch(`${served.url}/messages?${query}`, { headers })
  const text = await answer.text()
  return { status: answer.status, headers: answer.headers, text }
}

const whole = inOrder([...records.rows, neighbourRow], 'desc')

test('one channel has the bytes and the cursor of a read of its own', async () => {
  for (const query of ['limit=2&count=exact', 'limit=1000&format=Weather', 'latest=true', 'aggregation=max&interval=1d', 'limit=all']) {
    const [alone, listed] = await Promise.all([served.raw(`?${query}`), get(`channel=${channel}&${query}`)])
    expect([listed.status, listed.text], query).toEqual([200, alone.text])
  }
})

test('two are one page after another in one order, by the cursor and by the link, as JSON, NDJSON, CSV and an export', async () => {
  const frame = { total: { total: whole.length, isExact: true }, offset: 0, limit: 1000, format: 'messages' }
  expect((await get(`${both}&limit=1000`)).text).toBe(pageText(frame, whole))
  const lines = (await get(`${both}&limit=all`, { ...owner, accept: 'application/x-ndjson' })).text
  expect(lines).toBe(whole.map(row => `${rowsText([row])}\n`).join(''))
  let text = ''
  let next: URL | undefined = new URL(`${served.url}/messages?${both}&limit=5`)
  while (next !== undefined) {
    const answer = await fetch(next, { headers: { ...owner, accept: 'text/csv' } })
    expect(answer.status).toBe(200)
    text += (await answer.text()).replace(/^Channel.*\r\n/, '')
    const link = /<(.*)>/.exec(answer.headers.get('link') ?? '')?.[1]
    next = link === undefined ? undefined : new URL(link, next)
  }
  const exported = (await get(`${both}&limit=all`, { ...owner, accept: 'text/csv' })).text
  expect(text).toBe(exported.replace(/^Channel.*\r\n/, ''))
  expect(text.split('\r\n')).toHaveLength(whole.length + 1)
})

test('a channel that is repeated, in capitals or in another place is the same request; another set of channels is not', async () => {
  const { text } = await get(`${both}&limit=2`)
  const { next_cursor: cursor } = JSON.parse(text) as { next_cursor: string }
  const other = `channel=${neighbour}&channel=${channel.toUpperCase()}&channel=${channel}`
  expect((await get(`${other}&limit=2`)).text).toBe(text)
  expect((await get(`${other}&limit=1000&cursor=${cursor}`)).text).toContain(rowsText(whole.slice(2)))
  expect((await get(`channel=${channel}&cursor=${cursor}`)).status).toBe(400)
  expect((await served.get(`?cursor=${cursor}`)).status).toBe(400)
})

const ids = (count: number): string => Array.from({ length: count }, () => `channel=${randomUUID()}`).join('&')
const stranger = { authorization: 'Bearer stranger.s.token' }

test.each([
  ['no channel', 400, /\/query\/channel.*is missing: add it/, 'limit=5', owner],
  ['more than a hundred', 400, /\/query\/channel.*is not allowed: give 1 to 100 channels/, ids(101), owner],
  ['an empty id', 400, /\/query\/channel\/1/, `channel=${channel}&channel=`, owner],
  ['an id with a NUL', 400, /\/query\/channel.*NUL/, `channel=${channel}&channel=a%00b`, owner],
  ['an id with a wrong escape', 400, /\/query\/channel.*UTF-8/, `channel=${channel}&channel=%zz`, owner],
  ['another parameter twice', 400, /\/query\/limit.*is repeated/, `${both}&limit=1&limit=2`, owner],
  ['a wrong request of another user', 400, /\/query\/limit/, `${both}&limit=0`, stranger],
  ['an unknown parameter', 400, /\/query\/chanel.*did you mean channel/, `${both}&chanel=a`, owner],
  ['no credential', 401, /Authorization: Thing <key>/, both, {}],
  ['an invalid token, with a wrong request', 401, /is invalid/, 'limit=0', { authorization: 'Bearer x.y.z' }],
  ['too much in the head', 431, /headers_too_large/, `channel=${'x'.repeat(2000)}&`.repeat(10), owner],
])('%s is answered %i', async (_what, status, sentence, query, headers) => {
  const answer = await get(query, headers)
  expect([answer.status, answer.text]).toEqual([status, expect.stringMatching(sentence)])
})

test('with a channel that is foreign or absent, wherever it is listed, the answer is that to the channel alone', async () => {
  const seen = (text: string): string => text.replace(/"request_id":"[^"]*"/, '')
  const { status, text: alone } = await served.get('', owner, randomUUID())
  expect(status).toBe(403)
  const own = `channel=${channel}`
  for (const [query, headers] of [
    [`${own}&channel=${randomUUID()}`, owner],
    [`channel=${randomUUID()}&${own}`, owner],
    [`channel=00000000-0000-4000-8000-000000000000&${own}`, owner],
    [`${own}&channel=ffffffff-0000-4000-8000-000000000000&limit=all`, owner],
    [`${own}&channel=${neighbour}`, thing],
    [`channel=${neighbour}&${own}`, thing],
    [own, stranger],
    [both, { authorization: `Thing ${looseKey}` }],
    [ids(100), owner],
  ] as const) {
    const answer = await get(query, headers)
    expect([answer.status, seen(answer.text)], query).toEqual([403, seen(alone)])
  }
})

test('an unknown key counts as one attempt, whatever the number of channels; an access that is refused ends the others', async () => {
  const requests: AccessRequest[] = []
  const answered = async (authorize: AccessControl['authorize'], query: string): Promise<number> => {
    requests.length = 0
    const who: AccessControl = {
      ...access,
      authorize(request) {
        requests.push(request)
        return authorize(request)
      },
    }
    const { app, url } = await serve({ ...unused, read: async () => [] }, options, who)
    onTestFinished(() => app.close())
    return (await fetch(`${url}/messages?${query}`, { headers: owner })).status
  }
  expect(await answered(async () => ({ allowed: false, reason: 'limited', leftMs: 1 }), ids(100))).toBe(429)
  expect(requests).toHaveLength(1)
  expect(await answered(async () => ({ allowed: true, publisher: null, owner: 'user' }), ids(100))).toBe(200)
  expect(new Set(requests.map(request => request.channel)).size).toBe(100)
  const first = [...ids(100).matchAll(/[0-9a-f-]{36}/g)].map(String).sort()
  const query = first.map(id => `channel=${id}`).join('&')
  const onlyFirst: AccessControl['authorize'] = async ({ channel: of }) =>
    of === first[0] ? { allowed: true, publisher: null, owner: 'user' } : { allowed: false, reason: 'forbidden' }
  expect(await answered(onlyFirst, query)).toBe(403)
  expect(requests.length).toBeLessThan(20)
})

test('an export of several ends when the right to one of them ends', async () => {
  let isAllowed = true
  const begun = Promise.withResolvers<void>()
  const many = Array.from({ length: 5000 }, () => neighbourRow)
  let reads = 0
  const reader = {
    ...unused,
    async read({ channel: of, limit }: { readonly channel: string; readonly limit: number }) {
      if (of === channel) return []
      if (++reads === 3) {
        // An answer that has not begun would be an error.
        await begun.promise
        isAllowed = false
      }
      return many.slice(0, limit)
    },
  }
  const who: AccessControl = {
    ...access,
    authorize: async ({ channel: of }) =>
      isAllowed || of === channel ? { allowed: true, publisher: null, owner: 'user' } : { allowed: false, reason: 'forbidden' },
  }
  const { app, url } = await serve(reader, options, who)
  onTestFinished(() => app.close())
  const answer = await fetch(`${url}/messages?${both}&limit=all`, { headers: owner })
  begun.resolve()
  expect(answer.status).toBe(200)
  await expect(answer.text()).rejects.toThrow()
  expect(reads).toBe(3)
})
