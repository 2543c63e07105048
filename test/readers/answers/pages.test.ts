// What is answered over HTTP: page by page, in each form, whole, and in groups.

import { describe, expect, test } from 'vitest'
import { openEtags } from '../../../readers/answers/etag.ts'
import { channel, documentsAnswer, publishers, records } from '../../conformance/reader/fixture.ts'
import { options, owner, serve, serveFixture, thing, unused } from '../served.ts'
import { documentsOf, kib } from '../sized-rows.ts'

const served = serveFixture()
const { get, raw } = served

describe('pages', () => {
  async function walk(query: string, headers = owner): Promise<{ messages: unknown[]; totals: unknown[]; links: (string | null)[] }> {
    const messages: unknown[] = []
    const totals: unknown[] = []
    const links: (string | null)[] = []
    let cursor = ''
    for (;;) {
      const answer = await get(`?${query}${cursor}`, headers)
      expect(answer.status, answer.text).toBe(200)
      messages.push(...answer.json.messages)
      totals.push(answer.json['total'])
      links.push(answer.headers.get('link'))
      if (answer.json['next_cursor'] === undefined) return { messages, totals, links }
      cursor = `&cursor=${answer.json['next_cursor'] as string}`
    }
  }
  const all = (JSON.parse(records.answer) as { messages: unknown[] }).messages

  test.each(['limit=1', 'limit=4', 'limit=4&dir=desc', 'limit=15', 'limit=16'])(
    'all pages by cursor together are complete: %s',
    async query => {
      const { messages, totals, links } = await walk(query)
      expect(messages).toEqual(all)
      expect(new Set(totals)).toEqual(new Set([all.length]))
      expect(links.at(-1)).toBeNull()
    },
  )

  test('the oldest first, of one thing, and of a format', async () => {
    expect((await walk('limit=2&dir=asc')).messages).toEqual(all.toReversed())
    const own = records.rows.flatMap((row, at) => (row.publisher === publishers[0] ? [all[at]] : []))
    expect((await walk('limit=2', thing)).messages).toEqual(own)
    expect((await walk('limit=2&format=Weather')).messages).toEqual(
      (JSON.parse(documentsAnswer('Weather')) as { messages: unknown[] }).messages,
    )
  })

  test('the link to the next page is the same request with a cursor (RFC 8288)', async () => {
    const first = await get('?limit=2&offset=1&name=a&subtopic=')
    expect(first.headers.get('link')).toBeNull()
    const answer = await get('?limit=2&offset=1&protocol=http')
    const link = answer.headers.get('link') ?? ''
    expect(link).toBe(`<?limit=2&protocol=http&cursor=${answer.json['next_cursor'] as string}>; rel="next"`)
    const next = await fetch(new URL(/<(.*)>/.exec(link)![1]!, `${served.url}/channels/${channel}/messages`), { headers: owner })
    expect(((await next.json()) as { messages: unknown[] }).messages).toEqual(all.slice(3, 5))
  })

  test('a cursor is valid only for its request and its reader', async () => {
    const { json } = await get('?limit=2')
    const cursor = json['next_cursor'] as string
    for (const [query, headers] of [
      [`?cursor=${cursor}`, thing],
      [`?cursor=${cursor}&dir=asc`, owner],
      [`?cursor=${cursor}&format=Weather`, owner],
      [`?cursor=${cursor}&latest=true`, owner],
      [`?cursor=${cursor.slice(1)}`, owner],
      ['?cursor=', owner],
    ] as const) {
      const answer = await get(query, headers)
      expect(answer.status, query).toBe(400)
      expect(answer.text).toMatch(/\/query\/cursor.*is not a cursor of this query: start again/)
    }
    expect((await get(`?cursor=${cursor}&limit=3&count=none`)).json.messages).toEqual(all.slice(2, 5))
  })

  test('a page of large records has fewer than its limit, and the next one continues after them', async () => {
    const large = documentsOf(20, 1024 * kib)
    const served = await serve({
      ...unused,
      read: async ({ after }) => (after === undefined ? large : large.slice(15)),
      count: async () => 20,
    })
    const first = await fetch(`${served.url}/channels/${channel}/messages?format=weather&limit=1000`, { headers: owner })
    const { messages, next_cursor: cursor, ...rest } = (await first.json()) as { messages: unknown[]; next_cursor: string }
    expect([messages.length, rest]).toEqual([15, { total: 20, offset: 0, limit: 1000, format: 'weather' }])
    expect(first.headers.get('link')).toBe(`<?format=weather&limit=1000&cursor=${cursor}>; rel="next"`)
    const second = await fetch(`${first.url}&cursor=${cursor}`, { headers: { ...owner, accept: 'text/csv' } })
    expect((await second.text()).split('\r\n')).toHaveLength(1 + 5 + 1)
    expect(second.headers.get('link')).toBeNull()
    await served.app.close()
  })

  test('a total is counted up to a limit, exactly, or not at all', async () => {
    const few = await serve(served.store.reader, { ...options, countMax: 5 })
    const ask = async (query: string) =>
      (await (await fetch(`${few.url}/channels/${channel}/messages${query}`, { headers: owner })).json()) as Record<string, unknown>
    expect(await ask('?limit=1')).toMatchObject({ total: 5, total_is_lower_bound: true })
    expect(await ask('?limit=1&count=exact')).toMatchObject({ total: all.length })
    expect(await ask('?limit=1&count=exact')).not.toHaveProperty('total_is_lower_bound')
    expect(await ask('?limit=1&count=none')).not.toHaveProperty('total')
    expect(await ask('?limit=1&offset=8')).toMatchObject({ total: 10, total_is_lower_bound: true })
    expect(await ask('?limit=100')).toMatchObject({ total: all.length })
    expect(await ask(`?limit=1&offset=${all.length}`)).toMatchObject({ total: 5, total_is_lower_bound: true, messages: [] })
    const { next_cursor: cursor } = await ask('?limit=1')
    expect(await ask(`?limit=1&cursor=${cursor as string}`)).toMatchObject({ total: 5, total_is_lower_bound: true })
    expect(await ask(`?limit=1&count=exact&cursor=${cursor as string}`)).toMatchObject({ total: all.length })
    await few.app.close()
  })
})

