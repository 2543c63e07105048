// Damage to valid bytes: flipped bits, a cut, and splices.

import type { Random } from '../random.ts'

/** Flips a few bits. */
export function flipped(random: Random, bytes: Uint8Array): Uint8Array {
  const changed = Uint8Array.from(bytes)
  if (changed.length === 0) return changed
  for (let left = 1 + random.mostlySmall(8); left > 0; left--) changed[random.below(changed.length)]! ^= 1 << random.below(8)
  return changed
}

/** Keeps only the start or the end. */
export function cut(random: Random, bytes: Uint8Array): Uint8Array {
  const at = random.below(bytes.length + 1)
  return random.oneIn(4) ? bytes.slice(at) : bytes.slice(0, at)
}

/** Removes, duplicates or moves pieces, or replaces them with words of the language. */
export function spliced(random: Random, bytes: Uint8Array, words: readonly Uint8Array[]): Uint8Array {
  let changed = bytes
  for (let left = 1 + random.mostlySmall(5); left > 0; left--) {
    const at = random.below(changed.length + 1)
    const removed = random.oneIn(2) ? 0 : random.mostlySmall(Math.min(12, changed.length - at) + 1)
    const from = random.below(changed.length + 1)
    const inserted = random.oneIn(3) ? changed.subarray(from, from + random.mostlySmall(40)) : random.oneIn(8) ? [] : random.pick(words)
    changed = Buffer.concat([changed.subarray(0, at), Uint8Array.from(inserted), changed.subarray(at + removed)])
  }
  return Uint8Array.from(changed)
}

const jsonTexts =
  '[ ] { } , : " \\ \\u \\ud800 \\udc00 \\u0000 \\" - + . e E 0 1 9 00 1. .5 -0 1e999 -1e999 1e-999 9007199254740993 1234567890123456 t true fals null NaN Infinity ' +
  '[{ }] ,{ {} [] "" "n": "v":1 "bn":"" "bt":0 "bver":11 "x_":1 "__proto__":{} "unix": "a/b": // /* \ufeff \u2028 \u00e9'
export const jsonWords: readonly Uint8Array[] = [
  ...jsonTexts.split(' ').map(word => Buffer.from(word)),
  ...['\0', '\x01', '\x1f', ' ', '\n', '\x7f', '\x80', '\xc0', '\xff', '\xed\xa0\x80', '\xf4\x90\x80\x80'].map(word =>
    Buffer.from(word, 'latin1'),
  ),
]

export const cborWords: readonly Uint8Array[] = [
  '80 81 82 98ff 9affffffff 9bffffffffffffffff 9f a0 a1 a2 b8ff baffffffff bbffffffffffffffff bf 40 41 5a7fffffff 5b0000000100000000 5bffffffffffffffff 5f',
  '60 61 7a80000000 7bffffffffffffffff 7f ff 00 17 1800 18ff 19ffff 1affffffff 1bffffffffffffffff 20 26 27 3bffffffffffffffff c0 c1 c2 c24100 c3 c4 c482 c4820000',
  'c48220 1901 c5 d818 d9d9f7 dbffffffffffffffff e0 f3 f4 f5 f6 f7 f8ff f81f f90000 f97e00 f97c00 f9fc00 fa7fc00000 fb7ff0000000000000 fb7ff8000000000000 1c 1d 1e 3c 5c',
  '7c 9c bc dc fc fd 616e 6162 62626e 615f 6378795f 00616102 0161 0201 a2006161 0201 c3bc c328 eda080 f4908080',
]
  .join(' ')
  .split(' ')
  .map(word => Uint8Array.from(Buffer.from(word, 'hex')))
