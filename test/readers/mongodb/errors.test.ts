// What an error of MongoDB or of its driver becomes for the caller of a reader.

import { MongoNetworkError, MongoServerError } from 'mongodb'
import { expect, test } from 'vitest'
import { readError } from '../../../readers/mongodb/reader.ts'
import { QueryTooLargeError, StoreUnavailableError } from '../../../readers/reader.ts'

const answer = (code: number): MongoServerError => new MongoServerError({ code, errmsg: 'it says so' })

test.each([
  ['a time limit that was reached', answer(50), QueryTooLargeError, /narrow it/],
  ['a sort without an index', answer(292), QueryTooLargeError, /indexes/],
  ['a primary that stepped down', answer(189), StoreUnavailableError, /cannot answer now.*it says so/],
  ['a lost cursor', answer(43), StoreUnavailableError, /cannot answer now/],
  ['a connection that broke', new MongoNetworkError('connection 7 closed'), StoreUnavailableError, /connection 7 closed/],
  ['a query that costs too much', new QueryTooLargeError('too many'), QueryTooLargeError, /too many/],
])('%s', (_what, error, kind, says) => {
  expect(readError(error)).toBeInstanceOf(kind)
  expect(String(readError(error))).toMatch(says)
})

test.each([
  ['a missing permission', answer(13), /grant it the `read` role .*store\.url \(SVC_DOCUMENT_URL\)/],
  ['a wrong login', answer(18), /code 18.*correct user, password and authSource in store\.url \(SVC_DOCUMENT_URL\)/],
  ['an unexpected code', answer(987_654), /code 987654.*it says so/],
])('%s does not make the store unavailable: the error says what to do', (_what, error, says) => {
  expect(readError(error)).not.toBeInstanceOf(StoreUnavailableError)
  expect(String(readError(error))).toMatch(says)
})

test("an error that is not the store's is unchanged", () => {
  const error = new TypeError('a fault')
  expect(readError(error)).toBe(error)
})
