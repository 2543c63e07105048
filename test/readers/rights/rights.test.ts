// Rights that end, and requests whose answer can contain nothing: it looks like any other empty one.

import { expect, test, vi } from 'vitest'
import type { Access, AccessRequest } from '../../../control-plane/client.ts'
import type { Row } from '../../../readers/reader.ts'
import { channel, publishers, records } from '../../conformance/reader/fixture.ts'
import { access, options, owner, serve, serveFixture, thing, unused } from '../served.ts'

const served = serveFixture()
const { get } = served
const many: Row[] = Array.from({ length: 1000 }, () => records.rows[0]!)

test('an export ends when the permission to read ends', async () => {
  let answer: Access = { allowed: true, publisher: null, owner: 'user' }
  let asked = 0
  const ending = await serve(
    {
      ...unused,
      read: async () => {
        if (++asked === 3) answer = { allowed: false, reason: 'forbidden' }
        return many
      },
    },
    options,
    { ...access, authorize: () => Promise.resolve(answer) },
  )
  const exported = await fetch(`${ending.url}/channels/${channel}/messages?limit=all`, { headers: owner })
  expect(exported.status).toBe(200)
  await expect(exported.text()).rejects.toThrow()
  expect(asked).toBe(3)
  await ending.app.close()
})

test('an export ends when its key belongs to another thing', async () => {
  let publisher: string = publishers[0]
  let asked = 0
  const moving = await serve(
    {
      ...unused,
      read: async () => {
        if (++asked === 3) publisher = publishers[1]
        return many
      },
    },
    options,
    { ...access, authorize: () => Promise.resolve({ allowed: true, publisher, owner: 'user' }) },
  )
  const exported = await fetch(`${moving.url}/channels/${channel}/messages?limit=all`, { headers: thing })
  expect(exported.status).toBe(200)
  await expect(exported.text()).rejects.toThrow()
  expect(asked).toBe(3)
  await moving.app.close()
})

test.each([
  { takesMs: 1001, after: { allowed: false, reason: 'forbidden' }, status: 403 },
  { takesMs: 1001, after: { allowed: true, publisher: publishers[1], owner: 'user' }, status: 403 },
  { takesMs: 1001, after: { allowed: true, publisher: publishers[0], owner: 'user' }, status: 200 },
  { takesMs: 900, after: { allowed: false, reason: 'forbidden' }, status: 200 },
] as const)(
  'a page after $takesMs ms is sent only to those who may still read it: $after is $status',
  async ({ takesMs, after, status }) => {
    let answer: Access = { allowed: true, publisher: publishers[0], owner: 'user' }
    let nowMs = performance.now()
    vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
    const slow = await serve(
      {
        ...unused,
        read: async () => {
          answer = after
          nowMs += takesMs
          return records.rows
        },
      },
      options,
      { ...access, authorize: () => Promise.resolve(answer) },
    )
    expect((await fetch(`${slow.url}/channels/${channel}/messages`, { headers: thing })).status).toBe(status)
    vi.restoreAllMocks()
    await slow.app.close()
  },
)

test('nothing is read for a client that disconnects during authentication', async () => {
  const asking = Promise.withResolvers<void>()
  const known = Promise.withResolvers<Access>()
  const read: number[] = []
  const slow = await serve(
    {
      ...unused,
      read: ({ limit }) => {
        read.push(limit)
        return Promise.resolve([])
      },
    },
    options,
    {
      ...access,
      authorize: () => {
        asking.resolve()
        return known.promise
      },
    },
  )
  const closed = Promise.withResolvers<void>()
  slow.app.server.on('connection', socket => socket.on('close', closed.resolve))
  const client = new AbortController()
  const answer = fetch(`${slow.url}/channels/${channel}/messages`, { headers: owner, signal: client.signal })
  await asking.promise
  client.abort()
  await expect(answer).rejects.toMatchObject({ name: 'AbortError' })
  await closed.promise
  known.resolve({ allowed: true, publisher: null, owner: 'user' })
  // By then the first one's turn is over.
  const other = await fetch(`${slow.url}/channels/${channel}/messages?limit=7`, { headers: owner })
  expect(other.status).toBe(200)
  expect(read).toEqual([8])
  await slow.app.close()
})

test('a forbidden channel and a missing one have the same answer', async () => {
  for (const more of [
    '',
    '&count=none',
    '&count=exact',
    '&latest=true',
    '&latest=true&count=none',
    '&aggregation=count&interval=1d',
    '&limit=all',
  ]) {
    const foreign = await get(`?publisher=${publishers[1]}${more}`, thing)
    const nowhere = await get(`?name=nowhere${more}`, thing)
    expect([foreign.status, foreign.text], more).toEqual([200, nowhere.text])
    expect((await get(`?from=5&to=5${more}`, thing)).text, more).toBe(nowhere.text)
  }
})

test('a request without an answer has no cursor', async () => {
  const { json } = await get('?limit=1', thing)
  const cursor = json['next_cursor'] as string
  expect((await get(`?limit=1&cursor=${cursor}`, thing)).status).toBe(200)
  for (const query of [`publisher=${publishers[1]}`, 'from=5&to=5', 'from=5&to=5&limit=all']) {
    expect((await get(`?${query}&cursor=${cursor}`, thing)).json, query).toMatchObject({
      status: 400,
      errors: [{ pointer: '/query/cursor' }],
    })
  }
})

test('an unknown key that was tried too often gets 429 and when to retry; the request contains the client address', async () => {
  const requests: AccessRequest[] = []
  const limiting = await serve({ ...unused, read: async () => many }, options, {
    ...access,
    authorize: async request => {
      requests.push(request)
      return { allowed: false, reason: 'limited', leftMs: 41_001 }
    },
  })
  const answer = await fetch(`${limiting.url}/channels/${channel}/messages`, { headers: { authorization: 'Thing x' } })
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([429, '42'])
  expect(requests).toMatchObject([{ address: '127.0.0.1' }])
  await limiting.app.close()
})
