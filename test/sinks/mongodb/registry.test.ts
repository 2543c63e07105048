// The registries without a server: what it costs to find out that a format gets no collection, scans of no one instant, and names of collections.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { openFormats } from '../../../sinks/formats.ts'
import { openLogRegistry } from '../../../sinks/logs.ts'
import type { Connection } from '../../../sinks/mongodb/connection.ts'
import { formatAdder, openLogTable, physicalName } from '../../../sinks/mongodb/registry.ts'
import { optionsOf } from './store.ts'

const { signal } = new AbortController()
const wanted = (format: string, ...channels: string[]) => ({ format, channels: new Set(channels) })
const options = optionsOf('mongodb://nowhere/store', { formatsPerChannelMax: 3 })

/** The store has three formats, all brought by one channel. */
function fullStore() {
  const entries = [1, 2, 3].map(number => ({ _id: `f${number}`, number, collection: `f${number}`, channel: 'full' }))
  const found = { registryReads: 0 }
  const find = () => {
    found.registryReads++
    return { toArray: async () => [...entries] }
  }
  const connection = { database: { collection: () => ({ find }) }, command: async () => ({ ok: 1 }) }
  return { found, connection: connection as unknown as Connection }
}

test('a format over the limit causes one read of the registry, and another after some seconds', async () => {
  const { found, connection } = fullStore()
  let nowMs = 0
  const formats = openFormats(formatAdder(connection, options), () => nowMs)
  const resolve = async () => {
    const refused = await formats.resolve([wanted('f1', 'full'), wanted('new', 'full')], signal)
    return [[...refused].map(([format, { rule }]) => `${format} ${rule}`), found.registryReads]
  }
  expect(await resolve()).toEqual([['new format-limit'], 1])
  nowMs = 4_999
  expect(await resolve()).toEqual([['new format-limit'], 1])
  nowMs = 5_000
  expect(await resolve()).toEqual([['new format-limit'], 2])
  formats.forget()
  expect(await resolve()).toEqual([['new format-limit'], 3])
})

test('a channel that may add a format gets it although another was refused a moment ago', async () => {
  const { connection } = fullStore()
  const formats = openFormats(formatAdder(connection, options), () => 0)
  expect((await formats.resolve([wanted('new', 'full')], signal)).size).toBe(1)
  expect((await formats.resolve([wanted('new', 'full', 'other')], signal)).size).toBe(0)
})

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

test.each(['temp', 'Temp', 'room-1', 'room_1', '_x', '1', 'system', 'x'.repeat(120)])(
  'a harmless format is its own collection name: %s',
  format => {
    expect(physicalName(format)).toBe(format)
  },
)

test.each([
  ['messages', /^messages~[0-9a-f]{32}$/],
  ['system.users', /^system_users~[0-9a-f]{32}$/],
  ['sluice.logs', /^sluice_logs~[0-9a-f]{32}$/],
  ['x'.repeat(121), /^x{60}~[0-9a-f]{32}$/],
  ['größe', /^gr_e~[0-9a-f]{32}$/],
  ['$', /^_~[0-9a-f]{32}$/],
  ['', /^format~[0-9a-f]{32}$/],
  ['temp~0123456789abcdef0123456789abcdef', /^temp_0123456789abcdef0123456789abcdef~[0-9a-f]{32}$/],
])('any other gets a readable prefix and a hash: %s', (format, name) => {
  expect(physicalName(format)).toMatch(name)
})

test("no name is one of sluice's or the server's, or longer than a namespace allows", () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), format => {
      expect(physicalName(format)).toMatch(/^[A-Za-z0-9_-]{1,120}(~[0-9a-f]{32})?$/)
      expect(physicalName(format)).not.toBe('messages')
      expect(physicalName(format).length).toBeLessThanOrEqual(120)
    }),
  )
})

test('no two formats share a collection', () => {
  const similar = fc.string({ unit: fc.constantFrom('a', 'A', '_', '-', '$', '.', '~', 'é'), maxLength: 6 })
  fc.assert(
    fc.property(similar, similar, (one, other) => {
      expect(physicalName(one) === physicalName(other)).toBe(one === other)
    }),
    { numRuns: 2000 },
  )
})