describe('formats of answers', () => {
  test('NDJSON has a record on each line', async () => {
    const { text, headers } = await raw('?limit=3', { ...owner, accept: 'application/x-ndjson' })
    expect(headers.get('content-type')).toBe('application/x-ndjson; charset=utf-8')
    expect(headers.get('link')).toMatch(/rel="next"$/)
    expect(text.endsWith('\n')).toBe(true)
    const messages = (JSON.parse(records.answer) as { messages: unknown[] }).messages
    expect(
      text
        .trimEnd()
        .split('\n')
        .map(line => JSON.parse(line) as unknown),
    ).toEqual(messages.slice(0, 3))
    expect((await raw('?name=none', { ...owner, accept: 'application/x-ndjson' })).text).toBe('')
  })

  test('CSV has a header line and the same columns', async () => {
    const { text, headers } = await raw('?limit=2', { ...owner, accept: 'text/csv' })
    expect(headers.get('content-type')).toMatch(/^text\/csv/)
    expect(text.split('\r\n')).toHaveLength(4)
    expect(text).toMatch(/^Channel,Subtopic,Publisher,Protocol,Name,Unit,Time/)
    expect((await raw('?format=Weather&limit=1', { ...owner, accept: 'text/csv' })).text).toMatch(
      /^Channel,Subtopic,Publisher,Protocol,Created,Payload\r\n/,
    )
  })

  test('an unknown format is a 406', async () => {
    const { status, text } = await raw('', { ...owner, accept: 'text/html' })
    expect([status, text]).toEqual([406, expect.stringMatching(/not_acceptable.*application\/json, application\/x-ndjson or text\/csv/)])
  })

  test('an export has every record in one answer, in each format', async () => {
    const json = await get('?limit=all')
    expect(json.json).toEqual({
      offset: 0,
      limit: 'all',
      format: 'messages',
      messages: (JSON.parse(records.answer) as { messages: unknown[] }).messages,
    })
    const lines = (await raw('?limit=all', { ...owner, accept: 'application/x-ndjson' })).text.trimEnd().split('\n')
    expect(lines).toHaveLength(records.rows.length)
    expect((await raw('?limit=all&dir=asc', { ...thing, accept: 'text/csv' })).text.split('\r\n')).toHaveLength(
      records.rows.filter(row => row.publisher === publishers[0]).length + 2,
    )
    expect((await get('?limit=all&name=none')).json.messages).toEqual([])
  })

  test('an export of more than a page is complete, with the memory of one page', async () => {
    const pages = 40
    const many = Array.from({ length: 1000 }, () => records.rows[0]!)
    let asked = 0
    const large = await serve({
      ...unused,
      read: async () => (++asked <= pages ? many : many.slice(0, 7)),
    })
    const answer = await fetch(`${large.url}/channels/${channel}/messages?limit=all`, {
      headers: { ...owner, accept: 'application/x-ndjson' },
    })
    let lines = 0
    for await (const chunk of answer.body!) lines += Buffer.from(chunk).toString('latin1').split('\n').length - 1
    expect(lines).toBe(pages * 1000 + 7)
    expect(asked).toBe(pages + 1)
    await large.app.close()
  })
})

