// What a reader over any store answers to requests made from /openapi.json, and to texts at borders and of strangers: what is described, and in the
// bytes in which the plainest reader answers.

import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { createLogger } from '../../../config/logger.ts'
import { openapiRoutes } from '../../../http/openapi/openapi.ts'
import { createServer, type HttpServer } from '../../../http/server.ts'
import type { Reader } from '../../../readers/reader.ts'
import { readerRoutes } from '../../../readers/routes.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import { channel, dayUs, documents, everyRow, type KeptOf, neighbour, records, startUs } from '../../conformance/reader/fixture.ts'
import type { ReaderSite } from '../../conformance/reader/index.ts'
import { type Document, resolved } from '../../http/document-faults.ts'
import { openOracleReader } from '../oracle-reader.ts'
import { access, cursorKey, options, owner, thing } from '../served.ts'
import { boundaryQueries, fieldQueries, type Query } from './boundary-texts.ts'
import { type Answer, deviation, type Operation, type Request, requestsOf } from './described-requests.ts'
import { hostileTexts } from './hostile-texts.ts'

export interface RequestBench {
  readonly operation: Operation
  /** What the reader answers. */
  ask(request: Request, headers: Record<string, string>): Promise<Answer>
}

/** Those that take several parameters to ask for, which chance seldom brings together. */
const kinds: readonly Query[] = [
  [],
  [['latest', 'true']],
  [['limit', 'all']],
  [['limit', '2']],
  [['format', 'Weather']],
  [
    ['aggregation', 'sum'],
    ['interval', '1h'],
  ],
  [
    ['aggregation', 'max'],
    ['interval', '1h'],
    ['format', 'Weather'],
    ['field', 'payload.b'],
  ],
]
const kind = fc.oneof({ weight: 4, arbitrary: fc.constantFrom(...kinds) }, { weight: 1, arbitrary: fc.constantFrom(...fieldQueries) })

const onePath = `/channels/${channel}/messages?`
const twoPath = `/messages?channel=${neighbour}&channel=${channel}&`

/** Of a page and those behind it. */
const pagesMax = 3

/**
 * @param open a reader over an empty store
 * @param requestsMax made for the owner, and as many for a thing
 */
