// What the server does for every route: validation of bodies, queries and paths, and one error format.

import { afterAll, beforeAll, expect, onTestFinished, test, vi } from 'vitest'
import { startServer, type TestServer } from './test-server.ts'

let server: TestServer

beforeAll(async () => {
  server = await startServer()
})
afterAll(() => server.app.close())

const id = '6f0e7a0e-6f0e-4a0e-8f0e-6f0e7a0e6f0e'

test('a body is used unchanged: nothing is converted or removed', async () => {
  const things = [{ name: 'a', id, metadata: { deep: { er: [1, '1', null] }, constructor: 1 }, order: 'asc', unit: null }]
  expect((await server.post('/things/bulk', JSON.stringify(things))).body).toEqual({ things })
})

test.each([
  ['[{"name":1}]', '/body/0/name', 'is not allowed: give text of 1 to 10 characters'],
  ['[{"name":""}]', '/body/0/name', 'is not allowed: give text of 1 to 10 characters'],
  ['[{}]', '/body/0/name', 'is missing: add it'],
  ['[{"name":"a","nmae":1}]', '/body/0/nmae', 'is unknown: did you mean name?'],
  ['[{"name":"a","x/y~":1}]', '/body/0/x~1y~0', 'is unknown: remove it; allowed are name, id, metadata, order, unit'],
  ['[{"name":"a","id":"b"}]', '/body/0/id', 'is not allowed: give a UUID'],
  ['[{"name":"a","order":"up"}]', '/body/0/order', 'is not allowed: give one of asc, desc'],
  ['[{"name":"a","unit":1}]', '/body/0/unit', 'is not allowed: give text, or null'],
  ['[{"name":"a","metadata":[]}]', '/body/0/metadata', 'is not allowed: give an object'],
  ['{"name":"a"}', '/body', 'is not allowed: give a list of at most 1000 items, each an object'],
  [`[${'1,'.repeat(1000)}1]`, '/body', 'has 1001 items: give a list of at most 1000 items, each an object'],
  ['[{"name":"a\\u0000"}]', '/body/0/name', 'contains a NUL character: remove it'],
  ['[{"name":"\\ud800"}]', '/body/0/name', 'contains half of a surrogate pair: send complete characters'],
  ['[{"name":"a","metadata":{"__proto__":{"admin":true}}}]', '/body/0/metadata/__proto__', 'is not allowed as a name: choose another'],
  ['[{"name":"a","metadata":{"\\u005f_proto__":1}}]', '/body/0/metadata/__proto__', 'is not allowed as a name: choose another'],
])('the body %s is refused with its place and what to do', async (body, pointer, detail) => {
  const answer = await server.post('/things/bulk', body)
  expect(answer.status).toBe(400)
  expect(answer.body).toMatchObject({
    error: 'the request is malformed',
    code: 'malformed_request',
    status: 400,
    detail: `${pointer} ${detail}`,
    errors: [{ pointer, detail }],
  })
})

test('of more than twenty unknown keys, twenty are reported', async () => {
  const unknown = Array.from({ length: 30 }, (_, nth) => `"k${nth}":0`).join(',')
  const { status, body } = await server.post('/things/bulk', `[{"name":"a"},{"name":1,${unknown}}]`)
  const pointers = (body['errors'] as { pointer: string }[]).map(({ pointer }) => pointer)
  expect([status, pointers.length, pointers[0], pointers[20]]).toEqual([400, 21, '/body/1/k0', ''])
})

test('all faults of a body are reported together, up to twenty', async () => {
  const { body } = await server.post('/things/bulk', '[{"name":1},{"id":1},{"name":"a","order":1}]')
  expect((body['errors'] as { pointer: string }[]).map(({ pointer }) => pointer)).toEqual([
    '/body/0/name',
    '/body/1/name',
    '/body/1/id',
    '/body/2/order',
  ])
  const many = await server.post('/things/bulk', JSON.stringify(Array.from({ length: 1000 }, () => ({}))))
  expect(many.body['errors']).toHaveLength(21)
})

