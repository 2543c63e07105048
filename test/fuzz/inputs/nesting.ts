// Deep nesting, which overflows the stack of a recursive decoder.

import type { Random } from '../random.ts'

const jsonLevels: readonly (readonly [opening: string, closing: string])[] = [
  ['[', ']'],
  ['{"a":', '}'],
  ['{"":[', ']}'],
  ['[{"n":', '}]'],
  ['[[1],', ']'],
  ['{"a":1,"b":', '}'],
  ['{"__proto__":', '}'],
  [' [', ' ]'],
]
/** The surroundings of the nesting. */
const jsonPlaces: readonly (readonly [before: string, after: string])[] = [
  ['', ''],
  ['', ''],
  ['[{"n":"a","v":1,"x":', '}]'],
  ['{"unix":', '}'],
  ['{"a":', '}'],
]

/** Usually about as many levels as are allowed, or as many as fit. */
function levelsOf(random: Random, most: number): number {
  const levels = random.oneIn(2) ? most : random.oneIn(2) ? random.below(most + 1) : 60 + random.below(10)
  return Math.max(1, Math.min(levels, most))
}

export function nestedJson(random: Random, bytes: number): Uint8Array {
  const [opening, closing] = random.pick(jsonLevels)
  const [before, after] = random.pick(jsonPlaces)
  const isClosed = random.oneIn(2)
  const end = isClosed ? closing : ''
  const levels = levelsOf(random, Math.floor((bytes - 24) / (opening.length + end.length)))
  return Buffer.from(`${before}${opening.repeat(levels)}1${end.repeat(levels)}${isClosed ? after : ''}`)
}

const cborLevels = ['81', '82', '8100', '8181', 'a1', 'a100', 'a16161', 'c1', 'c4', 'c482', 'd8ff', 'd9d9f7', '9f', 'bf00']
/** Nothing; a record; a record that is valid up to an unknown label; a valid one with an invalid value. */
const cborBeginnings = ['', '', '81a1', '81a30061610201617a', '81a200616102', '82a2006161020103']

export function nestedCbor(random: Random, bytes: number): Uint8Array {
  const opening = Buffer.from(random.pick(cborLevels), 'hex')
  const beginning = Buffer.from(random.pick(cborBeginnings), 'hex')
  const levels = levelsOf(random, Math.floor((bytes - 16) / opening.length))
  return Buffer.concat([beginning, Buffer.alloc(levels * opening.length, opening), new Uint8Array(random.below(2))])
}
