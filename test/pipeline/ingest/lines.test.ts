// One request with many messages: all of them in the log, or none, and an error that names the line.

import { gzipSync, zstdCompressSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openOwnerBounds } from '../../../pipeline/ingest/bounds/owner-bounds.ts'
import { openQuotas } from '../../../pipeline/ingest/bounds/quotas.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { type Body, channel, type IngestSite, looseKey, openSite, thing } from './site.ts'

const path = `/channels/${channel}/messages`
const ndjson = { 'content-type': 'application/x-ndjson' }
const line = '{"payload":[{"n":"a","v":1}]}'
const lines = (count: number): string => `${line}\n`.repeat(count)

let site: IngestSite
beforeAll(async () => {
  site = await openSite()
})
afterAll(() => site[Symbol.asyncDispose]())

const textOf = (payload: unknown): string => Buffer.from(payload as Uint8Array).toString()

test('each line is a message under the subtopics of path and line, stored as it is written, and the ids are in order', async () => {
  const before = site.messages().length
  const body = [
    '\ufeff{"payload": [{"n":"temperature","v":21.50}] }\r',
    '',
    '{"subtopic":"attic/weather","payload":{"big":12345678901234567890,"odd \\" , } ]":"\\u00fc, }"}}',
    ' {"payload":{"a":1},"payload":[{"a":1},{"a":2}],"subtopic":"küche.list"}',
  ].join('\n')
  const answer = await site.publish(`${path}/house`, body, { 'content-type': 'Application/X-NDJSON; charset=utf-8' })
  expect([answer.status, answer.json]).toEqual([202, { ids: [0, 1, 2].map(nth => `1-0-${before + nth}`) }])
  const stored = site.messages().slice(before)
  expect(stored.map(({ subtopic, content_type, payload }) => [subtopic, content_type, textOf(payload)])).toEqual([
    ['house', 'application/senml+json', '[{"n":"temperature","v":21.50}] '],
    ['house.attic.weather', 'application/json', '{"big":12345678901234567890,"odd \\" , } ]":"\\u00fc, }"}'],
    ['house.küche.list', 'application/json', '[{"a":1},{"a":2}]'],
  ])
  expect(new Set(stored.map(({ publisher, protocol, created_us }) => [publisher, protocol, created_us].join()))).toEqual(
    new Set([`${thing},http,${Number(stored[0]!['created_us'])}`]),
  )
})

test.each([
  ['gzip', gzipSync],
  ['zstd', zstdCompressSync],
])('a thousand messages in one request, compressed with %s, are larger than one payload may be', async (coding, compress) => {
  const before = site.messages().length
  const text = `{"payload":[{"n":"a","vs":"${'x'.repeat(700)}"}]}\n`.repeat(1000)
  const answer = await site.publish(path, compress(text), { ...ndjson, 'content-encoding': coding })
  expect([answer.status, (answer.json['ids'] as unknown[]).length]).toEqual([202, 1000])
  expect(site.messages()).toHaveLength(before + 1000)
})

