// What is registered in a store, without a server: scans that are no snapshots, a lock that may or may not have been taken,
// and what it costs to find out that a format gets no table.

import { types } from 'cassandra-driver'
import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import type { Connection, Row } from '../../../sinks/cassandra/connection.ts'
import { formatAdder, openLogTable, readLogs } from '../../../sinks/cassandra/registry.ts'
import { withSchemaLock } from '../../../sinks/cassandra/schema-lock.ts'
import { openFormats } from '../../../sinks/formats.ts'
import { openLogRegistry } from '../../../sinks/logs.ts'
import { SinkError } from '../../../sinks/sink-error.ts'
import { defaults, identity } from './store.ts'

const levels = { rows: 6, registry: 4, serial: 8 }
const logs = (...numbers: number[]): Row[] =>
  numbers.map(number => ({ number, name: `log-${number}`, id: 'id-1', writer: 'writer-1', accepted_at: new Date(number) }))

function answering(answer: (cql: string, values: readonly unknown[], nth: number) => Row[]) {
  const asked: string[] = []
  const query: Connection['query'] = async (cql, values = []) => answer(cql, values, asked.push(cql))
  const connection: Partial<Connection> = { keyspace: 'k', levels, table: name => name, query }
  return { asked, connection: connection as Connection }
}

test('a scan that has missed a log is repeated', async () => {
  const { connection, asked } = answering((_cql, _values, nth) => (nth < 3 ? logs(2) : logs(1, 2)))
  expect((await readLogs(connection)).map(({ number }) => number)).toEqual([2, 1])
  expect(asked).toHaveLength(3)
})

test('after a log was deleted by hand scans are repeated some times, and it stays missing', async () => {
  const { connection, asked } = answering(() => logs(1, 3))
  expect((await readLogs(connection)).map(({ number }) => number)).toEqual([3, 1])
  expect(asked.length).toBeLessThan(20)
})

test('a log that another worker registers while the commits are requested is not missing', async () => {
  const known = { number: 1, name: identity.logName, id: identity.logId, writer: identity.writer, accepted_at: new Date(1) }
  const { connection } = answering((_cql, _values, nth) => (nth === 1 ? [] : [known]))
  expect(await openLogRegistry(openLogTable(connection)).take({ ...identity, hasCommits: () => Promise.resolve(true) })).toBe(1)
})

test('a lock whose answer was lost is ours if it was set', async () => {
  const timedOut = Object.assign(new Error('no answer'), { name: 'OperationTimedOutError' })
  let holder: unknown
  const { connection, asked } = answering((cql, values, nth) => {
    if (cql.startsWith('DELETE')) return [{ '[applied]': true }]
    if (nth > 1) return [{ '[applied]': false, value: holder }]
    holder = values[0]
    throw timedOut
  })
  expect(await withSchemaLock(connection, async () => 'done')).toBe('done')
  expect(asked.map(cql => cql.slice(0, 6))).toEqual(['INSERT', 'INSERT', 'DELETE'])
})

test('a lock that cannot be released is left to expire, and the error of the work is thrown', async () => {
  const away = Object.assign(new Error('away'), { name: 'OperationTimedOutError' })
  const { connection, asked } = answering(cql => {
    if (cql.startsWith('DELETE')) throw new Error('another')
    return [{ '[applied]': true }]
  })
  await expect(withSchemaLock(connection, () => Promise.reject(away))).rejects.toBe(away)
  expect(asked.map(cql => cql.slice(0, 6))).toEqual(['INSERT', 'DELETE'])
})

