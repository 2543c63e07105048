// A scan of the registries on a server that gives no snapshots.

import { expect, test } from 'vitest'
import { openLogRegistry } from '../../../sinks/logs.ts'
import type { Connection } from '../../../sinks/mongodb/connection.ts'
import { openLogTable } from '../../../sinks/mongodb/registry.ts'

test('a scan that found a later log and missed an earlier one is repeated, so that no log gets a second number', async () => {
  const log = (number: number, name = `log-${number}`) => ({ _id: number, name, id: 'id-1', writer: 'writer-1', acceptedAt: new Date(0) })
  const scans = [
    [log(1), log(3)],
    [log(1), log(2), log(3), log(5)],
    [log(1), log(2), log(3), log(4, 'messages'), log(5)],
  ]
  const find = () => ({ toArray: async () => scans.shift() })
  const command = async () => expect.unreachable('a log was added')
  const connection = { database: { collection: () => ({ find }) }, command } as unknown as Connection
  const identity = { logName: 'messages', logId: 'id-1', writer: 'writer-1' }
  expect(await openLogRegistry(openLogTable(connection)).take(identity)).toBe(4)
})
