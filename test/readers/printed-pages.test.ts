// Pages that were printed lately: found where every value is what it was, and never otherwise.

import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from 'vitest'
import type { HttpServer } from '../../config/http/server.ts'
import type { Printed } from '../../readers/answers.ts'
import type { Answer } from '../../readers/pages.ts'
import { keptBytesMax, openPrintedPages, type PrintedPages } from '../../readers/printed-pages.ts'
import type { DocumentRow, Reader, Row, SenmlRow } from '../../readers/reader.ts'
import { channel, publishers, records } from '../conformance/reader/fixture.ts'
import { cursors, options, owner, serve, thing, unused } from './served.ts'

const origin = { channel: 'c', subtopic: 's', publisher: 'p', protocol: 'http', position: 1n, index: 0 }
const record: SenmlRow = {
  ...origin,
  kind: 'senml',
  name: 'n',
  unit: 'Cel',
  timeUs: 5,
  value: 0,
  stringValue: 'a',
  boolValue: false,
  dataValue: Uint8Array.of(1, 2),
  sum: 0,
  updateTime: 3,
}
const document: DocumentRow = { ...origin, kind: 'document', createdNs: 5n, payloadText: '{"a":1}' }
const printed = { headers: { link: 'x' }, body: 'printed' }
const pageOf = (...items: Row[]): Answer<Row> => ({ items, total: { total: 5, isExact: true }, hasMore: true, nextCursor: undefined })

/** Whether what was printed for the one is given for the other. */
function isFound(one: Answer<Row>, other: Answer<Row>): boolean {
  const pages = openPrintedPages()
  for (let time = 0; time < 2; time++) pages.keep('key', one, printed)
  const found = pages.find('key', other)
  if (found !== undefined) expect(found).toBe(printed)
  return found !== undefined
}

test.each([record, document, { ...record, dataValue: undefined, unit: undefined }])('rows of the same values are the same: $kind', row => {
  const copy = 'dataValue' in row && row.dataValue !== undefined ? { ...row, dataValue: row.dataValue.slice() } : { ...row }
  expect(isFound(pageOf(row), pageOf(copy as Row))).toBe(true)
})

const others: Partial<Record<string, unknown>> = { kind: 'another', boolValue: true, value: -0, sum: -0, dataValue: Uint8Array.of(1, 3) }

test.each([record, document].flatMap(row => Object.keys(row).map(member => [row.kind, member, row] as const)))(
  'a %s with another %s is not the same',
  (_kind, member, row) => {
    const now: unknown = row[member as keyof typeof row]
    const other = others[member] ?? (typeof now === 'bigint' ? now + 1n : typeof now === 'number' ? now + 1 : `${String(now)}x`)
    expect(isFound(pageOf(row), pageOf({ ...row, [member]: other }))).toBe(false)
    if (['unit', 'value', 'stringValue', 'boolValue', 'dataValue', 'sum', 'updateTime'].includes(member)) {
      expect(isFound(pageOf(row), pageOf({ ...row, [member]: undefined }))).toBe(false)
      expect(isFound(pageOf({ ...row, [member]: undefined }), pageOf(row))).toBe(false)
    }
  },
)

test('another total, a lower bound, no total, an end and another number of rows are not the same', () => {
  const page = pageOf(record)
  expect(isFound(page, page)).toBe(true)
  for (const other of [
    { ...page, total: { total: 6, isExact: true } },
    { ...page, total: { total: 5, isExact: false } },
    { ...page, total: undefined },
    { ...page, hasMore: false },
    pageOf(record, record),
    pageOf(),
    pageOf(document),
  ]) {
    expect(isFound(page, other)).toBe(false)
    expect(isFound(other, page)).toBe(false)
  }
})

