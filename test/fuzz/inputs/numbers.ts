// Numbers that are too large, too long, or almost numbers.

import type { Random } from '../random.ts'
import { Major, openCborBytes, writeNumber } from './cbor-bytes.ts'
import { anyNumber } from './texts.ts'

function digits(random: Random, count: number): string {
  const digit = random.oneIn(2) ? random.pick(['0', '9', '1']) : ''
  if (digit !== '' || count > 2000) return (digit || '123456789').repeat(count).slice(0, count)
  return Array.from({ length: count }, () => random.below(10)).join('')
}

function numberJson(random: Random, space: number): string {
  const long = digits(random, random.oneIn(3) ? Math.max(space - 8, 1) : 1 + random.mostlySmall(330))
  const sign = random.pick(['', '', '-', '+', '--'])
  switch (random.below(9)) {
    case 0:
      return `${sign}${long}`
    case 1:
      return `${sign}0.${long}`
    case 2:
      return `${sign}1.${long}e${random.below(40)}`
    case 3:
      return `${sign}${long}.5`
    case 4:
      return `1e${random.pick(['', '-', '+'])}${long}`
    case 5:
      return `${sign}${1 + random.below(9)}e${random.pick(['308', '309', '-324', '-400', '307', '+308', '99999999999'])}`
    case 6:
      return `1.7976931348623${digits(random, 4)}e308`
    case 7:
      return random.pick(['NaN', 'Infinity', '0x10', '1_000', '01', '1.', '.5', '1e', '1e+', '0e0', '-0', '-', '١', '1n', '1,5'])
    default:
      return `${sign}${random.below(2 ** 32)}${digits(random, 9)}`
  }
}

const places = [
  '[{"n":"a","v":~}]',
  '[{"bv":~,"n":"a"}]',
  '[{"n":"a","t":~,"v":1}]',
  '[{"bt":~,"n":"a","v":1}]',
  '[{"bver":~,"n":"a","v":1}]',
  '[{"n":"a","v":1,"x":~}]',
  '{"a":~}',
  '{"unix":~}',
  '{"ns":~}',
  '{"unix":"~"}',
  '{"a":[~]}',
  '~',
]

/** One number in some place, or an array of them. */
export function numbersJson(random: Random, bytes: number): Uint8Array {
  const [before, after = ''] = random.pick(places).split('~')
  let space = bytes - before!.length - after.length
  const several = before!.endsWith('[') || random.oneIn(12)
  const numbers = [numberJson(random, several ? 20 : space)]
  space -= numbers[0]!.length
  // A number that is the whole input leaves no space.
  if (!several) space = 0
  while (space > 400) {
    const number = numberJson(random, 300)
    space -= number.length + 1
    numbers.push(number)
  }
  return Buffer.from(before! + numbers.join(',') + after).subarray(0, bytes)
}

const cborSpecial = [
  'f97c00',
  'f9fc00',
  'f97e00',
  'f97bff',
  'f90001',
  'fa7f800000',
  'fa7f7fffff',
  'fb7ff0000000000000',
  'fb7fefffffffffffff',
  'fbffefffffffffffff',
  'fb0000000000000001',
  'fb8000000000000000',
]
const labels = [2, 5, 6, 7, 0x22, 0x24, 0x25, 0x20]

/** Records with such a number as a value, time, sum or base; also in a decimal fraction, or where no number is allowed. */
export function numbersCbor(random: Random, bytes: number): Uint8Array {
  const records: Uint8Array[] = []
  let length = 5
  do {
    const record = openCborBytes()
    record.raw([0xa2, 0x00, 0x61, 0x61, random.pick(labels)])
    writeHostileNumber(record, random, bytes)
    records.push(record.bytes())
    length += record.length
  } while (length < bytes && random.below(bytes) > 60)
  const head = openCborBytes()
  head.head(Major.array, records.length)
  return Uint8Array.from(Buffer.concat([head.bytes(), ...records])).subarray(0, bytes)
}

function writeHostileNumber(output: ReturnType<typeof openCborBytes>, random: Random, bytes: number): void {
  switch (random.below(8)) {
    case 0:
      output.raw(Buffer.from(random.pick(cborSpecial), 'hex'))
      break
    case 1:
      output.head(random.below(2), 2n ** 64n - 1n - BigInt(random.below(3)))
      break
    case 2:
      // A decimal fraction with any exponent.
      output.raw([0xc4, 0x82])
      output.head(random.below(2), random.oneIn(2) ? random.below(400) : 2n ** BigInt(random.below(64)))
      output.head(random.below(2), random.oneIn(2) ? random.below(400) : 2n ** BigInt(random.below(64)))
      break
    case 3:
      // A bignum of any length that fits: alone, or as the mantissa of a decimal fraction.
      if (random.oneIn(2)) output.raw([0xc4, 0x82, 0x00])
      output.raw([random.oneIn(2) ? 0xc2 : 0xc3])
      output.data(new Uint8Array(random.oneIn(4) ? Math.max(bytes - 20, 0) : random.below(20)).fill(0xff))
      break
    case 4:
      output.raw([random.pick([0xf8, 0xf9, 0xfa, 0xfb, 0x1c, 0xc5, 0xc0])])
      break
    default:
      writeNumber(output, random, anyNumber(random))
  }
}
