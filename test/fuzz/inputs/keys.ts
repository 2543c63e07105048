// Objects and maps with duplicate keys, keys of Object.prototype, keys that look like indexes, or many keys.

import { Label } from '../../../transformers/senml/record.ts'
import type { Random } from '../random.ts'
import { Major, openCborBytes } from './cbor-bytes.ts'
import { anyText } from './texts.ts'

const senmlLabels = [...Object.keys(Label), 'x', 'x_', '_', '']
const strangeKeys = ['__proto__', 'constructor', 'prototype', 'toString', 'hasOwnProperty', '__defineGetter__', 'length', 'then', 'toJSON']
const values = ['1', '"a"', 'true', 'null', '{}', '[]', '{"__proto__":{"n":"b"}}', '{"n":"b","v":2}']

/** Keys for one object of about this size, in one style. */
function keysOf(random: Random, bytes: number): string[] {
  const manner = random.below(6)
  const keys: string[] = []
  let length = 0
  for (let at = 0; length < bytes; at++) {
    const key = keyOf(random, manner, at)
    keys.push(key)
    length += key.length + 6
  }
  return keys
}

function keyOf(random: Random, manner: number, at: number): string {
  switch (manner) {
    case 0:
      return random.pick(senmlLabels)
    case 1:
      return random.pick(strangeKeys)
    case 2:
      // V8 stores integer keys separately, in a dictionary if they are far apart.
      return String((at * 2 ** 20 + (at >> 12)) % 2 ** 32)
    case 3:
      return String(at)
    case 4:
      return random.oneIn(3) ? random.pick(strangeKeys) : anyText(random, 12)
    default:
      return `k${at.toString(36)}`
  }
}

/** An object, or an array with one, that is a valid record or document except for its keys. */
export function keysJson(random: Random, bytes: number): Uint8Array {
  const members = keysOf(random, bytes - 40).map(key => {
    const value = random.pick(values)
    return `${JSON.stringify(key)}:${random.oneIn(3) && senmlLabels.includes(key) && key !== 'n' ? '1' : value}`
  })
  const record = `{"n":"a","v":1${members.map(member => `,${member}`).join('')}}`
  return cutTo(bytes, random.oneIn(3) ? record : `[${record}]`)
}

/** Cuts off what joining parts made too long, which is as hostile without its end. */
function cutTo(bytes: number, text: string): Uint8Array {
  return Uint8Array.from(Buffer.from(text).subarray(0, bytes))
}

/** A record with such labels, or with an unknown one over a map with such keys; each key in its shortest form or a longer one. */
export function keysCbor(random: Random, bytes: number): Uint8Array {
  const keys = keysOf(random, bytes - 24)
  const output = openCborBytes()
  const inside = random.oneIn(2)
  output.raw(Buffer.from(inside ? '81a30061610201617a' : '81', 'hex'))
  output.head(Major.map, keys.length + (inside ? 0 : 2))
  if (!inside) output.raw(Buffer.from('0061610201', 'hex'))
  for (const key of keys) {
    if (random.oneIn(2)) {
      const encoded = Buffer.from(key)
      output.head(Major.text, encoded.length, random.oneIn(8) ? 2 : 0)
      output.raw(encoded)
    } else output.head(random.below(2), /^\d{1,9}$/.test(key) ? Number(key) : random.below(2 ** 16) + 9, random.pick([0, 0, 0, 1, 8]))
    output.raw([random.pick([0, 0x20, 0xf4, 0xf6, 0x60, 0x40, 0x80, 0xa0])])
  }
  return output.bytes()
}
