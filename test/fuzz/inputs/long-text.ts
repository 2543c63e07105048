// One very long text, name or data: five megabytes instead of some hundred bytes.

import type { Random } from '../random.ts'
import { Major, openCborBytes } from './cbor-bytes.ts'

const fillings = ['x', 'ä', '€', '😀', '\\n', '\\u00e4', '0', 'A', ' ', '-']
const places = [
  '[{"n":"a","vs":"~"}]',
  '[{"n":"~","v":1}]',
  '[{"n":"a","vd":"~"}]',
  '[{"n":"a","v":1,"~":1}]',
  '[{"n":"a","v":1~}]',
  '{"a":"~"}',
  '{"~":1}',
  '[{"a":"~"}',
  '~',
]

/** The length of the texts, whatever the size limit. */
export const longTextBytes = 5_000_000

export function longTextJson(random: Random, bytes: number): Uint8Array {
  const [before, after = ''] = random.pick(places).split('~')
  const filling = Buffer.from(random.pick(fillings))
  const count = Math.floor((bytes - before!.length - after.length) / filling.length)
  return Uint8Array.from(Buffer.concat([Buffer.from(before!), Buffer.alloc(count * filling.length, filling), Buffer.from(after)]))
}

const cborPlaces = ['81a200616103', '81a200616108', '81a2020100', '81a30061610201', '81a30061610201617a', '']

export function longTextCbor(random: Random, bytes: number): Uint8Array {
  const output = openCborBytes()
  const beginning = random.pick(cborPlaces)
  const filling = Buffer.from(random.pick(fillings))
  const count = Math.floor((bytes - 16) / filling.length)
  output.raw(Buffer.from(beginning, 'hex'))
  output.head(beginning.endsWith('08') ? Major.bytes : Major.text, count * filling.length)
  output.raw(Buffer.alloc(count * filling.length, filling))
  if (beginning === '81a30061610201') output.raw([0])
  return output.bytes()
}
