// Which table a format is stored in: no two in one, and none in a table of ours.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { ownTables, physicalName, schemaTable } from '../../../sinks/cassandra/schema.ts'
import { hostileFormats } from '../../conformance/sink/fixture.ts'

test.each(['temp', 'Temp', '_x', '1', 'select', 'x'.repeat(48), 'system'])('%s is its own table name', format =>
  expect(physicalName(format)).toBe(format),
)

test.each([
  ['room-1', /^room_1_[0-9a-f]{32}$/],
  ['messages', /^messages_[0-9a-f]{32}$/],
  ['sluice_logs', /^sluice_logs_[0-9a-f]{32}$/],
  ['x'.repeat(49), /^x{14}_[0-9a-f]{32}$/],
  ['Größe', /^gr_e_[0-9a-f]{32}$/],
  ['', /^format_[0-9a-f]{32}$/],
])('%s gets a name with a hash', (format, name) => expect(physicalName(format)).toMatch(name))

test('a format that looks like a generated name gets another one', () => {
  for (const format of hostileFormats)
    expect(physicalName(physicalName(format)) === physicalName(format)).toBe(physicalName(format) === format)
})

test("no two formats share a name, all names are valid, and none is sluice's own", () => {
  const format = fc.oneof(
    fc.string(),
    fc.string({ unit: 'binary' }),
    fc.constantFrom(...hostileFormats),
    fc.stringMatching(/^[A-Za-z0-9_]{1,50}$/),
  )
  const own = new Set([schemaTable, ...ownTables].map(({ name }) => name))
  const names = new Map<string, string>()
  fc.assert(
    fc.property(format, format => {
      const name = physicalName(format)
      expect(name).toMatch(/^[A-Za-z0-9_]{1,48}$/)
      expect(own.has(name)).toBe(false)
      expect(names.get(name) ?? format).toBe(format)
      names.set(name, format)
    }),
    { numRuns: 2000 },
  )
})
