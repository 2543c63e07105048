// Valid payloads that would show state left behind by the previous message.

import { Buffer } from 'node:buffer'

const packs: readonly string[] = [
  // Without a base field, a unit, a time, a sum: any of them would be another message's.
  '[{"n":"a","v":1}]',
  '[{"n":"b","vs":"x"},{"n":"c","vb":false}]',
  '[{"s":2,"n":"c"}]',
  // The first record is the newest, as usual.
  '[{"bn":"m:","bt":1600000000,"bu":"A","bv":1,"n":"a","v":1},{"n":"b","t":-2,"v":2},{"n":"c","t":-1,"vs":"y"}]',
  // More records than insertion sort is used for, the latest first.
  `[${Array.from({ length: 40 }, (_, at) => `{"n":"r${at}","t":${-at},"v":${at}}`).join(',')}]`,
  // For the slow path of JSON, and secondary units.
  '[{"bver":26,"n":"a","u":"km/h","v":36},{"n":"b","vs":"\\u00e4"}]',
]

export const rightPacksOfJson: readonly Uint8Array[] = packs.map(pack => Buffer.from(pack))

/** The first five in CBOR, and a sixth with a float, a decimal fraction, data, and an unknown label. */
export const rightPacksOfCbor: readonly Uint8Array[] = [
  '81a20061610201',
  '82a20061620361 78a200616304f4',
  '81a205020061 63',
  '83a6 21626d3a 221a5f5e1000 236141 2401 006161 0201 a3 006162 0621 0202 a3 006163 0620 036179',
  `98 28 ${Array.from({ length: 40 }, (_, at) => `a3 00 63 72${Buffer.from(String(at).padStart(2, '0')).toString('hex')} 06 ${negative(at)} 02 18${hex(at)}`).join('')}`,
  '83a4 20181a 006161 01646b6d2f68 02fb4042000000000000 a2006162 0362c3a4 a4 006163 08420102 6178 a16179f6 07c4822013',
].map(digits => Buffer.from(digits.replaceAll(' ', ''), 'hex'))

function hex(number: number): string {
  return number.toString(16).padStart(2, '0')
}

/** The negative number; 0 unchanged. */
function negative(number: number): string {
  if (number === 0) return '00'
  return number <= 24 ? hex(0x1f + number) : `38${hex(number - 1)}`
}

export const rightDocuments: readonly Uint8Array[] = [
  '{"a":1}',
  '{}',
  '[{"a":{"b":null}},{"a":[true,"x"]}]',
  '{"id":8659456789564231564,"\\u0061":1}',
  '{"unix":1638310819.123456789}',
  '[{"local":"2023-10-29 02:30:00 CEST"},{"stamp":"Feb 29 10:00:00"},{"a":1}]',
].map(text => Buffer.from(text))
