// Requests made from /openapi.json: every answer is one that it describes, and what it does not take is refused.

import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { openapiRoutes } from '../../config/http/openapi.ts'
import { createServer, type HttpServer } from '../../config/http/server.ts'
import { createLogger } from '../../config/logger.ts'
import { readerRoutes } from '../../readers/routes.ts'
import { channel } from '../conformance/reader/fixture.ts'
import { type Answer, deviation, type Operation, type Request, requestsOf } from './described-requests.ts'
import { hostileTexts } from './hostile-texts.ts'
import { access, cursors, options, owner, serveFixture, thing } from './served.ts'

const served = serveFixture()
let app: HttpServer
let operation: Operation

beforeAll(async () => {
  app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  openapiRoutes(app, { version: '0' })
  await app.register(readerRoutes({ reader: served.store.reader, access, cursors, options }))
  const { paths } = (await app.inject('/openapi.json')).json<{ paths: Record<string, Record<string, Operation>> }>()
  expect(Object.entries(paths).map(([path, methods]) => [path, Object.keys(methods)])).toEqual([['/channels/{channel}/messages', ['get']]])
  operation = paths['/channels/{channel}/messages']!['get']!
})
afterAll(() => app.close())

async function ask({ query, accept }: Request, headers: Record<string, string>, of = channel): Promise<Answer> {
  const url = `/channels/${of}/messages?${query.map(({ name, escaped }) => `${encodeURIComponent(name)}=${escaped}`).join('&')}`
  // What no header can hold is no header.
  const wanted = /^[\u0020-\u007e]*$/.test(accept) ? accept : '*/*'
  const answer = await app.inject({ url, headers: { ...headers, accept: wanted } })
  return { status: answer.statusCode, contentType: String(answer.headers['content-type']), body: answer.body }
}

/** Those that take several parameters to ask for, which chance seldom brings together. */
const kinds: readonly (readonly (readonly [name: string, escaped: string])[])[] = [
  [],
  [['latest', 'true']],
  [['limit', 'all']],
  [['format', 'Weather']],
  [
    ['aggregation', 'sum'],
    ['interval', '1h'],
  ],
]

test.each([
  ['the owner', owner],
  ['a thing', thing],
])(
  'what %s is answered is as described',
  async (_who, headers) => {
    const statuses = new Map<number, number>()
    await fc.assert(
      fc.asyncProperty(requestsOf(operation), fc.constantFrom(...kinds), async (made, kind) => {
        const given = kind.map(([name, escaped]) => ({ name, escaped, isRight: true }))
        const request = { ...made, query: [...given, ...made.query.filter(({ name }) => kind.every(([other]) => other !== name))] }
        const answer = await ask(request, headers)
        statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
        expect(deviation(operation, request, answer)).toBeUndefined()
      }),
      { numRuns: 600 },
    )
    // Of a generator that makes only wrong requests nothing would be learned.
    expect(statuses.get(200)).toBeGreaterThan(50)
    expect(statuses.get(400)).toBeGreaterThan(50)
    expect(statuses.get(406)).toBeGreaterThan(5)
  },
  120_000,
)

test('each hostile text in each parameter is compared or refused, and never a failure', async () => {
  for (const { name, schema } of operation.parameters.filter(one => one.in === 'query')) {
    for (const text of hostileTexts) {
      const answer = await ask({ query: [{ name, escaped: encodeURIComponent(text), isRight: true }], accept: '*/*' }, owner)
      expect([200, 400], `${name}=${text}: ${answer.body}`).toContain(answer.status)
      if (answer.status === 400) expect(answer.body, JSON.stringify(schema)).toContain(`/query/${name}`)
    }
  }
  for (const text of hostileTexts.filter(one => one !== '')) {
    for (const [name, value] of [
      [`payload.${text}`, 'x'],
      ['payload.b', text],
    ] as const) {
      const query = [
        ['format', 'Weather'],
        [name, value],
      ].map(([one, other]) => ({ name: one!, escaped: encodeURIComponent(other!), isRight: true }))
      const answer = await ask({ query, accept: '*/*' }, owner)
      expect([200, 400], `${name}=${value}: ${answer.body}`).toContain(answer.status)
    }
    const answer = await ask({ query: [], accept: '*/*' }, owner, encodeURIComponent(text))
    expect([400, 404], text).toContain(answer.status)
  }
}, 60_000)

test('an answer that is not as described is found', async () => {
  const request: Request = { query: [], accept: '*/*' }
  const answer = await ask(request, owner)
  expect(deviation(operation, request, answer)).toBeUndefined()
  const changed = (from: RegExp, to: string): Operation => {
    const text = JSON.stringify(operation)
    expect(text).toMatch(from)
    return JSON.parse(text.replace(from, to)) as Operation
  }
  expect(deviation(changed(/"200":/, '"201":'), request, answer)).toMatch(/status 200/)
  expect(deviation(changed(/"application\/json":/, '"text/html":'), request, answer)).toMatch(/type application\/json/)
  expect(deviation(changed(/"Value":\{"type":"number"\}/, '"Value":{"type":"string"}'), request, answer)).toMatch(/messages/)
  expect(deviation(changed(/"Unit":\{/, '"Units":{'), request, answer)).toMatch(/messages/)
  expect(deviation(changed(/"limit":\{/, '"limits":{'), request, answer)).toMatch(/additional/)
  expect(deviation(operation, { ...request, query: [{ name: 'x', escaped: 'y', isRight: false }] }, answer)).toMatch(/wrong parameter/)
})
