// Who may see what, for made-up worlds: an answer is, byte for byte, what it would be if nothing else were stored, and what reaches the
// database is bound to the channel, and for a thing to the thing.

import { randomUUID } from 'node:crypto'
import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test, vi } from 'vitest'
import { type Access, parseCredential } from '../../../control-plane/client.ts'
import type { Database, SqlValue } from '../../../database/database.ts'
import { bucketsJson, frameEnd, frameStart } from '../../../readers/answers/record-json.ts'
import { formatsAnswer } from '../../../readers/formats.ts'
import { openPostgresReader } from '../../../readers/postgres/reader.ts'
import type { Aggregation, Row } from '../../../readers/reader.ts'
import { bucketsOf, filterOf, inOrder, latestOf, type StoredRow, selected } from '../../conformance/reader/oracle.ts'
import { pageText, rowsText } from '../answers/page-text.ts'
import { openOracleReader } from '../oracle-reader.ts'
import { openEmbeddedSite, type PostgresSite } from '../postgres/site.ts'
import { options, serve } from '../served.ts'
import { build, plans, startUs, type World } from './world.ts'

interface Statement {
  readonly sql: string
  readonly values: readonly SqlValue[]
}

let site: PostgresSite
const statements: Statement[] = []
let recorded: Database
let offset = 0

beforeAll(async () => {
  site = await openEmbeddedSite()
  recorded = {
    ...site.database,
    query: (sql, values = [], asking) => {
      statements.push({ sql, values })
      return site.database.query(sql, values, asking)
    },
  }
})
afterAll(() => site.close())

/** By number of the world's; `nobody` has credentials that are none. */
type Asker = { readonly thing: number } | { readonly user: number } | 'nobody'

interface Asked {
  readonly asker: Asker
  /** Of the world's; beyond them one that does not exist. */
  readonly channel: number
  /** Read together with it. */
  readonly others: readonly number[]
  readonly format: 'messages' | 'weather'
  readonly direction: 'asc' | 'desc'
  readonly limit: number
  /** The filter on the publisher, by number; beyond the world's: nobody. */
  readonly publisher: number | undefined
  readonly subtopic: string | undefined
  readonly fromHours: number | undefined
  readonly kind: 'page' | 'latest' | 'export' | 'formats' | Aggregation
}

function isAggregation(kind: Asked['kind']): kind is Aggregation {
  return kind !== 'page' && kind !== 'latest' && kind !== 'export' && kind !== 'formats'
}

const optional = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined, freq: 2 })
const askedOnes: fc.Arbitrary<Asked> = fc
  .record({
    asker: fc.oneof(
      { weight: 6, arbitrary: fc.record({ thing: fc.nat({ max: 3 }) }) },
      { weight: 3, arbitrary: fc.record({ user: fc.nat({ max: 2 }) }) },
      { weight: 1, arbitrary: fc.constant('nobody' as const) },
    ),
    channel: fc.nat({ max: 3 }),
    others: fc.oneof(fc.constant([]), fc.array(fc.nat({ max: 3 }), { minLength: 1, maxLength: 2 })),
    format: fc.constantFrom('messages', 'weather'),
    direction: fc.constantFrom('asc', 'desc'),
    limit: fc.integer({ min: 1, max: 7 }),
    publisher: optional(fc.nat({ max: 4 })),
    subtopic: optional(fc.constantFrom('', 'a', 'a.b', 'a.weather')),
    fromHours: optional(fc.integer({ min: 0, max: 20 })),
    kind: fc.constantFrom('page', 'page', 'page', 'latest', 'export', 'formats', 'count', 'sum', 'last'),
  })
  .map((asked): Asked => {
    if (asked.kind === 'formats') return { ...asked, others: [] }
    return isAggregation(asked.kind) ? { ...asked, format: 'messages' } : asked
  })

test('no answer reveals anything that the reader may not see', async () => {
  // Here, since a mock of `beforeAll` is gone when the test begins. Two answers to one request would name two seconds otherwise.
  vi.spyOn(Date, 'now').mockReturnValue(startUs / 1000 + 2 * 86_400_000)
  await fc.assert(
    fc.asyncProperty(plans, fc.array(askedOnes, { minLength: 1, maxLength: 12 }), async (plan, requests) => {
      const world = build(plan, offset)
      offset += plan.messages.length
      await site.store(world.batch)
      const { app, url } = await serve(openPostgresReader({ database: recorded }), options, world.access)
      try {
        for (const asked of requests) await expectAnswer(world, url, asked)
      } finally {
        await app.close()
      }
    }),
    { numRuns: 40 },
  )
})

