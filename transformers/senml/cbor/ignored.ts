// Skips the values of unknown labels, but checks that they follow the rules of CBOR and of the payload.

import { badDecimal, duplicateKey, notUtf8, tooDeep } from './faults.ts'
import { endOfString, head, Major, readHead } from './head.ts'
import { addKey, clearKeys, type Keys, openKeys } from './keys.ts'
import { isUtf8 } from './text.ts'

/** Nesting levels of arrays, maps and tags: the pack is the first, a record the second. */
export const depthMax = 4

/** The keys of the open maps, by depth. */
const keysAtDepth: readonly Keys[] = Array.from({ length: depthMax + 1 }, openKeys)

/**
 * Skips the item at `at`, and returns the index after it.
 *
 * @param depth the level of the item if it is an array, a map or a tag: 3 for the value of a label
 * @throws DecodeError if it is malformed, breaks a rule, or is nested too deeply
 */
export function passOver(at: number, depth: number, record: number): number {
  const next = readHead(at, record)
  const { major, argument } = head
  if (major <= Major.negative || major === Major.other) return next
  if (major <= Major.text) {
    const end = endOfString(next, record)
    if (major === Major.text && !isUtf8(next, end)) throw notUtf8(record)
    return end
  }
  if (depth > depthMax) throw tooDeep(record)
  if (major === Major.array) return passOverArray(next, argument, depth, record)
  if (major === Major.map) return passOverMap(next, argument, depth, record)
  return passOverDecimal(next, depth, record)
}

function passOverArray(at: number, count: number, depth: number, record: number): number {
  let next = at
  for (let item = 0; item < count; item++) next = passOver(next, depth + 1, record)
  return next
}

function passOverMap(at: number, count: number, depth: number, record: number): number {
  const keys = keysAtDepth[depth]!
  clearKeys(keys)
  let next = at
  for (let pair = 0; pair < count; pair++) {
    const end = passOver(next, depth + 1, record)
    if (!addKey(keys, next, end)) throw duplicateKey('a key of a map under an unknown label', record)
    next = passOver(end, depth + 1, record)
  }
  return next
}

/** A decimal fraction is an array in a tag, which are two levels. */
function passOverDecimal(at: number, depth: number, record: number): number {
  let next = readHead(at, record)
  if (depth + 1 > depthMax) throw tooDeep(record)
  if (head.major !== Major.array || head.argument !== 2) throw badDecimal(record)
  for (let part = 0; part < 2; part++) {
    next = readHead(next, record)
    if (head.major > Major.negative) throw badDecimal(record)
  }
  return next
}