test('a page that has come once is not kept, nor one that begins or ends elsewhere each time', () => {
  const pages = openPrintedPages()
  const page = (position: bigint): Answer<Row> => pageOf({ ...record, position }, { ...record, position: position + 10n })
  for (let position = 0n; position < 5n; position++) {
    pages.keep('key', page(position), printed)
    expect(pages.find('key', page(position))).toBeUndefined()
  }
  pages.keep('key', page(4n), printed)
  expect(pages.find('key', page(4n))).toBe(printed)
})

/** Asks for each in turn, and prints what is not found. */
function ask(pages: PrintedPages, key: string, page: Answer<Row>, print: Printed = printed): boolean {
  if (pages.find(key, page) !== undefined) return true
  pages.keep(key, page, print)
  return false
}

const keep = (pages: PrintedPages, key: string, page: Answer<Row>, print?: Printed): void => {
  for (let time = 0; time < 2; time++) pages.keep(key, page, print ?? printed)
}
const keysOf = (name: string, length: number): string[] => Array.from({ length }, (_, nth) => `${name} ${nth}`)
const documentsOf = (count: number, characters: number): Answer<Row> =>
  pageOf(...Array.from({ length: count }, () => ({ ...document, payloadText: 'x'.repeat(characters) })))

test.each([200, 5_000, 12_000, 250_000])(
  'the rows of all pages that are kept are within the bound: 20 documents of %i characters',
  characters => {
    const pages = openPrintedPages()
    const page = documentsOf(20, characters)
    const keys = keysOf('page', 2_000)
    for (const key of keys) keep(pages, key, page)
    const found = keys.filter(key => pages.find(key, page) !== undefined)
    expect(found.length * 20 * characters).toBeLessThanOrEqual(keptBytesMax)
    // A page that alone has a sixtieth of it is not kept at all, and the last of others are.
    expect(found).toEqual(characters === 250_000 ? [] : keys.slice(-found.length))
    if (characters < 250_000) expect(found.length).toBeGreaterThanOrEqual(Math.min(64, keys.length))
  },
)

const long = 'x'.repeat(300_000)

test.each<[string, Row]>([
  ['a subtopic', { ...record, subtopic: long }],
  ['a name', { ...record, name: long }],
  ['a unit', { ...record, unit: long }],
  ['a text', { ...record, stringValue: long }],
  ['a document', { ...document, payloadText: long }],
  ['what a few bytes are a view of', { ...record, dataValue: Buffer.alloc(600_000).subarray(0, 10) }],
])('a page of large rows is not kept: %s', (_what, row) => {
  expect(isFound(pageOf(row), pageOf(row))).toBe(false)
})

test('views of the same bytes are counted once', () => {
  const bytes = Buffer.alloc(100_000)
  const page = pageOf(...Array.from({ length: 100 }, (_, nth) => ({ ...record, dataValue: bytes.subarray(nth, nth + 9) })))
  expect(isFound(page, page)).toBe(true)
})

test('a page that was printed large is not kept, nor one with a long URL', () => {
  const pages = openPrintedPages()
  const page = pageOf(record)
  for (const [key, print] of [
    ['text', { ...printed, body: long }],
    ['bytes', { ...printed, body: Buffer.alloc(600_000) }],
    ['k'.repeat(3_000), printed],
  ] as const) {
    keep(pages, key, page, print)
    expect(pages.find(key, page)).toBeUndefined()
  }
})

test('a short body is kept without the pool that it is a view of', () => {
  const pages = openPrintedPages()
  const body = Buffer.from(Buffer.alloc(200_000, 'x').buffer, 100, 10)
  keep(pages, 'key', pageOf(record), { ...printed, body })
  const found = pages.find('key', pageOf(record))!
  expect(found.headers).toBe(printed.headers)
  expect(found.body).toEqual(body)
  expect((found.body as Buffer).buffer.byteLength).toBe(10)
})

