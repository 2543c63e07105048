// What the things of users who registered themselves may publish: bytes a minute, formats, and nothing that the transformer refuses.

import { expect, test } from 'vitest'
import { type OwnerBounds, openOwnerBounds } from '../../../pipeline/ingest/bounds/owner-bounds.ts'
import { openQuotas } from '../../../pipeline/ingest/bounds/quotas.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { channel, openSite } from './site.ts'

const mebibyte = 1024 * 1024

/** Bounds whose clock only moves when the test moves it. */
function openClocked(): { bounds: OwnerBounds; warnings: string[]; pass: (ms: number) => void } {
  let nowMs = 1_000_000.25
  const warnings: string[] = []
  const logger = { warn: (sentence: unknown) => void warnings.push(String(sentence)) }
  return { bounds: openOwnerBounds(logger, () => nowMs), warnings, pass: ms => void (nowMs += ms) }
}

/** Counts so many bytes: 200 of each message are not of its payload. */
const take = (bounds: OwnerBounds, owner: string, bytes: number): (() => void) =>
  bounds.take(owner, [{ payloadBytes: bytes - 200, rows: 1, format: undefined }])

test('the things of an owner publish the bytes of a minute at once, and then as many as a minute gives', () => {
  const { bounds, pass } = openClocked()
  bounds.check('a')
  take(bounds, 'a', mebibyte)
  expect(() => bounds.check('a')).toThrow(
    'the things of a user who registered themselves publish at most 1048576 bytes a minute: retry after 1 s, or ask an administrator to lift the bounds of the user (PUT /users/<id>/bounded)',
  )
  expect(() => take(bounds, 'a', mebibyte / 2)).toThrow(/retry after 30 s/)
  take(bounds, 'b', mebibyte)
  pass(29_500)
  expect(() => take(bounds, 'a', mebibyte / 2)).toThrow(/retry after 1 s/)
  pass(500)
  take(bounds, 'a', mebibyte / 2)
})

test('what was not stored is not counted', () => {
  const { bounds } = openClocked()
  take(bounds, 'a', mebibyte)()
  take(bounds, 'a', mebibyte)
  expect(() => bounds.check('a')).toThrow(/retry after/)
})

test('a message counts by its payload and 200 bytes, or by 150 bytes a row', () => {
  const { bounds } = openClocked()
  for (let count = 0; count < 5_242; count++) bounds.take('a', [{ payloadBytes: 0, rows: 1, format: undefined }])
  expect(() => bounds.take('a', [{ payloadBytes: 0, rows: 1, format: undefined }])).toThrow(/retry after/)
  bounds.take('b', [{ payloadBytes: 1_000, rows: 6_990, format: undefined }])
  expect(() => bounds.take('b', [{ payloadBytes: 0, rows: 1, format: undefined }])).toThrow(/retry after/)
})

test('a message that counts for more than a minute is too large, and counts nothing', () => {
  const { bounds } = openClocked()
  expect(() => bounds.take('a', [{ payloadBytes: 1_000, rows: 6_991, format: 'x' }])).toThrow(/counts as 1048650 bytes, for its 6991 rows/)
  expect(() => take(bounds, 'a', mebibyte + 1)).toThrow(/split it into several/)
  take(bounds, 'a', mebibyte)
})

test('the things of all these owners publish together the bytes of eight, and an owner below an equal part is not refused for the others', () => {
  const { bounds, warnings, pass } = openClocked()
  for (let nth = 0; nth < 8; nth++) take(bounds, `owner ${nth}`, mebibyte)
  expect(warnings).toEqual([])
  const all = /^all things of users who registered themselves publish together at most 8388608 bytes a minute: retry after \d+ s/
  expect(() => take(bounds, 'late', mebibyte)).toThrow(all)
  bounds.check('late')
  take(bounds, 'late', mebibyte / 2)
  pass(30_000)
  for (let nth = 0; nth < 7; nth++) take(bounds, `owner ${nth}`, mebibyte / 2)
  expect(() => take(bounds, 'owner 7', mebibyte / 2)).toThrow(all)
  expect(() => bounds.check('owner 7')).toThrow(all)
  take(bounds, 'late', mebibyte / 4)
  expect(() => take(bounds, 'late', mebibyte / 4)).toThrow(all)
  expect(warnings).toEqual([
    'all things of users who registered themselves publish together at most 8388608 bytes a minute: from now on those with more than an equal part are refused (GET /users: "bounded")',
  ])
})

test('beside many greedy owners an honest one publishes, and all together no more than their bytes', () => {
  const { bounds, pass } = openClocked()
  let bytes = 0
  const attempt = (owner: string): boolean => {
    try {
      take(bounds, owner, 65_536)
    } catch {
      return false
    }
    bytes += 65_536
    return true
  }
  for (let nth = 0; nth < 50; nth++) {
    for (let owner = 0; owner < 80; owner++) attempt(`greedy ${owner}`)
    if (nth % 10 === 5) expect(attempt('honest')).toBe(true)
    pass(6_000)
  }
  // Those of five minutes, and what fitted at first.
  expect(bytes).toBeGreaterThan(40 * mebibyte)
  expect(bytes).toBeLessThan(56 * mebibyte)
})

