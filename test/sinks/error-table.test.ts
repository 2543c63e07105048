// The table of errors of each store: each key is there once, and the error that it stands for means what its row says.

import { errors } from 'cassandra-driver'
import { MongoServerError } from 'mongodb'
import { describe, expect, test } from 'vitest'
import { DatabaseError } from '../../database/database.ts'
import * as cassandra from '../../sinks/cassandra/errors.ts'
import type { ErrorRow } from '../../sinks/error-table.ts'
import * as influxdb from '../../sinks/influxdb/errors.ts'
import * as mongodb from '../../sinks/mongodb/errors.ts'
import * as postgres from '../../sinks/postgres/errors.ts'
import { SinkError } from '../../sinks/sink-error.ts'

interface Store {
  readonly errorRows: readonly ErrorRow[]
  readonly classify: (error: unknown) => string
}

const stores: readonly [string, Store, (key: number | string) => Error][] = [
  ['Cassandra', cassandra, cassandraError],
  ['InfluxDB', influxdb, key => new influxdb.ResponseError('POST', Number(key), JSON.stringify({ code: 'invalid', message: 'said' }))],
  ['MongoDB', mongodb, key => new MongoServerError({ message: 'said', code: key })],
  [
    'PostgreSQL',
    postgres,
    key => new DatabaseError('said', { sqlState: key === 'none' ? '' : String(key).padEnd(5, '0'), cause: undefined }),
  ],
]

/** A code, the name of a class, or a message. */
function cassandraError(key: number | string): Error {
  const code = Number(key)
  if (!Number.isNaN(code)) return new errors.ResponseError(code, 'said')
  return String(key).endsWith('Error') ? Object.assign(new Error('said'), { name: key }) : new Error(String(key))
}

describe.each(stores)('%s', (_name, { errorRows, classify }, errorOf) => {
  test('no key occurs twice', () => {
    expect(new Set(errorRows.map(({ key }) => key)).size).toBe(errorRows.length)
  })

  test.each(errorRows)('$key ($name) is $meaning; outside of a row, data errors are systemic', ({ key, meaning }) => {
    expect(classify(errorOf(key))).toBe(meaning === 'transient' ? 'transient' : 'systemic')
  })

  test.each([
    ['an abort, whose code is that of another error', new DOMException('aborted', 'AbortError'), 'transient'],
    ['a sentence of ours', new SinkError('fenced', 'it went on'), 'fenced'],
    ['an unknown error', new Error('other'), 'systemic'],
    ['what is no error', 'text', 'systemic'],
  ])('%s', (_what, error, errorClass) => {
    expect(classify(error)).toBe(errorClass)
  })
})
