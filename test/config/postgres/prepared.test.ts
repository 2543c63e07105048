// The names of prepared statements: one for each text that is asked again, the same in every process, and no more than a server should keep.

import { expect, test } from 'vitest'
import { DatabaseError } from '../../../config/postgres/database.ts'
import { openPrepared, type Prepared } from '../../../config/postgres/prepared.ts'

const failure = (sqlState: string): DatabaseError => new DatabaseError('refused', { sqlState, cause: undefined })
const changed = failure('0A000')
/** The name that a text has when it is asked for the second time. */
const askedTwice = (prepared: Prepared, sql: string): string | undefined => {
  prepared.nameOf(sql)
  return prepared.nameOf(sql)
}
const textsOf = (count: number, what: string): string[] => Array.from({ length: count }, (_, nth) => `SELECT ${nth} AS ${what}`)

test('a text has a name from the second time on that it is asked', () => {
  const prepared = openPrepared()
  expect(prepared.nameOf('SELECT 1')).toBeUndefined()
  const name = prepared.nameOf('SELECT 1')
  expect(name).toMatch(/^sluice_/)
  expect(prepared.nameOf('SELECT 1')).toBe(name)
})

test('in every process a text has the same name, and no two texts have one, whatever was asked before', () => {
  const [one, other] = [openPrepared(), openPrepared()]
  const texts = textsOf(50, 'n')
  const names = new Map(texts.map(sql => [sql, askedTwice(one, sql)]))
  for (const sql of texts.toReversed()) expect(askedTwice(other, sql)).toBe(names.get(sql))
  expect(new Set(names.values()).size).toBe(50)
})

test('a name is no longer than what PostgreSQL keeps of one (63 bytes)', () => {
  expect(Buffer.byteLength(askedTwice(openPrepared(), 'SELECT 1')!)).toBeLessThanOrEqual(63)
})

test('texts that are asked once take no name from those that are asked again', () => {
  const prepared = openPrepared()
  for (const sql of textsOf(10_000, 'once')) expect(prepared.nameOf(sql)).toBeUndefined()
  expect(askedTwice(prepared, 'SELECT 1')).toBeDefined()
})

test('a text that was asked once is forgotten behind 1,024 others', () => {
  const prepared = openPrepared()
  const texts = textsOf(1_025, 'once')
  for (const sql of texts) prepared.nameOf(sql)
  expect(prepared.nameOf(texts.at(-1)!)).toBeDefined()
  expect(prepared.nameOf(texts[0]!)).toBeUndefined()
})

test('256 names are given in all, those of changed columns with them; what has one keeps it', () => {
  const prepared = openPrepared()
  const given = new Set<string>()
  const ask = (sql: string): string | undefined => {
    const name = askedTwice(prepared, sql)
    if (name !== undefined) given.add(name)
    return name
  }
  for (const sql of textsOf(100, 'changing')) {
    prepared.forgets(sql, ask(sql)!, changed)
    ask(sql)
  }
  const texts = textsOf(100, 'n')
  const names = texts.map(ask)
  expect(given.size).toBe(256)
  expect(texts.map(ask)).toEqual(names)
  expect(prepared.forgets(texts[0]!, names[0]!, changed)).toBe(true)
  expect(ask(texts[0]!)).toBeUndefined()
})

test('a text whose columns have changed has another name, and no other text has', () => {
  const prepared = openPrepared()
  const names = ['SELECT 1', 'SELECT 2'].map(sql => askedTwice(prepared, sql)!)
  expect(prepared.forgets('SELECT 1', names[0]!, changed)).toBe(true)
  expect(prepared.nameOf('SELECT 1')).toMatch(/^sluice_/)
  expect(names).not.toContain(prepared.nameOf('SELECT 1'))
  expect(prepared.nameOf('SELECT 2')).toBe(names[1])
})

test('connections that fail together under one name go on to the same next one', () => {
  const prepared = openPrepared()
  const name = askedTwice(prepared, 'SELECT 1')!
  const next = Array.from({ length: 20 }, () => {
    expect(prepared.forgets('SELECT 1', name, changed)).toBe(true)
    return prepared.nameOf('SELECT 1')
  })
  expect(new Set(next).size).toBe(1)
  expect(next).not.toContain(name)
})

test('a text that fails with 0A000 under eight names has none from then on', () => {
  const prepared = openPrepared()
  const names = new Set<string>()
  prepared.nameOf('SELECT 1')
  for (let nth = 0; nth < 20; nth++) {
    const name = prepared.nameOf('SELECT 1')
    if (name === undefined) break
    names.add(name)
    expect(prepared.forgets('SELECT 1', name, changed)).toBe(true)
  }
  expect(names.size).toBe(8)
  expect(prepared.nameOf('SELECT 1')).toBeUndefined()
})

test.each(['26000', '42P05'])('behind a pooler, which a server tells by %s, nothing has a name', sqlState => {
  const prepared = openPrepared()
  const name = askedTwice(prepared, 'SELECT 1')!
  expect(prepared.forgets('SELECT 1', name, failure(sqlState))).toBe(true)
  expect(prepared.nameOf('SELECT 1')).toBeUndefined()
  expect(askedTwice(prepared, 'SELECT 2')).toBeUndefined()
})

test.each([failure('42P01'), failure(''), new Error('26000')])('any other error is none of the name: %s', error => {
  const prepared = openPrepared()
  const name = askedTwice(prepared, 'SELECT 1')!
  expect(prepared.forgets('SELECT 1', name, error)).toBe(false)
  expect(prepared.nameOf('SELECT 1')).toBe(name)
})
