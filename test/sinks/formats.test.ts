// Which formats a store takes, how long a refusal is remembered, and what the formats are called in each store.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { physicalName as cassandraName, ownTables, schemaTable } from '../../sinks/cassandra/schema.ts'
import { admitFormats, openFormats, type WantedFormat } from '../../sinks/formats.ts'
import { physicalName as influxName } from '../../sinks/influxdb/encode.ts'
import { physicalName as mongoName } from '../../sinks/mongodb/registry.ts'
import { physicalName as postgresName } from '../../sinks/postgres/registry.ts'
import { hostileFormats } from '../conformance/sink/fixture.ts'

const { signal } = new AbortController()
const limits = { formatsMax: 4, formatsPerChannelMax: 2 }
const wanted = (format: string, ...channels: string[]) => ({ format, channels: new Set(channels) })

test('a registered format is neither added nor refused, even above the limits', () => {
  const registered = ['a', 'b', 'c', 'd', 'e'].map(format => ({ format, channel: 'one' }))
  expect(admitFormats(registered, [wanted('e', 'one')], limits)).toEqual({ added: [], refused: new Map() })
})

test('a channel may add formats up to its limit, and another channel that uses a further one may add it', () => {
  const { added, refused } = admitFormats(
    [{ format: 'a', channel: 'one' }],
    [wanted('b', 'one'), wanted('c', 'one'), wanted('d', 'one', 'two')],
    limits,
  )
  expect(added).toEqual([
    { format: 'b', channel: 'one' },
    { format: 'd', channel: 'two' },
  ])
  expect([...refused]).toEqual([
    ['c', expect.objectContaining({ rule: 'format-limit', reason: expect.stringMatching(/channel.*2/) as string })],
  ])
})

test('the store accepts formats up to its limit', () => {
  const channels = ['one', 'two', 'three', 'four', 'five']
  const { added, refused } = admitFormats(
    [],
    channels.map(channel => wanted(`of-${channel}`, channel)),
    limits,
  )
  expect(added).toHaveLength(4)
  expect([...refused]).toEqual([
    ['of-five', expect.objectContaining({ rule: 'format-limit', reason: expect.stringMatching(/store.*4/) as string })],
  ])
})

test('a format that is wanted twice is added once', () => {
  expect(admitFormats([], [wanted('a', 'one'), wanted('a', 'two')], limits).added).toEqual([{ format: 'a', channel: 'one' }])
})

describe('a cached refusal', () => {
  /** A store with three formats of one channel, which may have no more. */
  function fullStore() {
    const found = { asked: 0, nowMs: 0 }
    const registered = ['f0', 'f1', 'f2'].map(format => ({ format, channel: 'full' }))
    const add = async (missing: readonly WantedFormat[]) => {
      found.asked++
      const { added, refused } = admitFormats(registered, missing, { formatsMax: 10, formatsPerChannelMax: 3 })
      registered.push(...added)
      return refused
    }
    return { found, formats: openFormats(add, () => found.nowMs) }
  }

  test('costs no request for some seconds, and neither does a registered format', async () => {
    const { found, formats } = fullStore()
    const resolve = async () => {
      const refused = await formats.resolve([wanted('f1', 'full'), wanted('new', 'full')], signal)
      return [[...refused].map(([format, { rule }]) => `${format} ${rule}`), found.asked]
    }
    expect(await resolve()).toEqual([['new format-limit'], 1])
    found.nowMs = 4_999
    expect(await resolve()).toEqual([['new format-limit'], 1])
    found.nowMs = 5_000
    expect(await resolve()).toEqual([['new format-limit'], 2])
    await formats.resolve([wanted('f1', 'full', 'other')], signal)
    expect(found.asked).toBe(2)
  })

  test('and a registered format are forgotten when the store may have been put back', async () => {
    const { found, formats } = fullStore()
    const [refused, registered] = [[wanted('new', 'full')], [wanted('f1', 'full')]]
    for (const formatsOfBatch of [refused, registered]) await formats.resolve(formatsOfBatch, signal)
    formats.forget()
    await formats.resolve(refused, signal)
    expect(found.asked).toBe(3)
    await formats.resolve(registered, signal)
    expect(found.asked).toBe(4)
  })

  test('does not hold for another channel, which may add the format', async () => {
    const { formats } = fullStore()
    expect((await formats.resolve([wanted('new', 'full')], signal)).size).toBe(1)
    expect((await formats.resolve([wanted('new', 'full', 'other')], signal)).size).toBe(0)
    expect((await formats.resolve([wanted('new', 'full')], signal)).size).toBe(0)
  })

  test('is one of a limited number, of which the oldest is forgotten first', async () => {
    const { found, formats } = fullStore()
    const first = [wanted('new', 'full')]
    await formats.resolve(first, signal)
    await formats.resolve(
      Array.from({ length: 10_000 }, (_, at) => wanted(`other-${at}`, 'full')),
      signal,
    )
    await formats.resolve([wanted('other-9999', 'full')], signal)
    expect(found.asked).toBe(2)
    await formats.resolve(first, signal)
    expect(found.asked).toBe(3)
  })
})

