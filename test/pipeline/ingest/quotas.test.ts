// Message quotas: how many messages of a thing or a channel are accepted in a minute, and the answer to one more.

import { randomUUID } from 'node:crypto'
import { expect, test } from 'vitest'
import type { HttpError } from '../../../http/errors.ts'
import { openQuotas, type Quotas } from '../../../pipeline/ingest/bounds/quotas.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { channel, key, looseKey, openSite, thing } from './site.ts'

const other = randomUUID()
const otherChannel = randomUUID()

/** Quotas whose clock only moves when the test moves it. */
function openClocked(thingMessages: number, channelMessages: number): { quotas: Quotas; pass: (ms: number) => void } {
  let nowMs = 1_000_000.25
  const quotas = openQuotas({ thingMessagesPerMinute: thingMessages, channelMessagesPerMinute: channelMessages }, () => nowMs)
  return { quotas: quotas!, pass: ms => void (nowMs += ms) }
}

/** How many messages are accepted now, at most `most`. */
function fitting(quotas: Quotas, most = 1000, to = channel, from = thing): number {
  for (let count = 0; count < most; count++) {
    try {
      quotas.take(to, from)
    } catch {
      return count
    }
  }
  return most
}

function refusal(quotas: Quotas, to = channel, from = thing): Pick<HttpError, 'code' | 'detail' | 'retryAfterSeconds'> {
  try {
    quotas.check(to, from)
  } catch (error) {
    return error as HttpError
  }
  throw new Error('it fits')
}

test('without quotas nothing is opened', () => {
  expect(openQuotas({ thingMessagesPerMinute: 0, channelMessagesPerMinute: 0 })).toBeUndefined()
})

test.each([1, 7, 60, 601])('a full minute of %i messages is accepted immediately, and no more after any idle time', perMinute => {
  const { quotas, pass } = openClocked(perMinute, 0)
  expect(fitting(quotas)).toBe(perMinute)
  pass(3_600_000)
  expect(fitting(quotas)).toBe(perMinute)
})

test('a bucket refills continuously, one message at a time', () => {
  const { quotas, pass } = openClocked(6, 0)
  fitting(quotas)
  pass(9_999)
  expect(fitting(quotas)).toBe(0)
  pass(1)
  expect(fitting(quotas)).toBe(1)
  pass(25_000)
  expect(fitting(quotas)).toBe(2)
  pass(5_000)
  expect(fitting(quotas)).toBe(1)
})

test.each([
  [1, 60],
  [6, 10],
  [7, 9],
  [600, 1],
])('with %i a minute one more is refused with %i s to wait, and then accepted', (perMinute, seconds) => {
  const { quotas, pass } = openClocked(perMinute, 0)
  fitting(quotas)
  const { code, detail, retryAfterSeconds } = refusal(quotas)
  expect([code, retryAfterSeconds]).toEqual(['too_many_requests', seconds])
  expect(detail).toBe(
    `the quota of this thing is used up (messages a minute: ${perMinute}): retry after ${seconds} s, and put several records into one message if possible`,
  )
  pass(seconds * 1000)
  expect(fitting(quotas)).toBeGreaterThan(0)
})

test('each thing has its own quota, and each channel one for all its things', () => {
  const { quotas } = openClocked(3, 5)
  expect(fitting(quotas)).toBe(3)
  expect(refusal(quotas).detail).toMatch(/quota of this thing .*: 3\)/)
  expect(fitting(quotas, 1000, channel, other)).toBe(2)
  expect(refusal(quotas, channel, other).detail).toMatch(/quota of this channel .*all things together: 5\)/)
  // Messages that the channel refused did not count against the thing.
  expect(fitting(quotas, 1000, otherChannel, other)).toBe(1)
})

test('a message that exceeds both quotas waits for the slower one', () => {
  const { quotas } = openClocked(2, 60)
  fitting(quotas)
  for (let count = 0; count < 29; count++) fitting(quotas, 2, channel, randomUUID())
  expect(refusal(quotas)).toMatchObject({ detail: expect.stringContaining('this thing'), retryAfterSeconds: 30 })
  expect(refusal(quotas, channel, other)).toMatchObject({ detail: expect.stringContaining('this channel'), retryAfterSeconds: 1 })
})

test('a message that was not stored is credited again, up to the quota', () => {
  const { quotas } = openClocked(3, 3)
  fitting(quotas)
  quotas.giveBack(channel, thing)
  expect(fitting(quotas)).toBe(1)
  for (let count = 0; count < 5; count++) quotas.giveBack(channel, thing)
  expect(fitting(quotas)).toBe(3)
})

test('usage is remembered until it is refilled, whatever others publish meanwhile', () => {
  const { quotas, pass } = openClocked(2, 0)
  fitting(quotas)
  for (let nth = 0; nth < 29; nth++) {
    pass(1_000)
    quotas.take(channel, randomUUID())
    expect(fitting(quotas)).toBe(0)
  }
  pass(1_000)
  expect(fitting(quotas)).toBe(1)
  pass(70_000)
  quotas.take(channel, randomUUID())
  expect(fitting(quotas)).toBe(2)
})

test('if more things publish within a minute than there are buckets, only the earliest may publish again', () => {
  const { quotas, pass } = openClocked(2, 0)
  const publishAll = (count: number): void => {
    for (let nth = 0; nth < count; nth++) quotas.take(channel, `${nth}`)
  }
  fitting(quotas)
  publishAll(60_000)
  expect(fitting(quotas)).toBe(0)
  publishAll(60_000)
  expect(fitting(quotas)).toBe(2)
  pass(59_000)
  expect(fitting(quotas, 1000, channel, '59999')).toBe(1)
})