test('a page that is printed anew, changes or grows gives back what it took', () => {
  const pages = openPrintedPages()
  keep(pages, 'other', pageOf(record))
  const small = pageOf(document)
  for (let time = 0; time < 500; time++) {
    const { items } = documentsOf(1, 200_000)
    // Printed anew with the same ends; then with others, once too large for its ends, and once by its print.
    keep(pages, 'key', pageOf({ ...items[0]!, index: time }))
    pages.keep('key', pageOf({ ...items[0]!, index: time, subtopic: 't' }), printed)
    pages.keep('key', time % 3 === 0 ? small : pageOf({ ...items[0]!, index: time, subtopic: time % 3 === 1 ? long : 's' }), {
      ...printed,
      body: time % 3 === 2 ? long : '',
    })
  }
  expect(pages.find('other', pageOf(record))).toBe(printed)
})

test('a few hundred dashboards in turn are all found', () => {
  const pages = openPrintedPages()
  const page = pageOf(
    ...Array.from({ length: 100 }, () => ({ ...record, name: 'temperature', subtopic: 'floor.3.room', stringValue: undefined })),
  )
  const print = { ...printed, body: 'x'.repeat(22_000) }
  const keys = keysOf('dashboard', 300)
  const found = [1, 2, 3, 4].map(() => keys.filter(key => ask(pages, key, page, print)).length)
  expect(found).toEqual([0, 0, 300, 300])
})

test('where there are too many, the page that was found longest ago goes', () => {
  const pages = openPrintedPages()
  const page = documentsOf(1, 200_000)
  keep(pages, 'unasked', page)
  keep(pages, 'asked', page)
  for (const key of keysOf('other', 1_000)) {
    keep(pages, key, page)
    expect(pages.find('asked', page)).toBe(printed)
  }
  expect(pages.find('unasked', page)).toBeUndefined()
})

test('pages that come once push out none that are kept, and one comes again before a thousand others to be kept', () => {
  const pages = openPrintedPages()
  const page = pageOf(record)
  keep(pages, 'kept', page)
  pages.keep('soon', page, printed)
  for (const key of keysOf('once', 1_000)) expect(ask(pages, key, page)).toBe(false)
  pages.keep('soon', page, printed)
  pages.keep('late', page, printed)
  for (const key of keysOf('once more', 10_000)) expect(ask(pages, key, page)).toBe(false)
  pages.keep('late', page, printed)
  expect(pages.find('kept', page)).toBe(printed)
  expect(pages.find('soon', page)).toBe(printed)
  expect(pages.find('late', page)).toBeUndefined()
})

test('the texts of a page that has come once are not looked at', () => {
  const pages = openPrintedPages()
  const looked = vi.fn<() => string>(() => 'x')
  const page = pageOf(Object.defineProperty({ ...document }, 'payloadText', { get: looked }))
  pages.keep('key', page, printed)
  expect(looked).not.toHaveBeenCalled()
  pages.keep('key', page, printed)
  expect(looked).toHaveBeenCalled()
})

