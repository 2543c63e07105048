// Table names made from what devices send.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { physicalName } from '../../../sinks/postgres/registry.ts'

test.each(['temp', 'room_1', '_x', 'select', 'pg_class', 'x'.repeat(62)])('a harmless format is its own table name: %s', format => {
  expect(physicalName(format)).toBe(format)
})

test.each([
  ['Temp', /^temp\$[0-9a-f]{32}$/],
  ['room-1', /^room_1\$[0-9a-f]{32}$/],
  ['x'.repeat(63), /^x{29}\$[0-9a-f]{32}$/],
  ['größe', /^gr_e\$[0-9a-f]{32}$/],
  ['$', /^_\$[0-9a-f]{32}$/],
  ['1', /^1\$[0-9a-f]{32}$/],
  ['', /^format\$[0-9a-f]{32}$/],
  ['temp$0123456789abcdef0123456789abcdef', /^temp_0123456789abcdef01234567\$[0-9a-f]{32}$/],
])('any other gets a readable prefix and a hash: %s', (format, name) => {
  expect(physicalName(format)).toMatch(name)
})

test('every name can be quoted as it is, leaves a byte for its index, and never looks like an index', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), format => {
      expect(physicalName(format)).toMatch(/^[a-z0-9_][a-z0-9_$]{0,61}$/)
    }),
  )
})

test('no two formats share a table', () => {
  const similar = fc.string({ unit: fc.constantFrom('a', 'A', '_', '-', '$', '1', 'é'), maxLength: 6 })
  fc.assert(
    fc.property(similar, similar, (one, other) => {
      expect(physicalName(one) === physicalName(other)).toBe(one === other)
    }),
    { numRuns: 2000 },
  )
})