async function expectAnswer(world: World, url: string, asked: Asked): Promise<void> {
  const channel = world.channels[asked.channel] ?? randomUUID()
  const channels = [...new Set([channel, ...asked.others.map(other => world.channels[other] ?? randomUUID())])]
  const authorization = headerOf(world, asked.asker)
  const publisher = asked.publisher === undefined ? undefined : (world.things[asked.publisher]?.id ?? 'nobody')
  const query = new URLSearchParams(queryOf(asked, publisher)).toString()
  const get = async (more = '', of: readonly string[] = channels): Promise<Got> => {
    const request = asked.kind === 'formats' ? `formats?days=${daysOf(asked)}` : `messages?${query}${more}`
    const path = of.length === 1 ? `/channels/${of[0]}/${request}` : `/${request}${of.map(one => `&channel=${one}`).join('')}`
    const answer = await fetch(url + path, { headers: { authorization } })
    return { status: answer.status, text: await answer.text(), link: answer.headers.get('link') }
  }
  statements.length = 0
  const first = await get()
  const credential = parseCredential(authorization)!
  const rights = await Promise.all(channels.map(one => world.access.authorize({ credential, channel: one, action: 'read' })))
  const refused = rights.find(one => !one.allowed)
  if (refused !== undefined) {
    expect([first.status, first.link]).toEqual([refused.reason === 'forbidden' ? 403 : 401, null])
    // Nor whether there are such channels.
    const absent = channels.map((one, nth) => (rights[nth]!.allowed ? one : randomUUID()))
    for (const of of [absent, [randomUUID()]]) expect(withoutId(first)).toEqual(withoutId(await get('', of)))
    expect(statements).toEqual([])
    return
  }
  const right = rights[0] as Access & { allowed: true }
  if (asked.kind === 'formats') {
    const reader = openOracleReader(visibleTo(world, right, channels))
    expect(first.text).toBe(await formatsAnswer(reader, channel, undefined, daysOf(asked), new AbortController().signal))
    await expectBound(right.publisher, channels, undefined)
    return
  }
  const filter = filterOf({
    channel,
    format: asked.format,
    publisher,
    subtopic: asked.subtopic,
    fromNs: asked.fromHours === undefined ? undefined : BigInt(startUs + asked.fromHours * 3_600_000_000) * 1000n,
  })
  const visible = visibleTo(world, right, channels)
  const rows = inOrder(
    channels.flatMap(one => selected(visible, { ...filter, channel: one })),
    asked.direction,
  )
  const { limit, format, direction, kind } = asked
  if (kind === 'export') {
    expect(first.text).toBe(frameStart({ total: undefined, offset: 0, limit: 'all', format }) + rowsText(rows) + frameEnd({}))
  } else if (kind === 'page' || kind === 'latest') {
    await expectPages(kind === 'page' ? rows : inOrder(latestOf(rows), direction), asked, first, get)
  } else {
    const buckets = bucketsOf(rows, { ...filter, aggregation: kind, intervalUs: 86_400_000_000, direction, limit, offset: 0 })
    const frame = { total: { total: buckets.length, isExact: true }, offset: 0, limit, format }
    expect(first.text).toBe(frameStart(frame) + bucketsJson(buckets.slice(0, limit)) + frameEnd({}))
  }
  await expectBound(right.publisher, channels, publisher)
}

interface Got {
  readonly status: number
  readonly text: string
  readonly link: string | null
}

/** Page after page by the cursor, each whole text; the total of each is of all. */
async function expectPages(
  whole: readonly Row[],
  { limit, format }: Asked,
  first: Got,
  get: (more: string) => Promise<Got>,
): Promise<void> {
  let answer = first
  for (let at = 0; ; at += limit) {
    const hasMore = at + limit < whole.length
    const nextCursor = hasMore ? ((JSON.parse(answer.text) as Record<string, unknown>)['next_cursor'] as string) : undefined
    const frame = { total: { total: whole.length, isExact: true }, offset: 0, limit, format, nextCursor }
    expect(answer.text).toBe(pageText(frame, whole.slice(at, at + limit)))
    expect(answer.link === null).toBe(!hasMore)
    if (nextCursor === undefined) return
    answer = await get(`&cursor=${nextCursor}`)
  }
}