const strict = { prefer: 'handling=strict' }
type Refusal = [what: string, status: number, detail: RegExp, pointer: string | undefined, body: Body, headers?: Record<string, string>]
test.each<Refusal>([
  ['a line that is not JSON', 400, /^line 2: this is not JSON/, '/body/1', `${line}\n{"payload":[\n${line}`],
  ['a line that is not UTF-8', 400, /^line 2: this is not UTF-8/, '/body/1', Buffer.concat([Buffer.from(`${line}\n`), Buffer.of(0xff)])],
  ['a line that is no object', 400, /^line 1: this is not an object: send/, '/body/0', `[${line}]`],
  ['a SenML pack as a line', 400, /^line 1: this is not an object: send/, '/body/0', '[{"n":"a","v":1}]'],
  ['a member that a line does not have', 400, /^line 3: "subtopc" is not a member/, '/body/2', `${line}\n\n{"subtopc":"a","payload":{}}`],
  ['the member __proto__', 400, /^line 1: "__proto__" is not a member/, '/body/0', '{"payload":[],"__proto__":{}}'],
  ['a line without a payload', 400, /^line 1: the payload is missing/, '/body/0/payload', '{"subtopic":"a"}'],
  ['a payload that is a text', 400, /^line 1: the payload .* neither/, '/body/0/payload', '{"subtopic":"a","payload":"{}"}'],
  ['a payload whose key is written with escapes', 400, /^line 1: the payload is missing/, '/body/0/payload', '{"p\\u0061yload":[]}'],
  ['a subtopic that is no text', 400, /^line 1: the subtopic is not a text/, '/body/0/subtopic', '{"subtopic":1,"payload":{}}'],
  ['a wildcard in a subtopic', 400, /^line 2: .* \* or >/, '/body/1/subtopic', `${line}\n{"subtopic":"a.*","payload":{}}`],
  ['a document without a subtopic', 400, /^line 2: .*needs a subtopic/, '/body/1/subtopic', `${line}\n{"payload":{"a":1}}`],
  ['a list of documents without a subtopic', 400, /^line 1: .*needs a subtopic/, '/body/0/subtopic', '{"payload":[{"a":1}]}'],
  ['no line', 400, /has no message/, undefined, ''],
  ['blank lines', 400, /has no message/, undefined, ' \r\n\n'],
  ['more lines than allowed', 413, /more than 1000 lines: send fewer/, undefined, lines(1001)],
  ['a payload that is too large', 413, /^line 2: .*262144 bytes: split/, undefined, `${line}\n{"payload":["${'x'.repeat(262_144)}"]}`],
  ['more bytes than allowed', 413, /body is larger than 1048576 bytes: send fewer/, undefined, ' '.repeat(1_048_577)],
  [
    'a compressed body of too many',
    413,
    /body is larger than 1048576/,
    undefined,
    gzipSync(Buffer.alloc(2 ** 24)),
    { 'content-encoding': 'gzip' },
  ],
  [
    'with strict handling a pack that breaks a rule',
    400,
    /^line 2: .*one-value/,
    '/body/1/payload/0',
    `${line}\n{"payload":[{"n":"a","v":1,"vs":"b"}]}`,
    strict,
  ],
  ['lines of a thing that is not connected', 403, /authorization/, undefined, line, { authorization: `Thing ${looseKey}` }],
])('%s is answered with %i, and nothing is stored', async (_what, status, detail, pointer, body, headers = {}) => {
  const before = site.messages().length
  const answer = await site.publish(path, body, { ...ndjson, ...headers })
  expect([answer.status, answer.json['detail'] ?? answer.json['error']]).toEqual([status, expect.stringMatching(detail)])
  const errors = pointer === undefined ? undefined : [expect.objectContaining({ pointer })]
  expect(answer.json['errors']).toEqual(errors)
  expect(site.messages()).toHaveLength(before)
})

test('each message counts against the quotas, none of those that are not stored, and more than fit into a minute never do', async () => {
  await using site = await openSite({ quotas: openQuotas({ thingMessagesPerMinute: 5, channelMessagesPerMinute: 100 }, () => 0)! })
  const publish = (count: number) => site.publish(path, lines(count), ndjson)
  expect((await publish(6)).json).toMatchObject({
    status: 413,
    detail: 'the request has 6 messages, and the quota of a minute is 5: send fewer in one request',
  })
  const append = site.log.append.bind(site.log)
  site.log.append = () => Promise.reject(new LogUnavailableError('away'))
  expect((await publish(5)).status).toBe(503)
  site.log.append = append
  expect((await publish(3)).status).toBe(202)
  const refused = await publish(3)
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '12'])
  expect((await publish(2)).status).toBe(202)
  expect(site.messages()).toHaveLength(5)
})

test('messages of a thing whose owner has bounds are decoded, and count together', async () => {
  await using site = await openSite({ bounds: openOwnerBounds(undefined, () => 0), linesMax: 10_000 })
  site.keys.isBounded = true
  const publish = (body: string) => site.publish(path, body, ndjson)
  expect((await publish(`${line}\n{"payload":[{"n":"a"}]}`)).json).toMatchObject({
    code: 'undecodable',
    detail: expect.stringMatching(/^line 2: /),
  })
  expect((await publish(lines(5_000))).json).toMatchObject({
    status: 413,
    detail: expect.stringMatching(/^the messages count as 1085000 bytes, .*fewer in one request/),
  })
  expect((await publish(lines(4_000))).status).toBe(202)
  expect((await publish(lines(1_000))).status).toBe(429)
  expect(site.messages()).toHaveLength(4_000)
})

test('each message is counted in the metrics, and a listener gets each with its id', async () => {
  const accepted: unknown[] = []
  const arrivals = { accepted: (...of: unknown[]) => void accepted.push(of), refused: () => undefined }
  await using site = await openSite({ arrivals })
  await site.publish(path, lines(3), ndjson)
  expect(await site.registry.metrics()).toContain('component_received_events_total{component_id="ingest",component_kind="source"} 3')
  expect(accepted).toEqual([0, 1, 2].map(offset => [thing, channel, `1-0-${offset}`, { partition: 0, offset }]))
})
