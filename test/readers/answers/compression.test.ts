// Answers in gzip, heads, and exports whose client goes away, over plain HTTP: fetch would undo the coding by itself.

import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { createGunzip, gunzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { type Row, StoreUnavailableError } from '../../../readers/reader.ts'
import { channel, records } from '../../conformance/reader/fixture.ts'
import { owner, serve, serveFixture, unused } from '../served.ts'

const served = serveFixture()
const gzip = { ...owner, 'accept-encoding': 'gzip' }
const many: Row[] = Array.from({ length: 1000 }, () => records.rows[0]!)

async function ask(url: string, headers: Record<string, string>, method = 'GET'): Promise<IncomingMessage> {
  const [answer] = (await once(request(url, { headers, method, agent: false }).end(), 'response')) as [IncomingMessage]
  return answer
}

async function bytesOf(answer: IncomingMessage): Promise<Buffer> {
  return Buffer.concat((await answer.toArray()) as Buffer[])
}

const messages = (query: string, url = served.url): string => `${url}/channels/${channel}/messages${query}`

test.each(['application/json', 'application/x-ndjson', 'text/csv'])('%s is the same with gzip, page and export', async accept => {
  for (const query of ['?limit=1000', '?limit=all', '?limit=1000&dir=asc']) {
    const plain = await ask(messages(query), { ...owner, accept })
    const coded = await ask(messages(query), { ...gzip, accept })
    expect([plain.headers['content-encoding'], coded.headers['content-encoding']]).toEqual([undefined, 'gzip'])
    expect(coded.headers['content-type']).toBe(plain.headers['content-type'])
    for (const { headers } of [plain, coded]) expect(headers.vary).toBe('Authorization, Accept, Accept-Encoding, Origin')
    const bytes = await bytesOf(coded)
    if (query !== '?limit=all') expect(Number(coded.headers['content-length'])).toBe(bytes.length)
    expect(gunzipSync(bytes).toString()).toBe((await bytesOf(plain)).toString())
  }
})

test('a short answer is not compressed, and neither is one for a client that does not accept it', async () => {
  expect((await ask(messages('?limit=1'), gzip)).headers['content-encoding']).toBeUndefined()
  expect((await ask(messages('?limit=1000'), { ...owner, 'accept-encoding': 'gzip;q=0' })).headers['content-encoding']).toBeUndefined()
})

test('an error is never compressed', async () => {
  const away = await serve({ ...unused, read: () => Promise.reject(new StoreUnavailableError('away')) })
  for (const query of ['', '?limit=all', '?limit=0']) {
    const answer = await ask(messages(query, away.url), gzip)
    expect(answer.headers['content-encoding']).toBeUndefined()
    expect(JSON.parse((await bytesOf(answer)).toString())).toMatchObject({ status: query === '?limit=0' ? 400 : 503 })
  }
  await away.app.close()
})

test('HEAD is answered like GET, without the body', async () => {
  for (const headers of [owner, gzip]) {
    const get = await ask(messages('?limit=1000'), headers)
    const head = await ask(messages('?limit=1000'), headers, 'HEAD')
    expect(head.headers['content-length']).toBe(get.headers['content-length'])
    expect(head.headers['content-encoding']).toBe(get.headers['content-encoding'])
    expect((await bytesOf(head)).length).toBe(0)
    get.resume()
  }
  expect((await ask(messages('?limit=2'), owner, 'HEAD')).headers.link).toMatch(/rel="next"$/)
  expect((await ask(messages('?limit=0'), owner, 'HEAD')).statusCode).toBe(400)
  expect((await ask(messages(''), {}, 'HEAD')).statusCode).toBe(401)
})

test('HEAD of an export reads nothing of it', async () => {
  let asked = 0
  const large = await serve({
    ...unused,
    read: async () => {
      asked++
      return many
    },
  })
  const head = await ask(messages('?limit=all', large.url), gzip, 'HEAD')
  expect([head.statusCode, head.headers['content-length'], head.headers['content-encoding']]).toEqual([200, undefined, 'gzip'])
  expect((await bytesOf(head)).length).toBe(0)
  expect(asked).toBe(0)
  await large.app.close()
})

test.each([owner, gzip])('a page of an export is sent before the next one is read: %j', async headers => {
  const second = Promise.withResolvers<Row[]>()
  let asked = 0
  const slow = await serve({ ...unused, read: () => (++asked === 1 ? Promise.resolve(many) : second.promise) })
  const answer = await ask(messages('?limit=all', slow.url), { ...headers, accept: 'application/x-ndjson' })
  const text = headers === gzip ? answer.pipe(createGunzip()) : answer
  let lines = 0
  for await (const piece of text) {
    lines += (piece as Buffer).toString('latin1').split('\n').length - 1
    if (lines === many.length) second.resolve(many.slice(0, 3))
  }
  expect(lines).toBe(many.length + 3)
  await slow.app.close()
})

test.each([owner, gzip])('an export whose store fails midway is cut off: %j', async headers => {
  let asked = 0
  const failing = await serve({
    ...unused,
    read: () => (++asked < 3 ? Promise.resolve(many) : Promise.reject(new StoreUnavailableError('away'))),
  })
  const answer = await ask(messages('?limit=all', failing.url), headers)
  expect(answer.statusCode).toBe(200)
  await expect(bytesOf(answer)).rejects.toThrow('aborted')
  expect(answer.complete).toBe(false)
  await failing.app.close()
})

test.each([owner, gzip])('an export whose client disconnects stops reading: %j', async headers => {
  let asked = 0
  const endless = await serve({
    ...unused,
    read: async (_query, signal) => {
      asked++
      signal.throwIfAborted()
      return many
    },
  })
  const answer = await ask(messages('?limit=all', endless.url), headers)
  await once(answer, 'data')
  answer.destroy()
  // What was under way ends, or the close would not. The response closes a turn after its connection; then no more is asked.
  await endless.app.close()
  await nextTurn()
  const atEnd = asked
  for (let turn = 0; turn < 10; turn++) await nextTurn()
  expect(asked).toBe(atEnd)
})
