// The names of prepared statements: one for each repeated text, the same in every process, and limited in number.

import { expect, test } from 'vitest'
import { DatabaseError } from '../../database/database.ts'
import { openPrepared, type Prepared } from '../../database/prepared.ts'

const failure = (sqlState: string): DatabaseError => new DatabaseError('refused', { sqlState, cause: undefined })
const changed = failure('0A000')
/** The name of a text that is requested twice. */
const askedTwice = (prepared: Prepared, sql: string): string | undefined => {
  prepared.nameOf(sql)
  return prepared.nameOf(sql)
}
const textsOf = (count: number, what: string): string[] => Array.from({ length: count }, (_, nth) => `SELECT ${nth} AS ${what}`)

test('a text has a name from its second request on', () => {
  const prepared = openPrepared()
  expect(prepared.nameOf('SELECT 1')).toBeUndefined()
  const name = prepared.nameOf('SELECT 1')
  expect(name).toMatch(/^sluice_/)
  expect(prepared.nameOf('SELECT 1')).toBe(name)
})

test('a text has the same name in every process, and different texts have different names, whatever was requested before', () => {
  const [one, other] = [openPrepared(), openPrepared()]
  const texts = textsOf(50, 'n')
  const names = new Map(texts.map(sql => [sql, askedTwice(one, sql)]))
  for (const sql of texts.toReversed()) expect(askedTwice(other, sql)).toBe(names.get(sql))
  expect(new Set(names.values()).size).toBe(50)
})

test('a name is no longer than PostgreSQL allows (63 bytes)', () => {
  expect(Buffer.byteLength(askedTwice(openPrepared(), 'SELECT 1')!)).toBeLessThanOrEqual(63)
})

test('texts that are requested once take no name from repeated ones', () => {
  const prepared = openPrepared()
  for (const sql of textsOf(10_000, 'once')) expect(prepared.nameOf(sql)).toBeUndefined()
  expect(askedTwice(prepared, 'SELECT 1')).toBeDefined()
})

test('a text that was requested once is forgotten after 1,024 others', () => {
  const prepared = openPrepared()
  const texts = textsOf(1_025, 'once')
  for (const sql of texts) prepared.nameOf(sql)
  expect(prepared.nameOf(texts.at(-1)!)).toBeDefined()
  expect(prepared.nameOf(texts[0]!)).toBeUndefined()
})

test('256 texts have a name in total, including those whose columns have changed; a named one keeps it', () => {
  const prepared = openPrepared()
  for (const sql of textsOf(100, 'changing')) {
    askedTwice(prepared, sql)
    prepared.forgets(sql, changed)
  }
  const texts = textsOf(200, 'n')
  const names = texts.map(sql => askedTwice(prepared, sql))
  expect(names.filter(name => name !== undefined)).toHaveLength(156)
  expect(texts.map(sql => prepared.nameOf(sql))).toEqual(names)
})

test('a text whose columns have changed has no name from then on, and others keep theirs', () => {
  const prepared = openPrepared()
  const [, other] = ['SELECT 1', 'SELECT 2'].map(sql => askedTwice(prepared, sql)!)
  expect(prepared.forgets('SELECT 1', changed)).toBe(true)
  expect(askedTwice(prepared, 'SELECT 1')).toBeUndefined()
  expect(prepared.nameOf('SELECT 2')).toBe(other)
})

test.each(['26000', '42P05'])('behind a pooler, detected by %s, nothing has a name', sqlState => {
  const prepared = openPrepared()
  askedTwice(prepared, 'SELECT 1')
  expect(prepared.forgets('SELECT 1', failure(sqlState))).toBe(true)
  expect(prepared.nameOf('SELECT 1')).toBeUndefined()
  expect(askedTwice(prepared, 'SELECT 2')).toBeUndefined()
})

test.each([failure('42P01'), failure(''), new Error('26000')])('any other error does not affect the name: %s', error => {
  const prepared = openPrepared()
  const name = askedTwice(prepared, 'SELECT 1')!
  expect(prepared.forgets('SELECT 1', error)).toBe(false)
  expect(prepared.nameOf('SELECT 1')).toBe(name)
})
