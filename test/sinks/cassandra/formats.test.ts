// Formats that get no table, without a server: what it costs to find out, and how long it is remembered.

import { types } from 'cassandra-driver'
import { expect, test, vi } from 'vitest'
import type { Connection, Row } from '../../../sinks/cassandra/connection.ts'
import { openFormats } from '../../../sinks/cassandra/formats.ts'
import { SinkError } from '../../../sinks/sink-error.ts'
import { defaults } from './store.ts'

const never = new AbortController().signal
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

test('a format beyond the cap takes no lock, and is not asked for again for some seconds', async () => {
  let nowMs = 0
  const store = storeWith(full)
  const formats = openFormats(
    store.connection,
    { ...defaults, url: '', formatsPerChannelMax: 3 },
    () => undefined,
    () => nowMs,
  )
  const resolve = async () =>
    [...(await formats.resolve([wanted('f0', 'full'), wanted('new', 'full')], never)).values()].map(({ rule }) => rule)
  expect(await resolve()).toEqual(['format-limit'])
  expect(store.locks()).toEqual([])
  const { length } = store.asked
  nowMs = 4_999
  expect(await resolve()).toEqual(['format-limit'])
  expect(store.asked).toHaveLength(length)
  nowMs = 5_000
  expect(await resolve()).toEqual(['format-limit'])
  expect(store.asked.length).toBeGreaterThan(length)
})

test('a channel that may bring it gets the format that another was refused, and with it the lock is taken', async () => {
  const store = storeWith(full)
  const formats = openFormats(store.connection, { ...defaults, url: '', formatsPerChannelMax: 3 }, () => undefined)
  expect((await formats.resolve([wanted('new', 'full')], never)).size).toBe(1)
  expect((await formats.resolve([wanted('new', 'full', 'other')], never)).size).toBe(0)
  expect(store.locks()).toHaveLength(1)
})

test('no more refusals are remembered than there is room for', async () => {
  const store = storeWith(full)
  const formats = openFormats(
    store.connection,
    { ...defaults, url: '', formatsPerChannelMax: 3 },
    () => undefined,
    () => 0,
  )
  const first = [wanted('new', 'full')]
  await formats.resolve(first, never)
  await formats.resolve(
    Array.from({ length: 10_000 }, (_, at) => wanted(`other-${at}`, 'full')),
    never,
  )
  const { length } = store.asked
  await formats.resolve([wanted('other-9999', 'full')], never)
  expect(store.asked).toHaveLength(length)
  await formats.resolve(first, never)
  expect(store.asked.length).toBeGreaterThan(length)
})

test('a cluster that takes no more tables refuses the format, and the writer goes on; another fault of the table stops it', async () => {
  const answer = (message: string) => Object.assign(new Error(message), { name: 'ResponseError', code: 0x2200 })
  const said = 'Guardrail tables violated: Cannot have more than 8 tables, aborting the creation of table new'
  const store = storeWith([], () => Promise.reject(answer(said)))
  const formats = openFormats(store.connection, { ...defaults, url: '' }, () => undefined)
  expect([...(await formats.resolve([wanted('new', 'channel')], never)).values()]).toEqual([
    {
      rule: 'format-not-allowed',
      reason: expect.stringContaining(said) as string,
      hint: expect.stringContaining('cassandra.yaml') as string,
    },
  ])
  const denied = new SinkError('systemic', 'not agreed')
  const other = openFormats(storeWith([], () => Promise.reject(denied)).connection, { ...defaults, url: '' }, () => undefined)
  await expect(other.resolve([wanted('new', 'channel')], never)).rejects.toBe(denied)
})

test('a cluster that knows no index by publisher stores the format without, and says so', async () => {
  const refusal = Object.assign(new Error('Unable to find custom indexer class sai'), { name: 'ResponseError', code: 0x2300 })
  const made: string[] = []
  const notices: string[] = []
  const change = async (cql: string): Promise<boolean> => {
    made.push(cql.split(' ', 2).join(' '))
    if (cql.startsWith('CREATE INDEX')) throw refusal
    return true
  }
  const formats = openFormats(storeWith([], change).connection, { ...defaults, url: '' }, sentence => void notices.push(sentence))
  expect((await formats.resolve([wanted('new', 'channel')], never)).size).toBe(0)
  expect(made).toEqual(['CREATE TABLE', 'CREATE INDEX'])
  expect(notices).toEqual([expect.stringMatching(/no index by publisher.*custom indexer class sai.*Cassandra 5/) as string])
})

test('nodes that do not agree on an index in time have the batch written again', async () => {
  const formats = openFormats(
    storeWith([], async cql => !cql.startsWith('CREATE INDEX')).connection,
    { ...defaults, url: '' },
    () => undefined,
  )
  await expect(formats.resolve([wanted('new', 'channel')], never)).rejects.toMatchObject({ errorClass: 'transient' })
})

test.each([
  ['is missing', [], ['CREATE TABLE', 'CREATE INDEX']],
  ['was made by somebody who did not come to register it', ['weather'], ['CREATE INDEX']],
])('a format whose table %s has its index before it is registered', async (_what, tables, made) => {
  const done: string[] = []
  const change = async (cql: string): Promise<boolean> => done.push(cql.trim().slice(0, 12)) > 0
  const store = storeWith([], change, tables)
  const formats = openFormats(store.connection, { ...defaults, url: '', publisherIndex: true }, () => undefined)
  expect((await formats.resolve([wanted('weather', 'room')], never)).size).toBe(0)
  expect(done).toEqual(made)
  expect(store.asked.some(cql => cql.startsWith('INSERT') && cql.includes('sluice_formats'))).toBe(true)
})

test('a lock that another process has taken while a table was made lets no index be made, and nothing be registered', async () => {
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
    const formats = openFormats(store.connection, { ...defaults, url: '', publisherIndex: true }, () => undefined)
    await expect(formats.resolve([wanted('weather', 'room')], never)).rejects.toThrow('another process has begun to change the schema')
    expect(done).toEqual(['CREATE TABLE'])
    expect(store.asked.some(cql => cql.startsWith('INSERT') && cql.includes('sluice_formats'))).toBe(false)
  } finally {
    vi.useRealTimers()
  }
})