/** What has reached the database is of one of these channels and, for a thing, of this thing; what cannot be answered has not reached it. */
async function expectBound(own: string | null, channels: readonly string[], asked: string | undefined): Promise<void> {
  const reads = statements.filter(({ sql }) => !sql.includes('FROM sluice.formats'))
  if (own !== null && asked !== undefined && asked !== own) expect(statements).toEqual([])
  for (const { sql, values } of reads) {
    if (sql.includes('FROM sluice.records')) await expectNumbersOf(own, channels, sql, values)
    else {
      const channel = channels.find(one => values.includes(one))!
      expect(sql).toMatch(new RegExp(`[cm]\\.channel = \\$${values.indexOf(channel) + 1}\\b`))
      if (own !== null) expect(sql).toMatch(new RegExp(`[sm]\\.publisher = \\$${values.indexOf(own) + 1}\\b`))
    }
    expect(sql).not.toMatch(/[0-9a-f]{8}-[0-9a-f]{4}-/)
  }
}

/** Rows are read by the number of the channel, and for a thing by the numbers of its series there. */
async function expectNumbersOf(own: string | null, channels: readonly string[], sql: string, values: readonly SqlValue[]): Promise<void> {
  const known = await site.database.query<{ channel: number; series: number }>(
    'SELECT s.channel, s.id AS series FROM sluice.series AS s JOIN sluice.channels AS c ON c.id = s.channel WHERE c.channel = ANY ($1::text[]) AND ($2::text IS NULL OR s.publisher = $2)',
    [channels, own],
  )
  const numbers = known.map(({ channel }) => channel)
  // A page looks its series up itself.
  const [found, channelParameter, publisherParameter] = /s\.channel = \$(\d+)::integer(?: AND s\.publisher = \$(\d+))?/.exec(sql) ?? []
  if (found !== undefined) {
    expect(numbers).toContain(values[Number(channelParameter) - 1])
    if (own !== null) expect(values[Number(publisherParameter) - 1]).toBe(own)
    return
  }
  const [, seriesParameter] = /(?:unnest|m\.series = ANY )\(\$(\d+)::integer\[\]\)/.exec(sql) ?? []
  if (seriesParameter === undefined) {
    expect(own).toBe(null)
    const [, wholeParameter] = /m\.channel = \$(\d+)::integer/.exec(sql) ?? []
    expect(numbers).toContain(values[Number(wholeParameter) - 1])
    return
  }
  const read = values[Number(seriesParameter) - 1] as readonly number[]
  expect(known.map(({ series }) => series)).toEqual(expect.arrayContaining([...read]))
}

/** Not all of the two days on which messages were published. */
function daysOf({ limit }: Asked): number {
  return 1 + (limit % 3)
}

function withoutId({ status, text }: Got): unknown[] {
  const { request_id: id, ...body } = JSON.parse(text) as Record<string, unknown>
  expect(id).toEqual(expect.any(String))
  return [status, body]
}

function headerOf(world: World, asker: Asker): string {
  if (asker === 'nobody') return `Thing ${randomUUID()}`
  return 'thing' in asker ? `Thing ${world.things[asker.thing]!.key}` : `Bearer ${world.tokens[asker.user]}`
}

function queryOf({ format, direction, limit, subtopic, fromHours, kind }: Asked, publisher: string | undefined): Record<string, string> {
  const groups = isAggregation(kind) ? { aggregation: kind, interval: '1d' } : {}
  return {
    format,
    dir: direction,
    limit: kind === 'export' ? 'all' : String(limit),
    ...(publisher === undefined ? {} : { publisher }),
    ...(subtopic === undefined ? {} : { subtopic }),
    ...(fromHours === undefined ? {} : { from: String(startUs / 1e6 + fromHours * 3600) }),
    ...(kind === 'latest' ? { latest: 'true' } : groups),
  }
}

/** The rule, in one line: its own messages to a connected thing, the channels to their owner. */
function visibleTo({ stored }: World, right: Access & { allowed: true }, channels: readonly string[]): StoredRow[] {
  return stored.filter(({ row }) => channels.includes(row.channel) && (right.publisher === null || row.publisher === right.publisher))
}
