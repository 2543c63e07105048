// A live stream over HTTP: who reads what, what a wrong request is answered, and where a client that comes back goes on.

import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import { createLogger } from '../../../config/logger.ts'
import { openapiRoutes } from '../../../http/openapi/openapi.ts'
import { createServer } from '../../../http/server.ts'
import { LiveUnavailableError } from '../../../pipeline/live/messages.ts'
import { liveRoutes } from '../../../readers/live/routes.ts'
import { channel, foreign, openFakeAccess, otherThing, owner, serveLive, stranger, thing } from './served-live.ts'

test('the owner gets each record as it comes, in the form of a page, with an id', async () => {
  await using served = await serveLive()
  const client = await served.open()
  expect(client.headers.get('content-type')).toBe('text/event-stream')
  expect(client.headers.get('cache-control')).toBe('private, no-store')
  expect(client.headers.get('x-accel-buffering')).toBe('no')
  expect(client.headers.get('x-request-id')).not.toBeNull()
  expect(client.headers.get('x-content-type-options')).toBe('nosniff')
  await served.topic.append(0, foreign, ['not-mine'])
  await served.topic.append(0, channel, ['a'])
  await client.until(1)
  const [event] = client.records
  expect(event!.data).toBe(
    `{"Channel":"${channel}","Subtopic":"","Publisher":"t1","Protocol":"http","Name":"a","Time":1700000000,"Value":1}`,
  )
  expect(event!.lastEventId).toMatch(/^[\w-]{20,100}$/)
  expect(client.retryMs()).toBe(2000)
})

test('a page of an allowed origin may follow a stream, and read why it may not', async () => {
  const origin = 'https://app.example.com'
  await using served = await serveLive({}, undefined, [origin])
  const client = await served.open('', { ...owner, origin })
  const refused = await served.get('', { ...stranger, origin })
  expect(refused.status).toBe(403)
  for (const { headers } of [client, refused]) {
    expect(headers.get('access-control-allow-origin')).toBe(origin)
    expect(headers.get('vary')).toMatch(/origin/i)
  }
})

test("a thing gets what it published itself, and another thing's stream stays empty", async () => {
  await using served = await serveLive()
  const [own, other, asked] = await Promise.all([
    served.open('', thing),
    served.open('', otherThing),
    served.open('?publisher=t1', otherThing),
  ])
  await served.topic.append(0, channel, ['a', 'b'])
  await own.until(2)
  served.access.rights.delete('two')
  served.access.change({ kind: 'unheard' })
  await Promise.all([other.closed, asked.closed])
  expect([own.names(), other.names(), asked.names()]).toEqual([['a', 'b'], [], []])
})

test('a channel whose id is not a UUID is followed by who may read it, and goes on after its events', async () => {
  await using served = await serveLive()
  const own = 'plant/1. ü%2F'
  served.access.rights.set(`owner ${own}`, { allowed: true, publisher: null, owner: 'administrator' })
  const of = encodeURIComponent(own)
  const client = await served.open('', owner, of)
  await served.topic.append(0, 'plant', ['not-mine'])
  await served.topic.append(0, own, ['a'])
  await client.until(1)
  expect(client.records.map(({ data }) => JSON.parse(data) as unknown)).toMatchObject([{ Channel: own, Name: 'a' }])
  await served.topic.append(0, own, ['b'])
  const again = await served.open('', { ...owner, 'last-event-id': client.records[0]!.lastEventId }, of)
  await again.until(1)
  expect(again.names()).toEqual(['b'])
  expect((await served.get('', stranger, of)).status).toBe(403)
})

test('a channel in upper case is the same channel', async () => {
  await using served = await serveLive()
  const client = await served.open('', owner, channel.toUpperCase())
  await served.topic.append(0, channel, ['a'])
  await client.until(1)
  expect(client.names()).toEqual(['a'])
})

test('filters are those of a page', async () => {
  await using served = await serveLive()
  const clients = await Promise.all(
    [
      '?name=b',
      '?v=1&comparator=lt',
      '?v=1&comparator=ge&name=a',
      '?publisher=nobody',
      '?subtopic=',
      '?protocol=mqtt',
      '?format=weather',
      '?name=last',
    ].map(query => served.open(query)),
  )
  await served.topic.append(0, channel, ['a', 'b'])
  await served.topic.append(0, channel, ['last'])
  await clients.at(-1)!.until(1)
  await clients[4]!.until(3)
  expect(clients.map(client => client.names())).toEqual([['b'], [], ['a'], [], ['a', 'b', 'last'], [], [], ['last']])
})