describe('conditional requests', () => {
  const forms = ['application/json', 'application/x-ndjson', 'text/csv']
  const queries = ['?limit=3', '?limit=1000', '?limit=2&format=Weather', '?latest=true&limit=2', '?aggregation=max&interval=1d&limit=2']
  const ask = (query: string, headers: Record<string, string>) => raw(query, { ...owner, ...headers })

  test.each(forms)('%s: an unchanged page is a 304 without a body, with gzip and without', async accept => {
    for (const query of queries) {
      const tags = new Set<string>()
      for (const coding of ['identity', 'gzip']) {
        const asked = { accept, 'accept-encoding': coding }
        const { status, headers, text } = await ask(query, asked)
        const etag = headers.get('etag')!
        tags.add(etag)
        expect([status, etag, headers.get('cache-control')]).toEqual([200, expect.stringMatching(/^"[\w-]{43}"$/), 'private, no-cache'])
        for (const given of [etag, `"other", W/${etag}`, '*']) {
          const again = await ask(query, { ...asked, 'if-none-match': given })
          expect([again.status, again.text]).toEqual([304, ''])
          for (const name of ['etag', 'cache-control', 'vary', 'link']) expect(again.headers.get(name)).toBe(headers.get(name))
          expect([again.headers.get('content-type'), again.headers.get('content-encoding')]).toEqual([null, null])
        }
        expect(await ask(query, { ...asked, 'if-none-match': '"other"' })).toMatchObject({ status: 200, text })
      }
      expect(tags.size).toBe((await ask(query, { accept })).text.length < 1024 ? 1 : 2)
    }
  })

  test('only those who may read get the ETag, which depends on what they may read', async () => {
    const { headers } = await ask('?limit=1000', {})
    const given = { 'if-none-match': headers.get('etag')! }
    expect((await raw('?limit=1000', given)).status).toBe(401)
    expect((await raw('?limit=1000', { authorization: 'Bearer stranger.s.token', ...given })).status).toBe(403)
    expect((await raw('?limit=1000', { ...thing, ...given })).status).toBe(200)
    expect((await raw('?limit=0', { ...owner, ...given })).status).toBe(400)
  })

  test('a changed page, or one that now has a next page, is answered in full with another ETag', async () => {
    let stored = records.rows.slice(0, 3)
    const changing = await serve({ ...unused, read: async ({ limit }) => stored.slice(0, limit), count: async () => 5 })
    for (const accept of forms) {
      stored = records.rows.slice(0, 3)
      const ask = async (etag: string): Promise<[status: number, etag: string]> => {
        const headers = { ...owner, accept, 'if-none-match': etag }
        const answer = await fetch(`${changing.url}/channels/${channel}/messages?limit=3&count=none`, { headers })
        return [answer.status, answer.headers.get('etag')!]
      }
      const [, first] = await ask('""')
      expect(await ask(first)).toEqual([304, first])
      stored = records.rows.slice(0, 4)
      const [more, second] = await ask(first)
      stored = records.rows.slice(1, 4)
      const [other, third] = await ask(second)
      expect([more, other, new Set([first, second, third]).size]).toEqual([200, 200, 3])
    }
    await changing.app.close()
  })

  test('readers with one key give the same page the same ETag, as text and as bytes; another key gives another', () => {
    const [first, second, other] = [1, 1, 2].map(key => openEtags(Buffer.alloc(32, key)))
    const page = `{"messages":["${'grün '.repeat(1000)}"]}`
    const bytes = Buffer.from(`.${page}`).subarray(1)
    expect(second!(bytes, '')).toBe(first!(page, ''))
    expect(new Set([first!(page, ''), other!(page, ''), first!(page, '</next>'), first!(`${page} `, '')]).size).toBe(4)
  })

  test('an export has none, and must not be stored', async () => {
    const { headers } = await ask('?limit=all', {})
    expect([headers.get('etag'), headers.get('cache-control')]).toEqual([null, 'private, no-store'])
  })
})

test('the newest of each series, and aggregations', async () => {
  const latest = await get('?latest=true&limit=1000')
  expect(latest.json).toMatchObject({ total: records.rows.length })
  const buckets = await get('?aggregation=max&interval=1d&limit=2')
  expect(buckets.json.messages).toHaveLength(2)
  expect(Object.keys(buckets.json.messages[0] as object)).toEqual(
    expect.arrayContaining(['Channel', 'Publisher', 'Subtopic', 'Name', 'Time', 'Value', 'Count']),
  )
  expect(buckets.headers.get('link')).toMatch(/offset=2>; rel="next"$/)
  expect((await raw('?aggregation=max&interval=1d', { ...owner, accept: 'text/csv' })).text).toMatch(
    /^Channel,Publisher,Subtopic,Name,Unit,Time,Value,Count\r\n/,
  )
})

test('a thing that requests what another published gets nothing, and no sign of it', async () => {
  for (const query of [`publisher=${publishers[1]}`, 'publisher=nobody']) {
    expect((await get(`?${query}`, thing)).json).toEqual({ total: 0, offset: 0, limit: 10, format: 'messages', messages: [] })
    expect((await get(`?${query}&count=exact`, thing)).json).toMatchObject({ total: 0, messages: [] })
    expect((await get(`?${query}&limit=all`, thing)).json).toMatchObject({ messages: [] })
    expect((await get(`?${query}&aggregation=count&interval=1d`, thing)).json).toMatchObject({ total: 0, messages: [] })
    expect((await get(`?${query}&latest=true`, thing)).json).toMatchObject({ total: 0, messages: [] })
  }
})
