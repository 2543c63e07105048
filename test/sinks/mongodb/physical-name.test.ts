// Collection names made from what devices send.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { physicalName } from '../../../sinks/mongodb/physical-name.ts'

test.each(['temp', 'Temp', 'room-1', 'room_1', '_x', '1', 'system', 'x'.repeat(120)])(
  'a harmless format is its own collection: %s',
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
])('another is a readable prefix and a hash: %s', (format, name) => {
  expect(physicalName(format)).toMatch(name)
})

test('no name is one of ours, of the server, or longer than a namespace has room for', () => {
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
