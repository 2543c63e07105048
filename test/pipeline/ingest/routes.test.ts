// Publishing over HTTP: accepted messages are stored in the log unchanged; refused ones are not, and the answer says what to do.
//
// Longer than most files: one site for all requests.

import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { connect } from 'node:net'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLogger } from '../../../config/logger.ts'
import { AccessUnavailableError } from '../../../control-plane/client.ts'
import { openapiRoutes } from '../../../http/openapi/openapi.ts'
import { createServer } from '../../../http/server.ts'
import { openIngestMetrics } from '../../../pipeline/ingest/metrics.ts'
import { ingestRoutes } from '../../../pipeline/ingest/routes.ts'
import { LogUnavailableError, MessageRefusedError } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { type Body, channel, type IngestSite, key, limitedKey, looseKey, openSite, thing, unlimited } from './site.ts'

const pack = '[{"n":"temperature","v":21.5}]'
const path = `/channels/${channel}/messages`
const absent = randomUUID()

let site: IngestSite

/** Publishes and disconnects in the middle of the body. */
async function abandon(site: IngestSite): Promise<void> {
  const asked = site.keys.requests.length
  const socket = connect(site.port, '127.0.0.1')
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Thing ${key}\r\ncontent-type: application/senml+json\r\ncontent-length: ${pack.length}\r\n\r\n${pack.slice(0, 10)}`,
  )
  await expect.poll(() => site.keys.requests.length).toBe(asked + 1)
  socket.destroy()
  await once(socket, 'close')
}

beforeAll(async () => {
  site = await openSite()
})
afterAll(() => site[Symbol.asyncDispose]())

test('a message is answered with 202 and its id, and is stored in the log byte for byte with its envelope', async () => {
  const payload = Buffer.from([0x20, 0x5b, 0x00, 0xff, 0xfe, 0x5d, 0x0a])
  const beforeUs = Date.now() * 1000
  const answer = await site.publish(`${path}/bedroom/temperature`, payload, { 'content-type': 'Application/SenML+CBOR; x=y' })
  const afterUs = (Date.now() + 1) * 1000
  const message = site.messages().at(-1)!

  expect(answer.status).toBe(202)
  expect(answer.headers.get('content-type')).toBe('application/json; charset=utf-8')
  expect(answer.json).toEqual({ id: `1-0-${Number(message['offset'])}` })
  expect(Buffer.from(message['payload'] as Uint8Array)).toEqual(payload)
  expect(message).toMatchObject({
    channel,
    subtopic: 'bedroom.temperature',
    publisher: thing,
    protocol: 'http',
    content_type: 'application/senml+cbor',
  })
  expect(message['created_us']).toBeGreaterThanOrEqual(beforeUs)
  expect(message['created_us']).toBeLessThan(afterUs)
})

const takenPaths: [path: string, subtopic: string][] = [
  [path, ''],
  [`${path}/`, ''],
  [`${path}/a///b/`, 'a.b'],
  [`${path}/a%2Fb`, 'a.b'],
  [`${path}/k%C3%BCche/%e6%b8%a9`, 'küche.温'],
  [`${path}/a?anything=1`, 'a'],
  [`${path}/${'a'.repeat(128)}/${'b'.repeat(128)}/${'c'.repeat(128)}`, `${'a'.repeat(128)}.${'b'.repeat(128)}.${'c'.repeat(128)}`],
]

test.each(takenPaths)('POST %s is published under the subtopic %j', async (path, subtopic) => {
  expect((await site.publish(path, pack)).status).toBe(202)
  expect(site.messages().at(-1)).toMatchObject({ subtopic })
})

test("a channel's id in upper case is the same channel", async () => {
  expect((await site.publish(`/channels/${channel.toUpperCase()}/messages`, pack)).status).toBe(202)
  expect(site.messages().at(-1)).toMatchObject({ channel })
})