test.each([
  ['', 'the body is empty: send JSON'],
  [' ', 'the body is empty: send JSON'],
  ['[{"name":"a",]', 'the body is not JSON: Expected double-quoted property name in JSON at position 13 (line 1 column 14)'],
  ['[\n  {"name" "a"}]', "the body is not JSON: Expected ':' after property name in JSON at position 12 (line 2 column 11)"],
  ['[{"name":"a"}', "the body is not JSON: Expected ',' or ']' after array element in JSON at position 13 (line 1 column 14)"],
  ['[1] 😀', 'the body is not JSON: Unexpected non-whitespace character after JSON at position 4 (line 1 column 5)'],
  [new Uint8Array([0x5b, 0x22, 0xff, 0x22, 0x5d]), 'the body is not UTF-8: send JSON in UTF-8'],
  ['['.repeat(49_000), 'the body is not JSON: Unexpected end of JSON input'],
  ['[{"name":hidden}]', "the body is not JSON: Unexpected token 'h'"],
])('%j is refused with the reason', async (body, detail) => {
  const answer = await server.post('/things/bulk', body)
  expect([answer.status, answer.body['detail']]).toEqual([400, detail])
})

test('nesting deeper than 64 levels is refused, at any depth', async () => {
  for (const depth of [66, 49_000]) {
    const nested = `[{"name":"a","metadata":{"a":${'['.repeat(depth)}${']'.repeat(depth)}}}]`
    const answer = await server.post('/things/bulk', nested)
    expect([answer.status, answer.body['detail']]).toEqual([400, expect.stringContaining('is nested deeper than 64 levels')])
  }
})

test('the last of duplicate keys counts, and a byte order mark is ignored', async () => {
  expect((await server.post('/things/bulk', '\uFEFF[{"name":"a","name":"b"}]')).body).toEqual({ things: [{ name: 'b' }] })
})

test('a query is converted to the numbers and booleans of its schema, with the defaults', async () => {
  expect((await server.ask('/things?value=-2.5e1&connected=false&name=007')).body).toEqual({
    limit: 10,
    value: -25,
    connected: false,
    name: '007',
  })
})

test.each([
  ['limit=abc', '/query/limit', 'is not allowed: give a whole number from 1 to 100'],
  ['limit=', '/query/limit', 'is not allowed: give a whole number from 1 to 100'],
  ['limit=-1', '/query/limit', 'is not allowed: give a whole number from 1 to 100'],
  ['limit=101', '/query/limit', 'is not allowed: give a whole number from 1 to 100'],
  ['limit=1.0', '/query/limit', 'is not allowed: give a whole number from 1 to 100'],
  ['limit=1e1', '/query/limit', 'is not allowed: give a whole number from 1 to 100'],
  ['limit=%2B1', '/query/limit', 'is not allowed: give a whole number from 1 to 100'],
  ['limit=5&limit=6', '/query/limit', 'is repeated: give it once'],
  ['unknown=5&unknown=6', '/query/unknown', 'is repeated: give it once'],
  ['connected=yes', '/query/connected', 'is not allowed: give true or false'],
  ['value=Infinity', '/query/value', 'is not allowed: give a number'],
  ['name=%00', '/query/name', 'contains a NUL character: remove it'],
])('the query %s is refused with its place and what to do', async (query, pointer, detail) => {
  const answer = await server.ask(`/things?${query}`)
  expect([answer.status, answer.body['errors']]).toEqual([400, [{ pointer, detail }]])
})

test('a route without other parameters names the nearest known one, and other routes ignore unknown ones', async () => {
  expect((await server.ask('/strict?publsher=a')).body['detail']).toBe('/query/publsher is unknown: did you mean publisher?')
  expect((await server.ask('/things?what=ever&__proto__=1')).status).toBe(200)
})

