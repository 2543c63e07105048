// Invalid texts: bytes that are not UTF-8, halves of surrogate pairs, NULs, and incomplete escapes.

import type { Random } from '../random.ts'
import { Major, openCborBytes } from './cbor-bytes.ts'

const badBytes = [
  '80',
  'bf',
  'c080',
  'c1bf',
  'e08080',
  'e09fbf',
  'eda080',
  'edbfbf',
  'f0808080',
  'f08fbfbf',
  'f4908080',
  'f5808080',
  'fe',
  'ff',
  'c3',
  'e282',
  'f09f98',
].map(hex => Buffer.from(hex, 'hex'))
const goodBytes = ['61', '20', '00', '7f', 'c3bc', 'e282ac', 'f09f9880', 'efbbbf', 'efbfbd', 'e280a8', 'f48fbfbf'].map(hex =>
  Buffer.from(hex, 'hex'),
)
const escapes = [
  '\\ud800',
  '\\udfff',
  '\\ud83d\\ude00',
  '\\uDE00\\uD83D',
  '\\u0000',
  '\\u00',
  '\\u',
  '\\',
  '\\x',
  '\\n',
  '\\"',
  '\\\\',
  '\\u00e4',
  '\\ud800\\u0041',
  '\\uFFFF',
].map(text => Buffer.from(text))

function textBytes(random: Random, bytes: number, ...sources: (readonly Uint8Array[])[]): Uint8Array {
  const parts: Uint8Array[] = []
  let length = 0
  // Mostly valid: a fault in the first character is found immediately.
  const oneBadIn = random.pick([2, 20, 10_000])
  for (;;) {
    const part = random.oneIn(oneBadIn) ? random.pick(random.pick(sources)) : random.pick(goodBytes.slice(oneBadIn > 20 ? 3 : 0))
    length += part.length
    if (length > bytes) break
    parts.push(part)
  }
  return Buffer.concat(parts)
}

const jsonPlaces = [
  '[{"n":"a","vs":"~"}]',
  '[{"n":"~","v":1}]',
  '[{"n":"a","v":1,"~":1}]',
  '[{"n":"a","u":"~","v":1}]',
  '{"a":"~"}',
  '{"~":1}',
  '[{"at":"~"}]',
  '"~"',
  '~',
]

export function badTextJson(random: Random, bytes: number): Uint8Array {
  const [before, after = ''] = random.pick(jsonPlaces).split('~')
  return Uint8Array.from(
    Buffer.concat([Buffer.from(before!), textBytes(random, Math.max(bytes - 24, 1), badBytes, escapes), Buffer.from(after)]),
  )
}

/** The start of a record up to a text: vs, n, u, an unknown label, and its content. */
const cborPlaces = ['81a200616103', '81a2020100', '81a3006161020101', '81a30061610201', '81a30061610201617a', '81a200616102', '']

export function badTextCbor(random: Random, bytes: number): Uint8Array {
  const output = openCborBytes()
  output.raw(Buffer.from(random.pick(cborPlaces), 'hex'))
  const text = textBytes(random, Math.max(bytes - 16, 1), badBytes)
  output.head(Major.text, text.length, random.pick([0, 0, 2, 4]))
  output.raw(text)
  if (random.oneIn(2)) output.raw([0])
  return output.bytes()
}
