// What is registered in a store, without a server: scans that are no snapshots, and a lock of which nobody says whether it was taken.

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Connection, Row } from '../../../sinks/cassandra/connection.ts'
import { readLogs, registerLog } from '../../../sinks/cassandra/logs.ts'
import { withSchemaLock } from '../../../sinks/cassandra/schema-lock.ts'
import { identity } from './store.ts'

const levels = { rows: 6, registry: 4, serial: 8 }
const logs = (...numbers: number[]): Row[] =>
  numbers.map(number => ({ number, name: `log-${number}`, id: 'id-1', writer: 'writer-1', accepted_at: new Date(number) }))

function answering(answer: (cql: string, values: readonly unknown[], nth: number) => Row[]) {
  const asked: string[] = []
  const query: Connection['query'] = async (cql, values = []) => answer(cql, values, asked.push(cql))
  const connection: Partial<Connection> = { keyspace: 'k', levels, table: name => name, query }
  return { asked, connection: connection as Connection }
}

test('a scan that has missed a log is made again', async () => {
  const { connection, asked } = answering((_cql, _values, nth) => (nth < 3 ? logs(2) : logs(1, 2)))
  expect((await readLogs(connection)).map(({ number }) => number)).toEqual([2, 1])
  expect(asked).toHaveLength(3)
})

test('a log that was deleted by hand is looked for some times, and stays missing', async () => {
  const { connection, asked } = answering(() => logs(1, 3))
  expect((await readLogs(connection)).map(({ number }) => number)).toEqual([3, 1])
  expect(asked.length).toBeLessThan(20)
})

test('a log that another worker registers while the commits are asked for is no log that is missed', async () => {
  const known = { number: 1, name: identity.logName, id: identity.logId, writer: identity.writer, accepted_at: new Date(1) }
  const { connection } = answering((_cql, _values, nth) => (nth === 1 ? [] : [known]))
  expect(await registerLog(connection, { ...identity, hasCommits: () => Promise.resolve(true) })).toBe(1)
})

test('a lock whose answer was lost is looked up, and is ours where it was taken', async () => {
  const timedOut = Object.assign(new Error('no answer'), { name: 'OperationTimedOutError' })
  let holder: unknown
  const { connection, asked } = answering((cql, values) => {
    if (cql.startsWith('SELECT')) return [{ value: holder }]
    if (cql.startsWith('DELETE')) return [{ '[applied]': true }]
    holder = values[0]
    throw timedOut
  })
  expect(await withSchemaLock(connection, async () => 'done')).toBe('done')
  expect(asked.map(cql => cql.slice(0, 6))).toEqual(['INSERT', 'SELECT', 'DELETE'])
})

test('a lock whose answer was lost and that was not taken is tried for again', async () => {
  const lost = Object.assign(new Error('no answer'), { name: 'ResponseError', code: 0x1100 })
  const { connection, asked } = answering((cql, _values, nth) => {
    if (nth === 1) throw lost
    return cql.startsWith('SELECT') ? [] : [{ '[applied]': true }]
  })
  await withSchemaLock(connection, async () => undefined)
  expect(asked.map(cql => cql.slice(0, 6))).toEqual(['INSERT', 'SELECT', 'INSERT', 'DELETE'])
})

test.each([
  ['the work has failed with it', 'DELETE'],
  ['nobody knows whether it was taken', 'SELECT'],
])('a lock that is left over since the store went away, where %s, is given back when it is there again', async (_why, first) => {
  const away = Object.assign(new Error('away'), { name: 'OperationTimedOutError' })
  const givenBack = Promise.withResolvers<void>()
  let isAway = false
  let holder: unknown
  let tries = 0
  const { connection } = answering((cql, values) => {
    if (cql.startsWith('INSERT')) {
      holder = values[0]
      isAway = true
      if (first === 'SELECT') throw away
      return [{ '[applied]': true }]
    }
    if (cql.startsWith('DELETE') && ++tries === 3) isAway = false
    if (isAway) throw away
    expect(values).toEqual([holder])
    givenBack.resolve()
    return [{ '[applied]': true }]
  })
  await expect(withSchemaLock(connection, () => Promise.reject(away))).rejects.toThrow('away')
  await givenBack.promise
  expect(tries).toBe(3)
})

describe('a lock during work that takes long', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }))
  afterEach(() => void vi.useRealTimers())

  const applied = [{ '[applied]': true }]

  test('is made to last while one change takes long, and no longer', async () => {
    const { connection, asked } = answering(() => applied)
    await withSchemaLock(connection, () => vi.advanceTimersByTimeAsync(60_000))
    const renewals = asked.filter(cql => cql.startsWith('UPDATE'))
    expect(renewals.length).toBeGreaterThan(60 / 15)
    expect(asked.at(-1)).toMatch(/^DELETE/)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(asked.at(-1)).toMatch(/^DELETE/)
  })

  test('is lost where another process has it meanwhile, and nothing more is changed', async () => {
    const { connection } = answering(cql => (cql.startsWith('UPDATE') ? [{ '[applied]': false, value: 'another' }] : applied))
    const changed: string[] = []
    const work = withSchemaLock(connection, async lock => {
      for (const table of ['a', 'b']) {
        await lock.renew()
        changed.push(table)
        await vi.advanceTimersByTimeAsync(5_000)
      }
    })
    await expect(work).rejects.toThrow('another process has begun to change the schema')
    expect(changed).toEqual(['a'])
  })

  test('that was lost once stays lost, though nobody has it any more', async () => {
    let asked = 0
    const { connection } = answering(cql => (cql.startsWith('UPDATE') && ++asked === 1 ? [{ '[applied]': false }] : applied))
    const work = withSchemaLock(connection, async lock => {
      await vi.advanceTimersByTimeAsync(9_000)
      await lock.renew()
    })
    await expect(work).rejects.toThrow('another process has begun to change the schema')
    expect(asked).toBe(1)
  })

  test('lasts where the store could not be asked for moments', async () => {
    const away = Object.assign(new Error('away'), { name: 'OperationTimedOutError' })
    const { connection } = answering((cql, _values, nth) => {
      if (cql.startsWith('UPDATE') && nth === 2) throw away
      return applied
    })
    const work = withSchemaLock(connection, async lock => {
      await vi.advanceTimersByTimeAsync(5_000)
      await lock.renew()
      return 'done'
    })
    expect(await work).toBe('done')
  })
})
