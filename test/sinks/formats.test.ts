// Which formats a store takes, and what they are called there.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { admitFormats, physicalName } from '../../sinks/formats.ts'

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

test('no two formats share a name, under the rules of different stores', () => {
  const rules = [
    { harmless: /^[a-z_][a-z0-9_]{0,61}$/, foreign: /[^a-z0-9_]+/g, separator: '$', prefixLengthMax: 29 },
    { harmless: /^[A-Za-z0-9_-]{1,60}$/, foreign: /[^a-z0-9_-]+/g, separator: '~', prefixLengthMax: 5 },
  ]
  const similar = fc.string({ unit: fc.constantFrom('a', 'A', '_', '-', '$', '~', '1', 'é'), maxLength: 6 })
  fc.assert(
    fc.property(fc.constantFrom(...rules), similar, similar, (rule, one, other) => {
      expect(physicalName(one, rule) === physicalName(other, rule)).toBe(one === other)
    }),
    { numRuns: 2000 },
  )
})