test('a path parameter is validated, and an invalid URL path is refused', async () => {
  expect((await server.ask(`/things/${id}`)).body).toEqual({ id })
  expect((await server.ask('/things/x')).body['errors']).toEqual([{ pointer: '/path/id', detail: 'is not allowed: give a UUID' }])
  expect((await server.ask('/things/%zz')).status).toBe(400)
  expect((await server.ask(`/things/${'x'.repeat(5000)}`)).status).toBe(400)
})

test('any type other than JSON is a 415 with the accepted ones; parameters of the type are ignored', async () => {
  for (const type of ['text/plain', 'application/x-www-form-urlencoded', 'nonsense']) {
    const answer = await server.post('/things/bulk', '[]', type)
    expect([answer.status, answer.body['detail']]).toEqual([415, 'send application/json, and set the header content-type accordingly'])
    // The coding is not at fault.
    expect(answer.headers.get('accept-encoding')).toBeNull()
  }
  expect((await server.post('/things/bulk', '[]', 'application/json; charset=utf-8; profile=x')).status).toBe(200)
})

test('a body with a Content-Encoding is a 415 with any parser; the header without a body, and identity, are accepted', async () => {
  const gzip = { 'content-encoding': 'gzip' }
  for (const type of ['application/json', 'text/csv']) {
    const { status, headers, body } = await server.ask('/csv', { method: 'POST', headers: { ...gzip, 'content-type': type }, body: '[]' })
    // What is accepted instead (RFC 9110 §12.5.3 and §15.5.16).
    expect(headers.get('accept-encoding')).toBe('identity')
    expect([status, body['detail']]).toEqual([415, 'a compressed body is not supported: send it without Content-Encoding'])
  }
  const identity = { 'content-encoding': 'Identity', 'content-type': 'text/csv' }
  expect((await server.ask('/csv', { method: 'POST', headers: identity, body: 'a,b' })).body).toEqual({ text: 'a,b' })
  expect((await server.ask('/things', { headers: gzip })).status).toBe(200)
  // The token is checked first.
  expect((await server.ask('/closed', { method: 'POST', headers: gzip, body: '[]' })).status).toBe(401)
})

test('a body of 2 MiB is a 413 with the limit, and the connection stays open', async () => {
  const answer = await server.post('/things/bulk', 'x'.repeat(2 * 1024 * 1024))
  expect([answer.status, answer.body['detail']]).toEqual([413, 'the body is limited to 1048576 bytes: split the request'])
  expect(answer.headers.get('connection')).not.toBe('close')
})

test('an unknown path is a 404, also with an invalid body; a known path with another method is a 405 with the allowed ones', async () => {
  expect((await server.ask('/nothing')).body).toMatchObject({ code: 'not_found', status: 404 })
  expect((await server.post('/nothing', '{')).status).toBe(404)
  const answer = await server.ask(`/things/${id}?a=b`, { method: 'PATCH' })
  expect([answer.status, answer.headers.get('allow')]).toEqual([405, 'DELETE, GET, HEAD'])
  expect(answer.body).toMatchObject({ code: 'method_not_allowed', detail: 'use DELETE, GET, HEAD' })
})

test('HEAD is answered like GET without a body, and DELETE is accepted with the headers of an empty body', async () => {
  const head = await server.ask('/things', { method: 'HEAD' })
  expect([head.status, head.body]).toEqual([200, {}])
  expect((await server.ask(`/things/${id}`, { method: 'DELETE', headers: { 'content-type': 'application/json' } })).status).toBe(204)
})

test('a refused right always has the same text, whatever it is about', async () => {
  expect((await server.ask('/throws/forbidden')).body).toEqual({
    error: 'failed to perform authorization over the entity',
    code: 'forbidden',
    status: 403,
    request_id: expect.any(String) as string,
  })
})

test("detail says more than the code's sentence", async () => {
  expect((await server.ask('/throws/conflict')).body).toMatchObject({
    code: 'conflict',
    detail: 'another thing has this key: choose another',
  })
})

