// CRC-32C by tables and by the add-on: the examples of RFC 3720, and the same for every length and place in memory.

import { jsCRC32C } from '@platformatic/kafka'
import { expect, test } from 'vitest'
import { crc32c, crc32cByTables, isNative } from '../../../pipeline/kafka/crc32c.ts'

test.each([
  ['32 zeros', new Uint8Array(32), 0x8a9136aa],
  ['32 ones', new Uint8Array(32).fill(0xff), 0x62a8ab43],
  ['0 to 31', Uint8Array.from({ length: 32 }, (_, at) => at), 0x46dd794e],
  ['31 to 0', Uint8Array.from({ length: 32 }, (_, at) => 31 - at), 0x113fdb5c],
  ['123456789', Buffer.from('123456789'), 0xe3069283],
  ['nothing', new Uint8Array(0), 0],
])('%s (RFC 3720 B.4)', (_, bytes, crc) => {
  expect(crc32cByTables(bytes)).toBe(crc)
  expect(crc32c(bytes)).toBe(crc)
})

test('every length from every place in memory gives what another implementation gives', () => {
  const memory = Uint8Array.from({ length: 400 }, (_, at) => Math.imul(at + 1, 0x9e3779b1) >>> 24)
  for (let start = 0; start < 8; start++) {
    for (let length = 0; length < 300; length++) {
      const bytes = memory.subarray(start, start + length)
      const crc = jsCRC32C(Buffer.from(bytes))
      expect(crc32cByTables(bytes)).toBe(crc)
      expect(crc32c(bytes)).toBe(crc)
    }
  }
})

test('the add-on is there where the tests run', () => expect(isNative).toBe(true))
