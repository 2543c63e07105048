// The conversion of the drivers' errors.

import { expect, test } from 'vitest'
import { copyLine, toDatabaseError } from '../../database/failure.ts'

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

test('all failed addresses are named', () => {
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
])('%s in %o names row %o', (code, where, line) => {
  const answer = Object.assign(new Error('as the server says it'), { severity: 'ERROR', code, where })
  expect(toDatabaseError(answer, 'PostgreSQL at x')).toMatchObject({ sqlState: code, line })
})

test('a code of the operating system is not a SQLSTATE', () => {
  const refused = Object.assign(new Error('read EPIPE'), { code: 'EPIPE' })
  expect(toDatabaseError(refused, 'PostgreSQL at x')).toMatchObject({ sqlState: '', cause: refused })
})

test.each([
  ['SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a string', '28P01', 'requires a password, and the URL has none'],
  ['SASL: SCRAM-SERVER-FIRST-MESSAGE: client password must be a non-empty string', '28P01', 'requires a password, and the URL has none'],
  ['SASL: Only mechanism(s) SCRAM-SHA-256 are supported', '28000', 'Only mechanism'],
  ['The server does not support SSL connections', '28000', 'does not support TLS: remove sslmode'],
])('a login that the driver finds impossible is not retried: %s', (message, sqlState, reason) => {
  const error = toDatabaseError(new Error(message), 'PostgreSQL at x')
  expect(error).toMatchObject({ sqlState, transient: false, message: expect.stringContaining(reason) as unknown })
})

test('an untrusted certificate is not retried', () => {
  const untrusted = Object.assign(new Error('self-signed certificate'), { code: 'DEPTH_ZERO_SELF_SIGNED_CERT' })
  expect(toDatabaseError(untrusted, 'PostgreSQL at x')).toMatchObject({ sqlState: '28000', transient: false })
})

test.each([
  'ERR_SSL_TLSV1_ALERT_INTERNAL_ERROR',
  'ERR_SSL_TLSV1_ALERT_USER_CANCELLED',
  'ERR_SSL_BAD_RECORD_TYPE',
  'ERR_SSL_DECRYPTION_FAILED_OR_BAD_RECORD_MAC',
  'ERR_SSL_UNEXPECTED_EOF_WHILE_READING',
])('a handshake that a restarting proxy interrupted is retried: %s', code => {
  const broken = Object.assign(new Error('SSL routines'), { code })
  expect(toDatabaseError(broken, 'PostgreSQL at x')).toMatchObject({ sqlState: '', transient: true })
})

test.each([
  new TypeError("Cannot read properties of undefined (reading 'length')"),
  new RangeError('an array with NULL cannot be read'),
  new ReferenceError('rows is not defined'),
])('a bug is not a failed connection, which would be retried forever: %s', defect => {
  expect(toDatabaseError(defect, 'PostgreSQL at x')).toBe(defect)
})