export function requestSuite(open: () => Promise<ReaderSite>, requestsMax: number): RequestBench {
  let site: ReaderSite
  let app: HttpServer
  let plainest: HttpServer
  let operation: Operation
  let formats: Operation

  beforeAll(async () => {
    site = await open()
    const keptOf: KeptOf | undefined = site.keptOf === undefined ? undefined : payload => site.keptOf!(payload)
    const batch = new RecordBatch()
    records.appendTo(batch)
    documents.appendTo(batch, keptOf)
    await site.store(batch)
    app = await serverOf(site.reader)
    plainest = await serverOf(openOracleReader(everyRow(keptOf)))
    const { paths } = resolved((await app.inject('/openapi.json')).json<Document>()) as unknown as {
      paths: Record<string, Record<string, Operation>>
    }
    expect(Object.entries(paths).map(([path, methods]) => [path, Object.keys(methods)])).toEqual([
      ['/channels/{channel}/messages', ['get']],
      ['/messages', ['get']],
      ['/channels/{channel}/formats', ['get']],
    ])
    operation = paths['/channels/{channel}/messages']!['get']!
    formats = paths['/channels/{channel}/formats']!['get']!
  })
  afterAll(async () => {
    await plainest.close()
    await app.close()
    await site.close()
  })

  /** What is wrong with the answer: by the description, or beside the plainest reader's. */
  async function faultOf(request: Request, headers: Record<string, string>, answer: Answer, of = onePath): Promise<string | undefined> {
    const fault = deviation(operation, request, answer)
    if (fault !== undefined) return `${fault}: ${answer.body.slice(0, 500)}`
    const expected = await askOf(plainest, request, headers, of)
    if (answer.status !== expected.status) return `the status is ${answer.status} and not ${expected.status}: ${answer.body.slice(0, 500)}`
    const isCounted = !answer.body.includes(lowerBound)
    const [found, right] = [answer, expected].map(({ body }) => comparable(body, isCounted))
    return answer.status !== 200 || found === right ? undefined : `${found} is not ${right}`
  }

  async function expectRight(query: Query): Promise<Answer> {
    const request = requestOf(query)
    const answer = await askOf(app, request, owner, onePath)
    expect(await faultOf(request, owner, answer), shown(query)).toBeUndefined()
    return answer
  }

  test.each([
    ['the owner', owner, onePath],
    ['the owner, of two channels,', owner, twoPath],
    ['a thing', thing, onePath],
  ])("answers to %s are as described and equal to the simplest reader's, page after page", async (_who, headers, of) => {
    const statuses = new Map<number, number>()
    await fc.assert(
      fc.asyncProperty(requestsOf(operation), kind, async (made, given) => {
        const rest = made.query.filter(({ name }) => given.every(([other]) => other !== name))
        let request: Request | undefined = { ...made, query: [...requestOf(given).query, ...rest] }
        for (let nth = 0; nth < pagesMax && request !== undefined; nth++) {
          const answer = await askOf(app, request, headers, of)
          statuses.set(answer.status, (statuses.get(answer.status) ?? 0) + 1)
          expect(await faultOf(request, headers, answer, of)).toBeUndefined()
          request = behind(request, answer)
        }
      }),
      { numRuns: requestsMax },
    )
    // Of a generator that makes only wrong requests nothing would be learned.
    expect(statuses.get(200)).toBeGreaterThan(requestsMax / 12)
    expect(statuses.get(400)).toBeGreaterThan(requestsMax / 12)
    // One in twelve, of which a few dozen requests may have none.
    if (requestsMax >= 300) expect(statuses.get(406)).toBeGreaterThan(requestsMax / 120)
  })

  test.each([
    ['the owner', owner],
    ['a thing', thing],
  ])("the formats in the answers to %s are as described and equal to the simplest reader's", async (_who, headers) => {
    vi.spyOn(Date, 'now').mockReturnValue((startUs + 3 * dayUs) / 1000)
    try {
      for (const days of ['', 'days=1', 'days=3', 'days=6', 'days=30']) {
        const [found, right] = await Promise.all(
          [app, plainest].map(one => one.inject({ url: `/channels/${channel}/formats?${days}`, headers })),
        )
        const answer = { status: found!.statusCode, contentType: String(found!.headers['content-type']), body: found!.body }
        expect(deviation(formats, { query: [], accept: '*/*' }, answer), days).toBeUndefined()
        expect([answer.status, answer.body], days).toEqual([200, right!.body])
      }
    } finally {
      vi.restoreAllMocks()
    }
  })

  test('a text at a limit of a time, a number or a length is compared exactly or refused', async () => {
    const statuses = new Set<number>()
    for (const query of boundaryQueries) statuses.add((await expectRight(query)).status)
    expect(statuses).toEqual(new Set([200, 400]))
  })

  test('a field of a payload is found by the text that answers print, and by no other', async () => {
    let found = 0
    for (const query of fieldQueries) if ((await expectRight(query)).body.includes('"Payload":')) found++
    expect(found).toBeGreaterThan(10)
  })

  test('each hostile text in each parameter is compared or refused, and never causes a failure', async () => {
    for (const { name } of operation.parameters.filter(one => one.in === 'query')) {
      for (const text of hostileTexts) {
        const { status, body } = await expectRight([[name, text]])
        expect([200, 400], `${name}=${text}`).toContain(status)
        if (status === 400) expect(body).toContain(`/query/${name}`)
      }
    }
    for (const text of hostileTexts.filter(one => one !== '')) {
      for (const [name, value] of [[`payload.${text}`, 'x'] as const, ['payload.b', text] as const]) {
        const query: Query = [
          ['format', 'Weather'],
          [name, value],
        ]
        expect([200, 400], shown(query)).toContain((await expectRight(query)).status)
      }
      const answer = await askOf(app, requestOf([]), owner, `/channels/${encodeURIComponent(text)}/messages?`)
      // A channel may have any id; this one is not the owner's.
      expect([400, 403, 404], text).toContain(answer.status)
    }
  })

  return {
    get operation() {
      return operation
    },
    ask: (request, headers) => askOf(app, request, headers, onePath),
  }
}

async function serverOf(reader: Reader): Promise<HttpServer> {
  const app = createServer({ logger: createLogger({ level: 'error', pretty: false }) })
  openapiRoutes(app, { version: '0' })
  await app.register(readerRoutes({ reader, access, key: cursorKey, options, queriesAtOnce: 10 }))
  return app
}

function requestOf(query: Query): Request {
  return { query: query.map(([name, text]) => ({ name, escaped: encodeURIComponent(text), isRight: true })), accept: '*/*' }
}

async function askOf(app: HttpServer, { query, accept }: Request, headers: Record<string, string>, of: string): Promise<Answer> {
  const url = `${of}${query.map(({ name, escaped }) => `${encodeURIComponent(name)}=${escaped}`).join('&')}`
  // What no header can hold is no header.
  const wanted = /^[\u0020-\u007e]*$/.test(accept) ? accept : '*/*'
  const answer = await app.inject({ url, headers: { ...headers, accept: wanted } })
  return { status: answer.statusCode, contentType: String(answer.headers['content-type']), body: answer.body }
}

const nextCursor = /"next_cursor":"([^"]*)"\}$/

/** The request for the page behind; undefined where none follows, or its cursor is no part of the answer. */
function behind(request: Request, { body }: Answer): Request | undefined {
  const cursor = nextCursor.exec(body)?.[1]
  if (cursor === undefined) return undefined
  const rest = request.query.filter(({ name }) => name !== 'cursor' && name !== 'offset')
  return { ...request, query: [...rest, { name: 'cursor', escaped: cursor, isRight: true }] }
}

const lowerBound = ',"total_is_lower_bound":true'

/** Without the cursor, which is sealed anew each time, and without a total that took the store too long. */
function comparable(body: string, isCounted: boolean): string {
  const rows = body.replace(nextCursor, '"next_cursor":""}')
  return isCounted ? rows : rows.replace(lowerBound, '').replace(/^\{"total":\d+,/, '{')
}

function shown(query: Query): string {
  return query.map(([name, text]) => `${name.slice(0, 100)}=${text.slice(0, 100)}`).join('&')
}