test('over HTTP one more is a 429 with Retry-After, counted by its reason, and the next is accepted when it says', async () => {
  const { quotas, pass } = openClocked(3, 0)
  await using site = await openSite({ quotas })
  const publish = () => site.publish(`/channels/${channel}/messages`, '[{"n":"a","v":1}]')
  for (let count = 0; count < 3; count++) expect((await publish()).status).toBe(202)
  const refused = await publish()
  expect([refused.status, refused.json['code'], refused.headers.get('retry-after')]).toEqual([429, 'too_many_requests', '20'])
  expect(refused.json['detail']).toMatch(/quota of this thing/)
  expect(site.messages()).toHaveLength(3)
  expect(await site.registry.metrics()).toMatch(/component_errors_total\{.*error_code="too_many_requests"\} 1/)
  pass(20_000)
  expect((await publish()).status).toBe(202)
})

test('the quota is checked before the body is read', async () => {
  const { quotas } = openClocked(1, 0)
  await using site = await openSite({ quotas })
  fitting(quotas)
  expect((await site.publish(`/channels/${channel}/messages`, 'a'.repeat(262_145))).status).toBe(429)
})

test('concurrent requests do not exceed the quota', async () => {
  const { quotas } = openClocked(5, 0)
  await using site = await openSite({ quotas })
  const publish = () => site.publish(`/channels/${channel}/messages`, '[{"n":"a","v":1}]')
  const statuses = (await Promise.all(Array.from({ length: 20 }, publish))).map(({ status }) => status)
  for (const [status, count] of [
    [202, 5],
    [429, 15],
  ]) {
    expect(statuses.filter(one => one === status)).toHaveLength(count!)
  }
})

const pack = '[{"n":"a","v":1}]'
const strict = { prefer: 'handling=strict' }
const uncounted: [what: string, status: number, path: string, body: string, headers: Record<string, string>][] = [
  ['an unknown key', 401, '', pack, { authorization: `Thing ${randomUUID()}` }],
  ['a thing that is not connected', 403, '', pack, { authorization: `Thing ${looseKey}` }],
  ['a content type that is not taken', 415, '', pack, { 'content-type': 'text/csv' }],
  ['a bad subtopic', 400, '/a/*', pack, {}],
  ['an empty body', 400, '', '', {}],
  ['a payload that is too large', 413, '', 'a'.repeat(262_145), {}],
  ['a payload that strict handling refuses', 400, '', '[', strict],
]

test.each(uncounted)('a message refused for %s does not count', async (_what, status, path, body, headers) => {
  const { quotas } = openClocked(1, 1)
  await using site = await openSite({ quotas })
  for (let count = 0; count < 2; count++)
    expect((await site.publish(`/channels/${channel}/messages${path}`, body, headers)).status).toBe(status)
  expect((await site.publish(`/channels/${channel}/messages`, pack, { authorization: `Thing ${key}` })).status).toBe(202)
})

test('a message that the log does not store does not count', async () => {
  const { quotas } = openClocked(1, 1)
  await using site = await openSite({ quotas })
  const append = site.log.append.bind(site.log)
  site.log.append = () => Promise.reject(new LogUnavailableError('away'))
  for (let count = 0; count < 2; count++) expect((await site.publish(`/channels/${channel}/messages`, pack)).status).toBe(503)
  site.log.append = append
  expect((await site.publish(`/channels/${channel}/messages`, pack)).status).toBe(202)
})

test('a client that may not publish to a channel learns nothing about its quota', async () => {
  const { quotas } = openClocked(0, 1)
  await using site = await openSite({ quotas })
  fitting(quotas)
  expect((await site.publish(`/channels/${channel}/messages`, pack, { authorization: `Thing ${looseKey}` })).status).toBe(403)
  expect((await site.publish(`/channels/${channel}/messages`, pack)).status).toBe(429)
})

test('a listener gets what is accepted and refused of each known thing, as in the answers, and nothing of unknown keys', async () => {
  const { quotas } = openClocked(1, 0)
  const got: unknown[] = []
  const arrivals = {
    accepted: (...of: unknown[]) => void got.push(['accepted', ...of]),
    refused: (...of: unknown[]) => void got.push(['refused', ...of]),
  }
  await using site = await openSite({ quotas, arrivals })
  const path = `/channels/${channel}/messages`
  const pack = '[{"n":"a","v":1}]'
  await site.publish('/channels/x/messages', pack)
  await site.publish(`/channels/${otherChannel}/messages`, pack)
  await site.publish(`${path}/a b`, pack)
  await site.publish(path, '{"a":1}', { prefer: 'handling=strict' })
  await site.publish(path, '[{"n":"a"}]', { prefer: 'handling=strict' })
  const { json } = await site.publish(path, pack)
  const limited = await site.publish(path, pack)
  await site.publish(path, pack, { authorization: `Thing ${randomUUID()}` })
  await site.publish(path, pack, { authorization: undefined })
  const text = expect.any(String) as unknown
  expect(got).toEqual([
    ['refused', thing, 'x', 'malformed_request', text],
    ['refused', thing, otherChannel, 'forbidden', 'failed to perform authorization over the entity'],
    ['refused', thing, channel, 'malformed_request', expect.stringContaining('a space or a control character') as unknown],
    ['refused', thing, channel, 'malformed_request', expect.stringContaining('needs a subtopic') as unknown],
    ['refused', thing, channel, 'undecodable', text],
    ['accepted', thing, channel, json['id'], { partition: 0, offset: 0 }],
    ['refused', thing, channel, 'too_many_requests', limited.json['detail']],
  ])
})