describe('a lock during work that takes long', () => {
  beforeEach(() => void vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] }))
  afterEach(() => void vi.useRealTimers())

  const applied = [{ '[applied]': true }]

  test('is renewed while one change takes long, and no longer', async () => {
    const { connection, asked } = answering(() => applied)
    await withSchemaLock(connection, () => vi.advanceTimersByTimeAsync(60_000))
    const renewals = asked.filter(cql => cql.startsWith('UPDATE'))
    expect(renewals.length).toBeGreaterThan(60 / 15)
    expect(asked.at(-1)).toMatch(/^DELETE/)
    await vi.advanceTimersByTimeAsync(60_000)
    expect(asked.at(-1)).toMatch(/^DELETE/)
  })

  test('is lost if another process has taken it, and nothing more is changed', async () => {
    const { connection } = answering(cql => (cql.startsWith('UPDATE') ? [{ '[applied]': false, value: 'another' }] : applied))
    const changed: string[] = []
    const work = withSchemaLock(connection, async lock => {
      for (const table of ['a', 'b']) {
        await lock.renew()
        changed.push(table)
        await vi.advanceTimersByTimeAsync(5_000)
      }
    })
    await expect(work).rejects.toThrow('another process has taken the lock')
    expect(changed).toEqual(['a'])
  })

  test('that was lost stays lost, even if no other process has it any more', async () => {
    let asked = 0
    const { connection } = answering(cql => (cql.startsWith('UPDATE') && ++asked === 1 ? [{ '[applied]': false }] : applied))
    const work = withSchemaLock(connection, async lock => {
      await vi.advanceTimersByTimeAsync(9_000)
      await lock.renew()
    })
    await expect(work).rejects.toThrow('another process has taken the lock')
    expect(asked).toBe(1)
  })

  test('survives a short outage of the store', async () => {
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

const never = new AbortController().signal
const formatsOn = (...given: Parameters<typeof formatAdder>) => openFormats(formatAdder(...given))
const wanted = (format: string, ...channels: string[]) => ({ format, channels: new Set(channels) })

/** A store that has these formats, and says what it was asked. */
function storeWith(
  formats: readonly { format: string; channel: string }[],
  change: (cql: string) => Promise<boolean> = async () => true,
  tables: readonly string[] = formats.map(({ format }) => format),
) {
  const asked: string[] = []
  let isLost = false
  const query = async (cql: string, values: readonly unknown[] = []): Promise<Row[]> => {
    asked.push(cql)
    if (cql.includes('system_schema.tables')) return tables.map(name => ({ table_name: name }))
    if (cql.startsWith('SELECT format FROM')) return formats.filter(({ format }) => format === values[0])
    if (cql.startsWith('SELECT format, channel')) return [...formats]
    return [{ '[applied]': !(isLost && cql.startsWith('UPDATE')) }]
  }
  const connection: Partial<Connection> = { keyspace: 'k', unset: types.unset, table: name => `"k"."${name}"`, query, change }
  return {
    asked,
    connection: connection as Connection,
    /** Another process has the lock from now on. */
    loseLock: () => {
      isLost = true
    },
    locks: () => asked.filter(cql => cql.includes("'lock'") && cql.startsWith('INSERT')),
  }
}

const full = Array.from({ length: 3 }, (_, at) => ({ format: `f${at}`, channel: 'full' }))

test('a format over the limit takes no lock; a channel that may add it takes one', async () => {
  const store = storeWith(full)
  const formats = formatsOn(store.connection, { ...defaults, url: '', formatsPerChannelMax: 3 }, () => undefined)
  const refused = await formats.resolve([wanted('f0', 'full'), wanted('new', 'full')], never)
  expect([...refused].map(([format, { rule }]) => `${format} ${rule}`)).toEqual(['new format-limit'])
  expect(store.locks()).toEqual([])
  expect((await formats.resolve([wanted('new', 'full', 'other')], never)).size).toBe(0)
  expect(store.locks()).toHaveLength(1)
})

test('if the cluster accepts no more tables the format is refused, and the writer continues; another error stops it', async () => {
  const answer = (message: string) => Object.assign(new Error(message), { name: 'ResponseError', code: 0x2200 })
  const said = 'Guardrail tables violated: Cannot have more than 8 tables, aborting the creation of table new'
  const store = storeWith([], () => Promise.reject(answer(said)))
  const formats = formatsOn(store.connection, { ...defaults, url: '' }, () => undefined)
  expect([...(await formats.resolve([wanted('new', 'channel')], never)).values()]).toEqual([
    {
      rule: 'format-not-allowed',
      reason: expect.stringContaining(said) as string,
      hint: expect.stringContaining('cassandra.yaml') as string,
    },
  ])
  const denied = new SinkError('systemic', 'not agreed')
  const other = formatsOn(storeWith([], () => Promise.reject(denied)).connection, { ...defaults, url: '' }, () => undefined)
  await expect(other.resolve([wanted('new', 'channel')], never)).rejects.toBe(denied)
})

test('a cluster without indexes by publisher stores the format without one, and reports it', async () => {
  const refusal = Object.assign(new Error('Unable to find custom indexer class sai'), { name: 'ResponseError', code: 0x2300 })
  const made: string[] = []
  const notices: string[] = []
  const change = async (cql: string): Promise<boolean> => {
    made.push(cql.split(' ', 2).join(' '))
    if (cql.startsWith('CREATE INDEX')) throw refusal
    return true
  }
  const formats = formatsOn(storeWith([], change).connection, { ...defaults, url: '' }, sentence => void notices.push(sentence))
  expect((await formats.resolve([wanted('new', 'channel')], never)).size).toBe(0)
  expect(made).toEqual(['CREATE TABLE', 'CREATE INDEX'])
  expect(notices).toEqual([expect.stringMatching(/no index by publisher.*custom indexer class sai.*Cassandra 5/) as string])
})

test('if nodes do not agree on an index in time the batch is retried', async () => {
  const formats = formatsOn(
    storeWith([], async cql => !cql.startsWith('CREATE INDEX')).connection,
    { ...defaults, url: '' },
    () => undefined,
  )
  await expect(formats.resolve([wanted('new', 'channel')], never)).rejects.toMatchObject({ errorClass: 'transient' })
})

test.each([
  ['is missing', [], ['CREATE TABLE', 'CREATE INDEX']],
  ['was created by a process that did not register it', ['weather'], ['CREATE INDEX']],
])('a format whose table %s has its index before it is registered', async (_what, tables, made) => {
  const done: string[] = []
  const change = async (cql: string): Promise<boolean> => done.push(cql.trim().slice(0, 12)) > 0
  const store = storeWith([], change, tables)
  const formats = formatsOn(store.connection, { ...defaults, url: '', publisherIndex: true }, () => undefined)
  expect((await formats.resolve([wanted('weather', 'room')], never)).size).toBe(0)
  expect(done).toEqual(made)
  expect(store.asked.some(cql => cql.startsWith('INSERT') && cql.includes('sluice_formats'))).toBe(true)
})

test('if another process has taken the lock while a table was created, no index is created and nothing registered', async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'performance'] })
  try {
    const done: string[] = []
    const change = async (cql: string): Promise<boolean> => {
      done.push(cql.trim().slice(0, 12))
      store.loseLock()
      await vi.advanceTimersByTimeAsync(9_000)
      return true
    }
    const store = storeWith([], change)
    const formats = formatsOn(store.connection, { ...defaults, url: '', publisherIndex: true }, () => undefined)
    await expect(formats.resolve([wanted('weather', 'room')], never)).rejects.toThrow('another process has taken the lock')
    expect(done).toEqual(['CREATE TABLE'])
    expect(store.asked.some(cql => cql.startsWith('INSERT') && cql.includes('sluice_formats'))).toBe(false)
  } finally {
    vi.useRealTimers()
  }
})