test('the things of an owner publish 16 formats of JSON, and those of all these owners together 100, except of owners below an equal part', () => {
  const { bounds, warnings } = openClocked()
  const publish = (owner: string, format: string | undefined): unknown => bounds.take(owner, [{ payloadBytes: 1, rows: 1, format }])
  for (let nth = 0; nth < 16; nth++) publish('a', `${nth}`)
  expect(() => publish('a', 'x')).toThrow(
    'the things of a user who registered themselves publish at most 16 formats of JSON: publish one of those before, or ask an administrator to lift the bounds of the user (PUT /users/<id>/bounded)',
  )
  publish('a', '7')
  publish('a', undefined)
  for (let nth = 16; nth < 100; nth++) publish(`owner ${nth % 10}`, `${nth}`)
  expect(warnings).toEqual([])
  const all = /^all things of users who registered themselves publish together at most 100 formats of JSON/
  for (let nth = 0; nth < 9; nth++) publish('late', `late ${nth}`)
  expect(() => publish('late', 'x')).toThrow(all)
  expect(() => publish('owner 6', 'x')).toThrow(all)
  publish('late', '7')
  for (let nth = 109; nth < 200; nth++) publish(`one of many ${nth}`, `${nth}`)
  expect(() => publish('last', 'x')).toThrow(all)
  publish('last', '7')
  expect(warnings).toEqual([expect.stringMatching(all)])
})

const json = { 'content-type': 'application/json' }
/** Rows of few bytes. */
const packOf = (rows: number): string => JSON.stringify(Array.from({ length: rows }, (_, nth) => ({ n: 'a', t: -nth, v: 1 })))

test('over HTTP what cannot be decoded is a 400 for a thing with such an owner, and is not appended; others publish it', async () => {
  await using site = await openSite()
  const publish = () => site.publish(`/channels/${channel}/messages`, '[{"n":"a","v":1,"vs":"b"}]')
  expect((await publish()).status).toBe(202)
  site.keys.isBounded = true
  const refused = await publish()
  expect([refused.status, refused.json['code'], refused.headers.get('preference-applied')]).toEqual([400, 'undecodable', null])
  expect(site.messages()).toHaveLength(1)
  expect((await site.publish(`/channels/${channel}/messages`, packOf(2))).status).toBe(202)
  expect(site.messages()).toHaveLength(2)
})

test('over HTTP a thing with such an owner gets 403 for one format more, also labelled as SenML', async () => {
  const { bounds } = openClocked()
  await using site = await openSite({ bounds })
  const publish = (format: string, body = '{"a":1}', headers: Record<string, string> = json) =>
    site.publish(`/channels/${channel}/messages/attic/${format}`, body, headers)
  for (let nth = 0; nth < 17; nth++) expect((await publish(`unbounded-${nth}`)).status).toBe(202)
  site.keys.isBounded = true
  for (let nth = 0; nth < 16; nth++) expect((await publish(`f${nth}`)).status).toBe(202)
  const refused = await publish('more')
  expect([refused.status, refused.json['detail']]).toEqual([403, expect.stringMatching(/at most 16 formats of JSON/)])
  expect((await publish('more', '{"a":1}', {})).status).toBe(403)
  expect((await publish('more', packOf(1), {})).status).toBe(202)
  site.keys.isBounded = false
  expect((await publish('more')).status).toBe(202)
})

test('over HTTP many rows of few bytes use up the bytes: 429 before the next body is read, and 413 for too many in one message', async () => {
  const { bounds, pass } = openClocked()
  await using site = await openSite({ bounds })
  const publish = (body: string) => site.publish(`/channels/${channel}/messages`, body)
  site.keys.isBounded = true
  const tooMany = await publish(packOf(7_000))
  expect([tooMany.status, tooMany.json['detail']]).toEqual([413, expect.stringContaining('for its 7000 rows')])
  expect((await publish(packOf(6_990))).status).toBe(202)
  const late = await publish('a'.repeat(262_145))
  expect([late.status, late.headers.get('retry-after'), late.json['detail']]).toEqual([
    429,
    '1',
    expect.stringMatching(/bytes a minute: retry after 1 s, or ask an administrator/),
  ])
  expect(site.messages()).toHaveLength(1)
  pass(1_000)
  expect((await publish(packOf(1))).status).toBe(202)
  expect((await publish(packOf(6_990))).status).toBe(429)
  site.keys.isBounded = false
  expect((await publish(packOf(7_000))).status).toBe(202)
})

test('over HTTP what a bound refuses, or the log does not store, counts against no bound and no quota', async () => {
  const { bounds } = openClocked()
  const quotas = openQuotas({ thingMessagesPerMinute: 1, channelMessagesPerMinute: 1 }, () => 1_000)
  await using site = await openSite({ bounds, quotas })
  const publish = async (rows: number): Promise<number> => (await site.publish(`/channels/${channel}/messages`, packOf(rows))).status
  site.keys.isBounded = true
  expect(await publish(7_000)).toBe(413)
  const append = site.log.append.bind(site.log)
  site.log.append = () => Promise.reject(new LogUnavailableError('away'))
  for (let count = 0; count < 2; count++) expect(await publish(6_000)).toBe(503)
  site.log.append = append
  expect(await publish(6_000)).toBe(202)
})
