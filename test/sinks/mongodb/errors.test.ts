// What the driver's own errors mean, and what is said of an answer of the server.

import {
  MongoInvalidArgumentError,
  MongoNetworkError,
  MongoNetworkTimeoutError,
  MongoServerError,
  MongoServerSelectionError,
  MongoWriteConcernError,
} from 'mongodb'
import { expect, test } from 'vitest'
import { classify, explained } from '../../../sinks/mongodb/errors.ts'
import { SinkError } from '../../../sinks/sink-error.ts'

const answer = (code: number, errorLabels: string[] = []): MongoServerError =>
  new MongoServerError({ message: 'it says', code, errorLabels })

test.each([
  ['a server that is down', new MongoNetworkError('reset'), 'transient'],
  ['a server that is silent', new MongoNetworkTimeoutError('timed out'), 'transient'],
  ['no primary', new MongoServerSelectionError('none', {} as never), 'transient'],
  ['a socket', Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }), 'transient'],
  ['a write concern that was not reached in time', writeConcernError(64), 'transient'],
  ['one that the set does not have', writeConcernError(100), 'systemic'],
  ['a code that is not known, which the server says to try again', answer(4711, ['RetryableWriteError']), 'transient'],
  ['a code that is not known', answer(4711), 'systemic'],
  ['a use of the driver that is wrong', new MongoInvalidArgumentError('wrong'), 'systemic'],
])('%s', (_what, error, errorClass) => {
  expect(classify(error)).toBe(errorClass)
})

function writeConcernError(code: number): MongoWriteConcernError {
  return new MongoWriteConcernError({ writeConcernError: { code, errmsg: 'not reached' }, ok: 1 })
}

test("errors of the driver's pool, whose classes it does not export", async () => {
  const path = 'mongodb/lib/cmap/errors.js'
  const classes = (await import(path)) as Record<string, new (pool: object, message?: string) => Error>
  const pool = { address: 'host:27017', serverError: new MongoNetworkError('reset') }
  expect(Object.keys(classes).sort()).toEqual(['PoolClearedError', 'PoolClearedOnNetworkError', 'PoolClosedError', 'WaitQueueTimeoutError'])
  const errors = Object.values(classes).map(PoolError => new PoolError(pool, 'message'))
  expect(errors.map(error => [error.constructor.name, classify(error)])).toEqual(errors.map(error => [error.constructor.name, 'transient']))
})

test('a refused login in the handshake stops the writer, although the driver reports a connection error', () => {
  const error = new MongoNetworkError('the handshake failed', { cause: answer(18) })
  expect(classify(error)).toBe('systemic')
  expect(String(explained(error))).toMatch(/code 18.*it says.*SVC_DOCUMENT_URL/)
})

test('a systemic error says what, which and what to do; every other error is unchanged', () => {
  expect(explained(answer(13))).toBeInstanceOf(SinkError)
  expect(String(explained(answer(13)))).toMatch(
    /code 13.*it says.*grant the writer's user the `readWrite` role .*store\.url \(SVC_DOCUMENT_URL\)/,
  )
  const away = answer(91)
  expect(explained(away)).toBe(away)
  const other = new Error('other')
  expect(explained(other)).toBe(other)
})