test('a chunked body is one message', async () => {
  const body = new ReadableStream({
    start(controller) {
      controller.enqueue(Buffer.from('[{"n":"a",'))
      controller.enqueue(Buffer.from('"v":1}]'))
      controller.close()
    },
  })
  expect((await site.publish(path, body)).status).toBe(202)
  expect(Buffer.from(site.messages().at(-1)!['payload'] as Uint8Array).toString()).toBe('[{"n":"a","v":1}]')
})

test('the largest payload is accepted', async () => {
  expect((await site.publish(path, 'a'.repeat(262_144))).status).toBe(202)
})

const json = { 'content-type': 'application/json' }
const strict = { prefer: 'handling=strict' }

type Refusal = [what: string, status: number, sentence: RegExp, path: string, headers: Record<string, string | undefined>, body: Body]
const refusals: Refusal[] = [
  ['no key', 401, /Authorization: Thing <key>/, path, { authorization: undefined }, pack],
  ["a user's token", 401, /Authorization: Thing <key>/, path, { authorization: 'Bearer a.b.c' }, pack],
  ['an API key that is unknown', 401, /this API key is invalid/, path, { authorization: 'Bearer sluice_x' }, pack],
  ['an invalid key', 401, /unknown thing key/, path, { authorization: `Thing ${randomUUID()}` }, pack],
  [
    'an invalid key for an unknown channel',
    401,
    /unknown thing key/,
    '/channels/x/messages',
    { authorization: `Thing ${randomUUID()}` },
    pack,
  ],
  [
    'an invalid key, and an unknown type',
    401,
    /unknown thing key/,
    path,
    { authorization: `Thing ${randomUUID()}`, 'content-type': 'text/csv' },
    pack,
  ],
  ['a thing that is not connected', 403, /authorization over the entity/, path, { authorization: `Thing ${looseKey}` }, pack],
  ['a channel that does not exist', 403, /authorization over the entity/, `/channels/${absent}/messages`, {}, pack],
  ['a thing that is not connected, with an empty body', 400, /empty/, path, { authorization: `Thing ${looseKey}` }, ''],
  ['a channel that is not a UUID', 400, /channel.*UUID/, '/channels/living-room/messages', {}, pack],
  ['the channel of all zeros', 403, /authorization over the entity/, '/channels/00000000-0000-0000-0000-000000000000/messages', {}, pack],
  ['an empty body', 400, /the body is empty/, path, {}, ''],
  ['no body', 400, /the body is empty/, path, {}, null],
  ['a wildcard in the subtopic', 400, /\* or >/, `${path}/a/*`, {}, pack],
  ['an escaped wildcard in the subtopic', 400, /\* or >/, `${path}/a/%3E`, {}, pack],
  ['a space in the subtopic', 400, /space or a control/, `${path}/a%20b`, {}, pack],
  ['a NUL in the subtopic', 400, /space or a control/, `${path}/a%00b`, {}, pack],
  ['a percent sign in the subtopic', 400, /letters, digits/, `${path}/a%25`, {}, pack],
  ['17 parts', 400, /at most 16/, `${path}${'/a'.repeat(17)}`, {}, pack],
  ['a part of 129 bytes', 400, /at most 128/, `${path}/${'a'.repeat(129)}`, {}, pack],
  ['more than 1,024 bytes', 400, /at most 1024/, `${path}${`/${'a'.repeat(120)}`.repeat(9)}`, {}, pack],
  ['a JSON subtopic that ends in messages', 400, /cannot end in "messages"/, `${path}/a/messages`, json, '{}'],
  ['the JSON subtopic messages', 400, /cannot end in "messages"/, `${path}/messages`, json, '{}'],
  ['JSON without a subtopic', 400, /needs a subtopic.*\/channels\/<channel>\/messages\/<format>/, path, json, '{}'],
  ['an object labelled as SenML, without a subtopic', 400, /needs a subtopic/, path, {}, ' {"n":"a","v":1}'],
  ['an object labelled as SenML, without a subtopic and with strict handling', 400, /needs a subtopic/, path, strict, '{}'],
  ['JSON with an empty subtopic', 400, /needs a subtopic/, `${path}//`, json, '{}'],
  [
    'JSON without a subtopic from a thing that is not connected',
    400,
    /needs a subtopic/,
    path,
    { ...json, authorization: `Thing ${looseKey}` },
    '{}',
  ],
  [
    'JSON without a subtopic and with an unknown key',
    401,
    /unknown thing key/,
    path,
    { ...json, authorization: `Thing ${randomUUID()}` },
    '{}',
  ],
  [
    'no content type',
    415,
    /application\/senml\+json, application\/senml\+cbor, application\/json/,
    path,
    { 'content-type': undefined },
    Buffer.from(pack),
  ],
  ['an unknown content type', 415, /application\/senml\+json/, path, { 'content-type': 'text/plain' }, pack],
  ['a charset that is not UTF-8', 415, /UTF-8/, path, { 'content-type': 'application/json; charset=latin1' }, pack],
  ['a payload that is too large', 413, /262144 bytes/, path, {}, 'a'.repeat(262_145)],
  ['a payload of 2 MiB', 413, /262144 bytes/, path, {}, 'a'.repeat(2 * 1024 * 1024)],
]

