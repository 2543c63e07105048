// CRC-32C: the examples of RFC 3720, and another implementation for every length and alignment.

import { jsCRC32C } from '@platformatic/kafka'
import { crc32c as byWasm } from '@platformatic/wasm-utils'
import { expect, test } from 'vitest'
import { crc32c } from '../../../../pipeline/kafka/records/crc32c.ts'

test.each([
  ['32 zeros', Buffer.alloc(32), 0x8a9136aa],
  ['32 ones', Buffer.alloc(32, 0xff), 0x62a8ab43],
  ['0 to 31', Buffer.from(Array.from({ length: 32 }, (_, at) => at)), 0x46dd794e],
  ['31 to 0', Buffer.from(Array.from({ length: 32 }, (_, at) => 31 - at)), 0x113fdb5c],
  ['123456789', Buffer.from('123456789'), 0xe3069283],
  ['nothing', Buffer.alloc(0), 0],
])('%s (RFC 3720 B.4), also without the add-on', (_, bytes, crc) => {
  expect(crc32c(bytes)).toBe(crc)
  expect(byWasm(bytes) >>> 0).toBe(crc)
})

test('every length from every alignment', () => {
  const memory = Buffer.from(Array.from({ length: 400 }, (_, at) => Math.imul(at + 1, 0x9e3779b1) >>> 24))
  for (let start = 0; start < 8; start++) {
    for (let length = 0; length < 300; length++) {
      const bytes = memory.subarray(start, start + length)
      expect(crc32c(bytes)).toBe(jsCRC32C(bytes))
    }
  }
})
