// The table of errors: each code once, as README.md shows it; and what the driver's own errors mean.

import { readFile } from 'node:fs/promises'
import {
  MongoInvalidArgumentError,
  MongoNetworkError,
  MongoNetworkTimeoutError,
  MongoServerError,
  MongoServerSelectionError,
  MongoWriteConcernError,
} from 'mongodb'
import { expect, test } from 'vitest'
import { classify, errorCodes, explained } from '../../../sinks/mongodb/errors.ts'
import { SinkError } from '../../../sinks/sink-error.ts'

const answer = (code: number, errorLabels: string[] = []): MongoServerError =>
  new MongoServerError({ message: 'it says', code, errorLabels })

test('README.md shows the table', async () => {
  const text = await readFile(new URL('../../../sinks/mongodb/README.md', import.meta.url), 'utf8')
  const shown = [...text.matchAll(/^\| `(\d+)` \| (.+) \| (transient|data|systemic) \|$/gm)].map(([, code, name, meaning]) => ({
    code: Number(code),
    name,
    meaning,
  }))
  expect(shown).toEqual(errorCodes)
})

test('no code is there twice', () => {
  expect(new Set(errorCodes.map(({ code }) => code)).size).toBe(errorCodes.length)
})

test.each(errorCodes)('an answer with code $code ($name) is $meaning, of a write as a whole never data', ({ code, meaning }) => {
  expect(classify(answer(code))).toBe(meaning === 'transient' ? 'transient' : 'systemic')
})

test.each([
  ['a server that is away', new MongoNetworkError('reset'), 'transient'],
  ['a server that is silent', new MongoNetworkTimeoutError('timed out'), 'transient'],
  ['no primary', new MongoServerSelectionError('none', {} as never), 'transient'],
  ['a socket', Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }), 'transient'],
  ['an abort, whose code is that of another error', new DOMException('aborted', 'AbortError'), 'transient'],
  ['a write concern that was not reached in time', writeConcernError(64), 'transient'],
  ['one that the set does not have', writeConcernError(100), 'systemic'],
  ['a code that is not known, which the server says to try again', answer(4711, ['RetryableWriteError']), 'transient'],
  ['a code that is not known', answer(4711), 'systemic'],
  ['a use of the driver that is wrong', new MongoInvalidArgumentError('wrong'), 'systemic'],
  ['what is no error', 'text', 'systemic'],
])('%s', (_what, error, errorClass) => {
  expect(classify(error)).toBe(errorClass)
})

function writeConcernError(code: number): MongoWriteConcernError {
  return new MongoWriteConcernError({ writeConcernError: { code, errmsg: 'not reached' }, ok: 1 })
}

test('what the driver says of its pool, in classes that it does not export', async () => {
  const path = 'mongodb/lib/cmap/errors.js'
  const classes = (await import(path)) as Record<string, new (pool: object, message?: string) => Error>
  const pool = { address: 'host:27017', serverError: new MongoNetworkError('reset') }
  expect(Object.keys(classes).sort()).toEqual(['PoolClearedError', 'PoolClearedOnNetworkError', 'PoolClosedError', 'WaitQueueTimeoutError'])
  const errors = Object.values(classes).map(PoolError => new PoolError(pool, 'message'))
  expect(errors.map(error => [error.constructor.name, classify(error)])).toEqual(errors.map(error => [error.constructor.name, 'transient']))
})

test('a login that is refused in the handshake stops the writer, though the connection failed', () => {
  const error = new MongoNetworkError('the handshake failed', { cause: answer(18) })
  expect(classify(error)).toBe('systemic')
  expect(String(explained(error))).toMatch(/code 18.*it says.*SVC_DOCUMENT_URL/)
})

test('what stops the writer says what, which and what to do; everything else stays as it is', () => {
  expect(explained(answer(13))).toBeInstanceOf(SinkError)
  expect(String(explained(answer(13)))).toMatch(
    /code 13.*it says.*grant the writer's user the `readWrite` role .*store\.url \(SVC_DOCUMENT_URL\)/,
  )
  const away = answer(91)
  expect(explained(away)).toBe(away)
  const other = new Error('other')
  expect(explained(other)).toBe(other)
})
