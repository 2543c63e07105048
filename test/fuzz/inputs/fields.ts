// Fields of a time-series point, as JSON: an array of pairs of a joined key and a value.

import type { Random } from '../random.ts'
import { anyNumber, anyText } from './texts.ts'

const parts = ['a', 'b', 'c', '0', '10', '__proto__', 'constructor', 'toString', 'channel', '', 'ü', ' ', '.']

/** Keys that are mostly compatible: of a few parts each, rarely empty, sometimes conflicting. */
export function fieldsJson(random: Random, bytes: number): Uint8Array {
  const pairs: string[] = []
  let length = 2
  const badOneIn = random.pick([4, 1000])
  for (;;) {
    const key = keyOf(random, badOneIn)
    const pair = JSON.stringify([key, random.oneIn(3) ? anyText(random, 10) : random.oneIn(3) ? random.oneIn(2) : anyNumber(random)])
    length += Buffer.byteLength(pair) + 1
    if (length > bytes && pairs.length > 0) break
    pairs.push(pair)
  }
  return Buffer.from(`[${pairs.join(',')}]`)
}

function keyOf(random: Random, badOneIn: number): string {
  if (random.oneIn(20)) return anyText(random, 12)
  const levels = random.oneIn(200) ? 60 + random.below(8) : 1 + random.below(4)
  const key: string[] = []
  for (let level = 0; level < levels; level++) {
    const part = random.pick(parts)
    // Rare names, so that not every pair of keys conflicts.
    key.push(
      part === '' && !random.oneIn(badOneIn)
        ? 'd'
        : random.oneIn(badOneIn)
          ? part
          : `${part}${level === levels - 1 ? random.below(2 ** 31) : 'x'}`,
    )
  }
  return key.join('/')
}