test.each(refusals)(
  '%s is answered with %i and an explanation, and nothing is stored',
  async (_what, status, sentence, path, headers, body) => {
    const before = site.messages().length
    const answer = await site.publish(path, body, headers)
    expect(answer.json).toMatchObject({ status, error: expect.any(String), code: expect.any(String), request_id: expect.any(String) })
    expect(answer.status).toBe(status)
    expect(JSON.stringify(answer.json)).toMatch(new RegExp(sentence.source.replaceAll('"', '\\\\"')))
    expect(site.messages()).toHaveLength(before)
  },
)

const cbor = { 'content-type': 'application/senml+cbor' }
const twoValues = '[{"n":"a","v":1},{"n":"b","v":2,"vs":"two"}]'

type Undecodable = [what: string, pointer: string, detail: RegExp, path: string, headers: Record<string, string>, body: Body]
const undecodable: Undecodable[] = [
  [
    'SenML with two values in a record',
    '/body/1',
    /^record 1: both v and vs.*\(rule one-value\): send one record per value$/,
    path,
    {},
    twoValues,
  ],
  ['a pack that is not JSON', '/body', /\(rule json-syntax\)/, path, {}, '['],
  ['a time of the year 2100', '/body/0', /\(rule time-range\)/, path, {}, '[{"n":"a","v":1,"t":4102444800}]'],
  ['invalid CBOR', '/body', /\(rule cbor-/, path, cbor, Buffer.from([0xff])],
  ['an empty pack', '/body', /\(rule /, path, {}, '[]'],
  ['a JSON document that is a number', '/body', /\(rule /, `${path}/room`, json, '7'],
]

test.each(undecodable)(
  'with strict handling %s is refused before it is appended, with rule, record and hint',
  async (_what, pointer, detail, path, headers, body) => {
    const before = site.messages().length
    const answer = await site.publish(path, body, { ...headers, ...strict })
    expect(answer.json).toMatchObject({
      status: 400,
      code: 'undecodable',
      detail: expect.stringMatching(detail),
      errors: [{ pointer, detail: answer.json['detail'] }],
    })
    expect([answer.status, answer.headers.get('preference-applied')]).toEqual([400, 'handling=strict'])
    expect(site.messages()).toHaveLength(before)

    expect((await site.publish(path, body, headers)).status).toBe(202)
  },
)

const decodable: [what: string, path: string, headers: Record<string, string>, body: Body][] = [
  ['a pack', path, {}, pack],
  ['an empty list of documents', `${path}/room`, json, '[]'],
  ['CBOR', path, cbor, Buffer.from('81a200616102f94d60', 'hex')],
  ['a document', `${path}/room`, json, '{"a":1}'],
  ['a document labelled as SenML', `${path}/room`, {}, '{"a":1}'],
]

test.each(decodable)('with strict handling %s is accepted, and the answer says so', async (_what, path, headers, body) => {
  const answer = await site.publish(path, body, { ...headers, ...strict })
  expect([answer.status, answer.headers.get('preference-applied')]).toEqual([202, 'handling=strict'])
})

test('with strict handling the payload is checked before permissions, and the key before the payload', async () => {
  expect((await site.publish(path, twoValues, { ...strict, authorization: `Thing ${looseKey}` })).status).toBe(400)
  expect((await site.publish(path, twoValues, { ...strict, authorization: `Thing ${randomUUID()}` })).status).toBe(401)
  expect((await site.publish(path, pack, { ...strict, authorization: `Thing ${looseKey}` })).status).toBe(403)
})

test('without the preference the answer does not mention one', async () => {
  expect((await site.publish(path, pack)).headers.has('preference-applied')).toBe(false)
  expect((await site.publish(path, twoValues, { prefer: 'handling=lenient' })).headers.has('preference-applied')).toBe(false)
})

test('an unknown key that was used too often gets 429 with the time to wait; the access request contains the client address', async () => {
  const answer = await site.publish(path, pack, { authorization: `Thing ${limitedKey}` })
  expect([answer.status, answer.json['code'], answer.headers.get('retry-after')]).toEqual([429, 'too_many_requests', '42'])
  expect(site.keys.requests.at(-1)).toMatchObject({ address: '127.0.0.1' })
})

test.each(['%', '%zz', '%ff', '%c3%28'])('the malformed escape %s in a path is a 400', async escape => {
  const answer = await site.publish(`${path}/a${escape}`, pack)
  expect(answer.status).toBe(400)
  expect(JSON.stringify(answer.json)).toMatch(/path/)
})

test('a payload that is too large is detected without a declared length', async () => {
  const before = site.messages().length
  const body = new ReadableStream({
    pull(controller) {
      controller.enqueue(Buffer.alloc(65_536))
    },
  })
  const answer = await site.publish(path, body).catch((error: unknown) => error)
  // The server stops reading, so the client gets the answer or a closed connection.
  if (!(answer instanceof Error)) expect(answer).toMatchObject({ status: 413 })
  expect(site.messages()).toHaveLength(before)
})

test('SenML may be published to a subtopic that ends in messages', async () => {
  expect((await site.publish(`${path}/messages`, pack)).status).toBe(202)
})

test('the answer to a missing key names the accepted scheme', async () => {
  const answer = await site.publish(path, pack, { authorization: undefined })
  expect(answer.headers.get('www-authenticate')).toBe('Thing realm="sluice", Bearer realm="sluice"')
})

test('an invalid key is refused before the body is read', async () => {
  const socket = connect(site.port, '127.0.0.1')
  socket.write(
    `POST ${path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Thing none\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n`,
  )
  const [answer] = (await once(socket, 'data')) as [Buffer]
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 401 /)
  socket.destroy()
})

test('a client that disconnects in the middle of its body leaves nothing behind', async () => {
  const before = site.messages().length
  await abandon(site)
  // This request is answered after the abort was processed.
  expect((await site.publish(path, pack)).status).toBe(202)
  expect(site.messages()).toHaveLength(before + 1)
})

test('if access cannot be checked the answer is 503 with Retry-After', async () => {
  site.keys.fail = new AccessUnavailableError('away')
  try {
    const answer = await site.publish(path, pack)
    expect(answer.status).toBe(503)
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(answer.json['detail']).toMatch(/cannot be checked now: retry/)
  } finally {
    delete site.keys.fail
  }
})

test.each([new LogUnavailableError('its queue is full'), new SystemicError('the topic does not accept the time of this machine')])(
  'if the log accepts no message (%s) the answer is 503 with Retry-After, and the next publish is accepted',
  async failure => {
    await using site = await openSite()
    const append = site.log.append.bind(site.log)
    site.log.append = () => Promise.reject(failure)
    const answer = await site.publish(path, pack)
    expect(answer.status).toBe(503)
    expect(answer.headers.get('retry-after')).toMatch(/^\d+$/)
    expect(answer.json['detail']).toMatch(/not stored.*retry/)
    site.log.append = append
    expect((await site.publish(path, pack)).status).toBe(202)
    expect(site.messages()).toHaveLength(1)
  },
)

test('a message larger than the queue of the log is a 413, because it never fits', async () => {
  await using small = await openSite({ queueBytesMax: 2_000 })
  expect((await small.publish(path, 'a'.repeat(2_000))).status).toBe(413)
  expect((await small.publish(path, pack)).status).toBe(202)
})

test('a message that the log can never store is a 413 that says not to retry, and reveals nothing about the log', async () => {
  await using site = await openSite()
  site.log.append = () => Promise.reject(new MessageRefusedError('the topic of the operator accepts no message of 300000 bytes'))
  const answer = await site.publish(path, pack)
  expect([answer.status, answer.json['code']]).toEqual([413, 'too_large'])
  expect(answer.json['detail']).toMatch(/too large for the log.*instead of retrying/)
  expect(JSON.stringify(answer.json)).not.toContain('operator')
})

test('no 202 is sent before the log has the message', async () => {
  await using site = await openSite()
  const { log } = site
  const append = log.append.bind(log)
  const gate = Promise.withResolvers<void>()
  const reached = Promise.withResolvers<void>()
  log.append = async messages => {
    const positions = await append(messages)
    reached.resolve()
    await gate.promise
    return positions
  }
  let answered = false
  const answer = site.publish(path, pack).finally(() => (answered = true))
  await reached.promise
  // A later request is answered in between, so there was enough time.
  expect((await site.publish(path, '')).status).toBe(400)
  expect(answered).toBe(false)
  gate.resolve()
  expect((await answer).status).toBe(202)
})

test('accepted messages and refused publishes are counted, without ids', async () => {
  await using site = await openSite()
  await site.publish(path, pack)
  await site.publish(path, pack)
  await site.publish(path, pack, { authorization: undefined })
  await site.publish(path, 'a'.repeat(262_145))
  await site.publish('/channels/living-room/messages', pack)
  await abandon(site)
  const malformed = /component_errors_total\{.*error_code="malformed_request"\} 2/
  await expect.poll(() => site.registry.metrics()).toMatch(malformed)
  const text = await site.registry.metrics()
  expect(text).toContain('component_received_events_total{component_id="ingest",component_kind="source"} 2')
  expect(text).toContain(`component_received_event_bytes_total{component_id="ingest",component_kind="source"} ${2 * pack.length}`)
  expect(text).toMatch(/component_errors_total\{.*error_code="unauthenticated"\} 1/)
  expect(text).toMatch(/component_errors_total\{.*error_code="too_large"\} 1/)
  expect(text).not.toContain('error_code="other"')
  for (const id of [channel, thing, key]) expect(text).not.toContain(id)
})

test('the description names the errors, and an error is complete, whatever its schema contains', async () => {
  const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  openapiRoutes(app, { version: '0' })
  const { log, keys: access, registry } = site
  const parts = {
    log,
    access,
    logLabel: () => '1',
    metrics: openIngestMetrics(registry),
    options: { payloadBytesMax: 1000, linesMax: 10, ...unlimited },
  }
  await app.register(ingestRoutes(parts))
  const { paths } = (await app.inject('/openapi.json')).json<{ paths: Record<string, { post: { responses: object } }> }>()
  await app.close()
  const answers = Object.values(paths).map(({ post }) => Object.keys(post.responses))
  const statuses = ['202', '400', '401', '403', '413', '415', '421', '429', '431', '503']
  expect(answers).toEqual([statuses, statuses])

  const answer = await site.publish(`${path}/a%20b`, pack, { accept: 'application/problem+json' })
  expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/)
  expect(answer.json).toMatchObject({ type: 'about:blank', title: 'the request is malformed', errors: [{ pointer: '/path/subtopic' }] })
})