describe('over HTTP', () => {
  // A cursor is sealed for each print of a page that another follows.
  const prints = vi.spyOn(cursors, 'encode')
  const ofThing = records.rows.filter(({ publisher }) => publisher === publishers[0]).slice(0, 5)
  let stored: Row[]
  let app: HttpServer
  let url: string
  beforeAll(async () => {
    const read: Reader['read'] = ({ limit, after }) => Promise.resolve(after === undefined ? structuredClone(stored.slice(0, limit)) : [])
    ;({ app, url } = await serve({ ...unused, read }, options))
  })
  beforeEach(() => {
    stored = [...ofThing]
  })
  afterAll(() => app.close())

  /** Each test asks by limits of its own, so that what is kept of one is not found by another. */
  async function get(query: string, headers: Record<string, string> = {}) {
    prints.mockClear()
    const answer = await fetch(`${url}/channels/${channel}/messages?count=none${query}`, { headers: { ...owner, ...headers } })
    const text = await answer.text()
    return {
      status: answer.status,
      link: answer.headers.get('link'),
      type: answer.headers.get('content-type'),
      coding: answer.headers.get('content-encoding'),
      text,
      prints: prints.mock.calls.length,
    }
  }
  /** Then it is kept. */
  async function twice(query: string, headers?: Record<string, string>) {
    for (let time = 0; time < 2; time++) expect(await get(query, headers)).toMatchObject({ status: 200, prints: 1 })
  }
  const cursorIn = (text: string): string => (JSON.parse(text) as { next_cursor: string }).next_cursor

  test('a page that has come twice is not printed a third time, and its cursor works', async () => {
    const first = await get('&limit=3')
    expect(first).toMatchObject({ status: 200, prints: 1 })
    expect(await get('&limit=3')).toEqual(first)
    expect(await get('&limit=3')).toEqual({ ...first, prints: 0 })
    const cursor = cursorIn(first.text)
    expect(first.link).toContain(cursor)
    expect(await get(`&limit=3&cursor=${cursor}`)).toMatchObject({ status: 200 })
  })

  test('a page of which a row has changed, or after which there are no more, is printed anew', async () => {
    await twice('&limit=4')
    stored[0] = { ...(stored[0] as SenmlRow), value: 77 }
    const changed = await get('&limit=4')
    expect(changed.prints).toBe(1)
    expect(changed.text).toContain('"Value":77')
    expect(await get('&limit=4')).toEqual({ ...changed, prints: 0 })
    stored.pop()
    const last = await get('&limit=4')
    expect((JSON.parse(last.text) as { messages: unknown[] }).messages).toHaveLength(4)
    expect(last.link).toBeNull()
  })

  test('another form, coding or URL is another page', async () => {
    const plain = { 'accept-encoding': 'identity' }
    // Long enough to be compressed.
    stored = [...ofThing, ...ofThing]
    await twice('&limit=8&dir=desc', plain)
    const kept = await get('&limit=8&dir=desc', plain)
    expect(kept).toMatchObject({ prints: 0, coding: null, type: expect.stringContaining('application/json') })
    const others = {
      csv: await get('&limit=8&dir=desc', { ...plain, accept: 'text/csv' }),
      lines: await get('&limit=8&dir=desc', { ...plain, accept: 'application/x-ndjson' }),
      coded: await get('&limit=8&dir=desc', { 'accept-encoding': 'gzip' }),
      url: await get('&dir=desc&limit=8', plain),
    }
    for (const other of Object.values(others)) expect(other).toMatchObject({ status: 200, prints: 1 })
    expect(others.csv).toMatchObject({ type: expect.stringContaining('text/csv'), text: expect.stringMatching(/^Channel,/) })
    expect(others.lines).toMatchObject({
      type: expect.stringContaining('application/x-ndjson'),
      text: expect.stringMatching(/^\{"Channel"/),
    })
    expect(others.coded).toMatchObject({ coding: 'gzip', text: kept.text })
    expect(others.url.link).toContain('?count=none&dir=desc&limit=8&cursor=')
    expect(await get('&limit=8&dir=desc', plain)).toEqual(kept)
  })

  test('an owner and a thing who look at the same rows by the same URL are each given a page of their own', async () => {
    await twice('&limit=2', owner)
    await twice('&limit=2', thing)
    const [ofOwner, ofThing] = [await get('&limit=2', owner), await get('&limit=2', thing)]
    expect([ofOwner.prints, ofThing.prints]).toEqual([0, 0])
    const [ownerCursor, thingCursor] = [cursorIn(ofOwner.text), cursorIn(ofThing.text)]
    expect(await get(`&limit=2&cursor=${ownerCursor}`, owner)).toMatchObject({ status: 200 })
    expect(await get(`&limit=2&cursor=${thingCursor}`, thing)).toMatchObject({ status: 200 })
    expect(await get(`&limit=2&cursor=${ownerCursor}`, thing)).toMatchObject({ status: 400 })
  })
})