const uuid = randomUUID()
test.each<[what: string, status: number, sentence: RegExp, query: string, headers: Record<string, string>, of: string]>([
  ['a request without a credential', 401, /Authorization: Thing <key>.*Authorization: Bearer <token>/, '', {}, channel],
  ['an unknown key', 401, /unknown thing key/, '', { authorization: 'Thing x' }, channel],
  ['an invalid token, with a wrong request', 401, /is invalid/, '?limit=1', { authorization: 'Bearer x' }, 'my-channel'],
  ['a stranger', 403, /authorization over the entity/, '', stranger, channel],
  ['the owner of another channel', 403, /authorization over the entity/, '', owner, foreign],
  ['a channel that does not exist', 403, /authorization over the entity/, '', owner, uuid],
  ['a stranger with a wrong request', 400, /limit/, '?limit=1', stranger, channel],
  ['a stranger with an id of no form', 400, /last-event-id/, '', { ...stranger, 'last-event-id': 'a b' }, channel],
  ['a channel that is no UUID', 403, /authorization over the entity/, '', owner, 'my-channel'],
  ['a channel with a NUL', 400, /\/path\/channel/, '', owner, 'a%00b'],
  ...[
    'offset=1',
    'limit=1',
    'cursor=a',
    'from=1',
    'to=1',
    'dir=asc',
    'order=time',
    'count=none',
    'latest=true',
    'aggregation=min',
    'interval=1s',
    'csv_safe=true',
  ].map((query): [string, number, RegExp, string, Record<string, string>, string] => [
    query,
    400,
    new RegExp(`/query/${query.split('=')[0]} is unknown`),
    `?${query}`,
    owner,
    channel,
  ]),
  ['an invalid number', 400, /\/query\/v .*a number/, '?v=x', owner, channel],
  ['a filter of SenML for documents', 400, /\/query\/name is for SenML/, '?format=weather&name=a', owner, channel],
  ['a filter of documents for SenML', 400, /\/query\/payload.a is for JSON/, '?payload.a=1', owner, channel],
  ['an invalid escape', 400, /\/query\/name has a % that does not start a UTF-8 character/, '?name=%FF', owner, channel],
  ['a stranger with such an escape', 400, /\/query\/name has a %/, '?name=%', stranger, channel],
  ['no credential and such an escape', 401, /Authorization: Thing <key>/, '?name=%FF', {}, channel],
  ['a parameter twice', 400, /\/query\/name.*is repeated/, '?name=a&name=b', owner, channel],
  ['JSON wanted', 406, /give text\/event-stream in Accept/, '', { ...owner, accept: 'application/json' }, channel],
  ['an invalid id', 400, /\/header\/last-event-id is not an id of this stream/, '', { ...owner, 'last-event-id': 'abcd' }, channel],
  ['an id that is too long', 400, /\/header\/last-event-id/, '', { ...owner, 'last-event-id': 'a'.repeat(10_001) }, channel],
])('%s is answered %i', async (_what, status, sentence, query, headers, of) => {
  await using served = await serveLive()
  const answer = await served.get(query, headers, of)
  expect([answer.status, answer.text]).toEqual([status, expect.stringMatching(sentence)])
  expect(answer.headers.get('www-authenticate')).toBe(status === 401 ? 'Thing realm="sluice", Bearer realm="sluice"' : null)
  expect([served.topic.openReaders, served.access.listeners()]).toEqual([0, 0])
})

test('with Last-Event-ID a stream continues after that record, also inside a message; an empty one is ignored', async () => {
  await using served = await serveLive()
  const first = await served.open()
  await served.topic.append(0, channel, ['a', 'b', 'c'])
  await served.topic.append(1, channel, ['d'])
  await first.until(4)
  first.leave()
  const behindB = { ...owner, 'last-event-id': first.records[1]!.lastEventId }
  const second = await served.open('', behindB)
  await second.until(2)
  expect(second.names()).toEqual(['c', 'd'])
  // A filter changes nothing of where one is.
  const third = await served.open('?name=d', behindB)
  await third.until(1)
  expect(third.names()).toEqual(['d'])
  const now = await served.open('', { ...owner, 'last-event-id': '' })
  await served.topic.append(0, channel, ['e'])
  await now.until(1)
  expect(now.names()).toEqual(['e'])
})

test('an id with more records than its message has continues after the message', async () => {
  await using served = await serveLive()
  const first = await served.open()
  await served.topic.append(0, channel, ['a', 'b', 'c'])
  await served.topic.append(0, channel, ['d'])
  await first.until(4)
  const second = await served.open('', { ...owner, 'last-event-id': `${first.records[1]!.lastEventId}0000` })
  await second.until(1)
  expect(second.names()).toEqual(['d'])
})

