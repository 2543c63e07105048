// Pages that were printed lately: found where every value is what it was, and never otherwise.

import { expect, test } from 'vitest'
import type { Answer } from '../../readers/pages.ts'
import { openPrintedPages } from '../../readers/printed-pages.ts'
import type { DocumentRow, Row, SenmlRow } from '../../readers/reader.ts'
import { channel, records } from '../conformance/reader/fixture.ts'
import { options, owner, serve, unused } from './served.ts'

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

test('of many pages those that were kept last are found, and a large one is not kept', () => {
  const pages = openPrintedPages()
  const page = pageOf(record)
  for (let nth = 0; nth < 200; nth++) for (let time = 0; time < 2; time++) pages.keep(String(nth), page, printed)
  const found = Array.from({ length: 200 }, (_, nth) => nth).filter(nth => pages.find(String(nth), page) !== undefined)
  expect(found).toEqual(Array.from({ length: 64 }, (_, nth) => 136 + nth))
  pages.keep('199', page, { ...printed, body: Buffer.alloc(200_000).subarray(0, 10) })
  expect(pages.find('199', page)).toBeUndefined()
})

test('a page that is asked for again is answered by its bytes, its rows as they are now, and by a cursor that works', async () => {
  const rows = records.rows.slice(0, 4)
  const stored = [...rows]
  const { app, url } = await serve(
    { ...unused, read: ({ limit, after }) => Promise.resolve(after === undefined ? stored.slice(0, limit) : []) },
    options,
  )
  const ask = async (query: string, accept = 'application/json') => {
    const answer = await fetch(`${url}/channels/${channel}/messages?limit=3&count=none${query}`, { headers: { ...owner, accept } })
    return { status: answer.status, link: answer.headers.get('link'), text: await answer.text() }
  }
  await ask('')
  const first = await ask('')
  expect(first.status).toBe(200)
  expect(await ask('')).toEqual(first)
  const { next_cursor: cursor } = JSON.parse(first.text) as { next_cursor: string }
  expect(first.link).toContain(cursor)
  expect(await ask(`&cursor=${cursor}`)).toMatchObject({ status: 200 })
  expect((await ask('', 'text/csv')).text).not.toBe(first.text)

  stored[0] = { ...(rows[0] as SenmlRow), subtopic: 'changed' }
  const changed = await ask('')
  expect(changed.text).toContain('"Subtopic":"changed"')
  stored.shift()
  const shorter = await ask('')
  expect((JSON.parse(shorter.text) as { messages: unknown[]; next_cursor?: string }).messages).toHaveLength(3)
  expect(shorter.link).toBeNull()
  await app.close()
})
