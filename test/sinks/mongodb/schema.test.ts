// A look at the indexes of a collection ends when no caller waits for it any longer: against a server of the test's own that says nothing.

import { expect, test } from 'vitest'
import type { Connection } from '../../../sinks/mongodb/connection.ts'
import { encode } from '../../../sinks/mongodb/encode.ts'
import { outcomeOf } from '../../../sinks/mongodb/insert.ts'
import { makeIndexes, rowIndexes } from '../../../sinks/mongodb/registry.ts'
import { plainBatch } from '../batches.ts'

const denied = Object.assign(new Error('not allowed'), { name: 'MongoServerError', code: 13, hasErrorLabel: () => false })

/** It refuses to make indexes, and never says which there are. */
function silentConnection(asked: () => void): Connection {
  const command = (document: object, signal?: AbortSignal): Promise<never> => {
    if ('createIndexes' in document) return Promise.reject(denied)
    const answer = Promise.withResolvers<never>()
    signal?.addEventListener('abort', () => answer.reject(signal.reason))
    asked()
    return answer.promise
  }
  return { command } as unknown as Connection
}

test.each([
  [
    'indexes that may not be made',
    (connection: Connection, signal: AbortSignal) => makeIndexes(connection, 'engine', rowIndexes('created'), signal),
  ],
  [
    'a duplicate in an unknown index',
    (connection: Connection, signal: AbortSignal) => {
      const [table] = encode(plainBatch(0, 1), [1]).tables
      const errors = new Map([[table!, new Map([[0, { index: 0, code: 11_000, errmsg: 'E11000' }]])]])
      return outcomeOf(connection, [{ table: table!, collection: 'messages' }], errors, new Set(), signal)
    },
  ],
])('%s', async (_what, look) => {
  const controller = new AbortController()
  const reason = new Error('revoked')
  const looking = look(
    silentConnection(() => controller.abort(reason)),
    controller.signal,
  )
  await expect(looking).rejects.toBe(reason)
})
