// What becomes of the drivers' errors.

import { expect, test } from 'vitest'
import { copyLine, toDatabaseError } from '../../../config/postgres/failure.ts'

test.each([
  ['COPY messages, line 3, column time', 3],
  ['COPY messages, line 12', 12],
  ['COPY a, line 7, line 3, column time', 3],
  ['COPY "odd", line 1', 1],
  ['SQL statement "x"\nCOPY messages, line 9', 9],
  ['PL/pgSQL function f() line 3 at RAISE', undefined],
  [undefined, undefined],
])('the context %o is row %o', (where, line) => {
  expect(copyLine(where)).toBe(line)
})

test('several addresses that failed are all told', () => {
  const error = toDatabaseError(
    new AggregateError([new Error('connect ECONNREFUSED ::1:5432'), new Error('connect ECONNREFUSED 127.0.0.1:5432')]),
    'PostgreSQL at x',
  )
  expect(error.message).toBe('the connection to PostgreSQL at x failed: connect ECONNREFUSED ::1:5432; connect ECONNREFUSED 127.0.0.1:5432')
  expect(error).toMatchObject({ transient: true })
})

test.each([
  ['22021', 'COPY plants, line 3, column name', 3],
  ['57P01', 'COPY plants, line 3', undefined],
  ['22P04', 'COPY plants, line 0', undefined],
])('%s in %o blames row %o', (code, where, line) => {
  const answer = Object.assign(new Error('as the server says it'), { severity: 'ERROR', code, where })
  expect(toDatabaseError(answer, 'PostgreSQL at x')).toMatchObject({ sqlState: code, line })
})

test('a code of the operating system is no SQLSTATE', () => {
  const refused = Object.assign(new Error('read EPIPE'), { code: 'EPIPE' })
  expect(toDatabaseError(refused, 'PostgreSQL at x')).toMatchObject({ sqlState: '', cause: refused })
})

test.each([
  new TypeError("Cannot read properties of undefined (reading 'length')"),
  new RangeError('an array with NULL cannot be read'),
  new ReferenceError('rows is not defined'),
])('a defect is no failed connection, which would be tried for ever: %s', defect => {
  expect(toDatabaseError(defect, 'PostgreSQL at x')).toBe(defect)
})