test.each(['defect', 'text', 'query'])('a bug (%s) is a 500 without details, with the id of its log line', async what => {
  const answer = await server.ask(`/throws/${what}`)
  expect(answer.status).toBe(500)
  expect(Object.keys(answer.body)).toEqual(['error', 'code', 'status', 'request_id'])
  expect(JSON.stringify(answer.body)).not.toContain('hidden')
  const line = server.lines().findLast(({ request_id }) => request_id === answer.body['request_id'])
  expect(line).toMatchObject({ level: 'error', msg: 'request failed', route: '/throws/:what', method: 'GET' })
})

test('an unavailable database is 503 with Retry-After, too many requests 429 with it, missing credentials 401 with WWW-Authenticate', async () => {
  const away = await server.ask('/throws/away')
  expect([away.status, away.headers.get('retry-after')]).toEqual([503, '1'])
  const limited = await server.ask('/throws/limited')
  expect([limited.status, limited.body['code'], limited.headers.get('retry-after')]).toEqual([429, 'too_many_requests', '1'])
  const unauthenticated = await server.ask('/throws/unauthenticated')
  expect([unauthenticated.status, unauthenticated.headers.get('www-authenticate')]).toEqual([401, 'Bearer realm="sluice"'])
})

test('an error is a problem document for clients that accept it (RFC 9457)', async () => {
  const answer = await server.ask('/throws/conflict', { headers: { accept: 'application/problem+json' } })
  expect(answer.headers.get('content-type')).toBe('application/problem+json')
  expect(answer.body).toMatchObject({ type: 'about:blank', title: 'the request conflicts with what exists', status: 409, code: 'conflict' })
})

test('the server generates the id of a request, and returns it in the header and in the error', async () => {
  const answer = await server.ask('/throws/conflict', { headers: { 'x-request-id': 'theirs', 'request-id': 'theirs' } })
  expect(answer.body['request_id']).toMatch(/^[0-9a-f-]{36}$/)
  expect(answer.headers.get('x-request-id')).toBe(answer.body['request_id'])
})

test('a successful request logs nothing, a refused one only at debug', async () => {
  const before = server.lines().length
  await server.ask('/things')
  expect(server.lines()).toHaveLength(before)
  const refused = await server.ask('/things?limit=0')
  const added = server.lines().slice(before)
  expect(added).toMatchObject([{ level: 'debug', msg: 'request rejected', request_id: refused.body['request_id'] }])
})

test('unavailability is logged once a minute without a stack, with the number of lines left out, which are at debug', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const own = await startServer()
  for (let asked = 0; asked < 5; asked++) await own.ask('/throws/away')
  vi.advanceTimersByTime(60_000)
  await own.ask('/throws/away')
  await own.app.close()
  const lines = own.lines().filter(({ msg }) => String(msg).startsWith('request not served'))
  const what = {
    msg: 'request not served (a dependency is unavailable: retry later: connection refused)',
    route: '/throws/:what',
    status: 503,
  }
  expect(lines).toMatchObject([
    { level: 'warn', left_out: 0, ...what },
    ...Array.from({ length: 4 }, () => ({ level: 'debug', ...what })),
    { level: 'warn', left_out: 4, ...what },
  ])
  expect(JSON.stringify(lines)).not.toContain('stack')
})

test.each([
  ['an answer', '/things'],
  ['the router’s own answer to an invalid path', '/%zz'],
  ['the router’s own answer to a long parameter', `/things/${'x'.repeat(5000)}`],
  ['the answer to an absent path', '/nothing'],
])('%s has security headers for browsers and its id, and does not name the server software', async (_what, path) => {
  const { headers, body } = await server.ask(path)
  expect(headers.get('x-request-id')).toBe(body['request_id'] ?? headers.get('x-request-id'))
  expect(headers.get('x-request-id')).toMatch(/^[0-9a-f-]{36}$/)
  expect(headers.get('content-security-policy')).toBe("default-src 'none';frame-ancestors 'none'")
  expect(headers.get('x-content-type-options')).toBe('nosniff')
  for (const name of ['server', 'x-powered-by', 'strict-transport-security', 'access-control-allow-origin'])
    expect(headers.get(name)).toBeNull()
})