test('a client that got no record yet resumes where it started', async () => {
  await using served = await serveLive()
  const first = await served.open()
  await expect.poll(() => first.lastEventId()).not.toBe('')
  first.leave()
  await served.topic.append(0, channel, ['meanwhile'])
  const second = await served.open('', { ...owner, 'last-event-id': first.lastEventId() })
  await second.until(1)
  expect(second.names()).toEqual(['meanwhile'])
})

test("an id is valid for its reader only: a thing cannot resume at the owner's", async () => {
  await using served = await serveLive()
  const first = await served.open()
  await served.topic.append(0, channel, ['a'])
  await first.until(1)
  const answer = await served.get('', { ...thing, 'last-event-id': first.lastEventId() })
  expect([answer.status, answer.text]).toEqual([400, expect.stringMatching(/is not an id of this stream/)])
})

test('if the log has deleted what comes after the id, the event `lost` says so, and the rest follows', async () => {
  await using served = await serveLive()
  const first = await served.open()
  for (const name of ['a', 'b', 'c']) await served.topic.append(0, channel, [name])
  await first.until(3)
  served.topic.deleteBelow(0, 2)
  const second = await served.open('', { ...owner, 'last-event-id': first.records[0]!.lastEventId })
  await second.until(1)
  expect(second.named).toEqual([expect.objectContaining({ name: 'lost', data: expect.stringMatching(/no longer in the log.*GET/) })])
  expect(second.names()).toEqual(['c'])
  expect(served.told).toEqual(['opened', 'opened', 'lost'])
})

test('each stream is logged when it opens, and why it ended', async () => {
  await using served = await serveLive()
  const [left, other] = [await served.open(), await served.open('', thing)]
  left.leave()
  await expect.poll(() => served.told).toEqual(['opened', 'opened', 'left'])
  served.access.rights.delete('one')
  served.access.change({ kind: 'thing', thing: 't1' })
  await other.closed
  await expect.poll(() => served.told).toEqual(['opened', 'opened', 'left', 'access_ended'])
})

test('while the log is down the answer is 503 with Retry-After; without a log, 404 that says what to set', async () => {
  await using served = await serveLive({}, { follow: () => Promise.reject(new LiveUnavailableError('away')) })
  const answer = await served.get()
  expect([answer.status, answer.headers.get('retry-after')]).toEqual([503, '1'])
  expect(answer.text).toMatch(/the log is unavailable/)
  await using without = await serveLive({}, 'none')
  expect((await without.get('', {})).status).toBe(401)
  expect((await without.get('', stranger)).status).toBe(403)
  const none = await without.get()
  expect([none.status, none.text]).toEqual([404, expect.stringMatching(/SVC_LIVE_ENABLED=true/)])
})

test('HEAD and other methods are refused, and nothing stays open', async () => {
  await using served = await serveLive()
  const answer = await fetch(`${served.url}/channels/${channel}/messages/stream`, { method: 'HEAD', headers: owner })
  expect(answer.status).toBe(405)
  expect(served.topic.openReaders).toBe(0)
})

test('it is described: its filters, the header, the media type and every error', async () => {
  const logger = createLogger({ level: 'silent', pretty: false })
  const app = createServer({ logger })
  openapiRoutes(app, { version: '1' })
  const options = { streamsMax: 1, queueBytes: 65_536, heartbeatSeconds: 15 }
  const metrics = { opened: () => undefined, closed: () => undefined, lost: () => undefined }
  await app.register(liveRoutes({ live: undefined, access: openFakeAccess(), eventIdKey: Buffer.alloc(32), options, metrics, logger }))
  const answer = await app.inject({ url: '/openapi.json' })
  const { paths } = answer.json<{ paths: Record<string, { get: Record<string, unknown> }> }>()
  const operation = paths['/channels/{channel}/messages/stream']!.get as {
    parameters: { name: string; in: string }[]
    responses: Record<string, { content: Record<string, unknown> }>
  }
  expect(operation.parameters.filter(one => one.in === 'header').map(one => one.name)).toEqual(['last-event-id'])
  expect(operation.parameters.filter(one => one.in === 'query').map(one => one.name)).toContain('name')
  expect(Object.keys(operation.responses)).toEqual(['200', '400', '401', '403', '404', '406', '421', '429', '431', '503'])
  expect(Object.keys(operation.responses['200']!.content)).toEqual(['text/event-stream'])
  await app.close()
})