interface Naming {
  readonly nameOf: (format: string) => string
  /** Formats that are their own name. */
  readonly own: readonly string[]
  /** Formats that get a readable prefix and a hash, which is written `#` here. */
  readonly made: readonly (readonly [format: string, name: string])[]
  /** What the store and sluice accept as a name. */
  readonly valid: RegExp
  readonly reserved: readonly string[]
}

const namings: Readonly<Record<string, Naming>> = {
  PostgreSQL: {
    nameOf: postgresName,
    own: ['temp', 'room_1', '_x', 'select', 'pg_class', 'x'.repeat(62)],
    made: [
      ['Temp', 'temp$#'],
      ['room-1', 'room_1$#'],
      ['x'.repeat(63), `${'x'.repeat(29)}$#`],
      ['größe', 'gr_e$#'],
      ['$', '_$#'],
      ['1', '1$#'],
      ['', 'format$#'],
      ['temp$0123456789abcdef0123456789abcdef', 'temp_0123456789abcdef01234567$#'],
    ],
    // Quoted as it is, with a byte left for the name of its index, which begins with a dollar.
    valid: /^[a-z0-9_][a-z0-9_$]{0,61}$/,
    reserved: [],
  },
  Cassandra: {
    nameOf: cassandraName,
    own: ['temp', 'Temp', '_x', '1', 'select', 'x'.repeat(48), 'system'],
    made: [
      ['room-1', 'room_1_#'],
      ['messages', 'messages_#'],
      ['sluice_logs', 'sluice_logs_#'],
      ['x'.repeat(49), `${'x'.repeat(14)}_#`],
      ['Größe', 'gr_e_#'],
      ['', 'format_#'],
    ],
    valid: /^[A-Za-z0-9_]{1,48}$/,
    reserved: [schemaTable, ...ownTables].map(({ name }) => name),
  },
  InfluxDB: {
    nameOf: influxName,
    own: ['temp', 'Temp', 'room-1', 'x'.repeat(100)],
    made: [
      ['messages', 'messages$#'],
      ['_x', '_x$#'],
      ['a b', 'a_b$#'],
      ['x'.repeat(101), `${'x'.repeat(40)}$#`],
      ['a$', 'a_$#'],
      ['', 'format$#'],
    ],
    valid: /^[A-Za-z0-9][\w-]{0,99}$|^[a-z0-9_]{1,40}\$[0-9a-f]{32}$/,
    reserved: ['messages'],
  },
  MongoDB: {
    nameOf: mongoName,
    own: ['temp', 'Temp', 'room-1', 'room_1', '_x', '1', 'system', 'x'.repeat(120)],
    made: [
      ['messages', 'messages~#'],
      ['system.users', 'system_users~#'],
      ['sluice.logs', 'sluice_logs~#'],
      ['x'.repeat(121), `${'x'.repeat(60)}~#`],
      ['größe', 'gr_e~#'],
      ['$', '_~#'],
      ['', 'format~#'],
      ['temp~0123456789abcdef0123456789abcdef', 'temp_0123456789abcdef0123456789abcdef~#'],
    ],
    valid: /^(?=.{1,120}$)[A-Za-z0-9_-]+(~[0-9a-f]{32})?$/,
    reserved: ['messages'],
  },
}

describe.each(Object.entries(namings))('the name of a format in %s', (_store, { nameOf, own, made, valid, reserved }) => {
  test.each(own)('is %s itself where that is harmless', format => expect(nameOf(format)).toBe(format))

  test.each(made)('is readable and has a hash: %s', (format, name) => expect(nameOf(format).replace(/[0-9a-f]{32}$/, '#')).toBe(name))

  test("is valid, neither sluice's nor the server's, and no other format's, not even of one that looks like a made name", () => {
    const format = fc.oneof(
      fc.string({ unit: 'binary', maxLength: 300 }),
      fc.string({ unit: fc.constantFrom('a', 'A', '_', '-', '$', '~', '.', '1', 'é'), maxLength: 6 }),
      fc.constantFrom(...hostileFormats, ...reserved),
      fc.stringMatching(/^[A-Za-z0-9_]{1,50}$/),
    )
    const names = new Map<string, string>()
    const check = (format: string): void => {
      const name = nameOf(format)
      expect(name).toMatch(valid)
      expect(reserved).not.toContain(name)
      expect(names.get(name) ?? format).toBe(format)
      names.set(name, format)
    }
    fc.assert(
      fc.property(format, format => {
        check(format)
        check(nameOf(format))
      }),
      { numRuns: 2000 },
    )
  })
})
