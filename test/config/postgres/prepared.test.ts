// The names of prepared statements: one for each text, and no more than a server should keep.

import { expect, test } from 'vitest'
import { DatabaseError } from '../../../config/postgres/database.ts'
import { openPrepared } from '../../../config/postgres/prepared.ts'

const failure = (sqlState: string): DatabaseError => new DatabaseError('refused', { sqlState, cause: undefined })

test('a text has one name, and another text another one', () => {
  const prepared = openPrepared()
  expect(prepared.nameOf('SELECT 1')).toBe(prepared.nameOf('SELECT 1'))
  expect(prepared.nameOf('SELECT 1')).not.toBe(prepared.nameOf('SELECT 2'))
})

test('what comes behind the first 256 texts has none', () => {
  const prepared = openPrepared()
  const names = Array.from({ length: 300 }, (_, nth) => prepared.nameOf(`SELECT ${nth}`))
  expect(new Set(names.filter(name => name !== undefined)).size).toBe(256)
  expect(prepared.nameOf('SELECT 299')).toBeUndefined()
  expect(prepared.nameOf('SELECT 0')).toBe(names[0])
})

test('a text whose columns have changed has another name, which was never used', () => {
  const prepared = openPrepared()
  const names = ['SELECT 1', 'SELECT 2'].map(sql => prepared.nameOf(sql))
  expect(prepared.forgets('SELECT 1', failure('0A000'))).toBe(true)
  expect(names).not.toContain(prepared.nameOf('SELECT 1'))
  expect(prepared.nameOf('SELECT 2')).toBe(names[1])
})

test.each(['26000', '42P05'])('behind a pooler, which a server tells by %s, nothing has a name', sqlState => {
  const prepared = openPrepared()
  prepared.nameOf('SELECT 1')
  expect(prepared.forgets('SELECT 1', failure(sqlState))).toBe(true)
  expect(prepared.nameOf('SELECT 1')).toBeUndefined()
})

test.each([failure('42P01'), failure(''), new Error('26000')])('any other error is none of the name: %s', error => {
  expect(openPrepared().forgets('SELECT 1', error)).toBe(false)
})
