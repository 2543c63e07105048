// Gives the fields of a time-series point their nesting back: the reverse of flatten.ts.

import { DecodeError } from '../decode-error.ts'
import { excerpt } from '../excerpt.ts'
import type { JsonObject } from '../record-batch.ts'
import { type Fields, type FieldValue, levelsMax, separator } from './flatten.ts'

/** An object while it is being filled. */
interface Branch {
  [key: string]: FieldValue | Branch
}

/**
 * Splits joined keys at `/`: `d/tmp` = 1 becomes `{"d":{"tmp":1}}`.
 *
 * What flattening dropped stays away (null, empty objects), an array comes back as its JSON text, and an integer beyond 2^53 as the
 * nearest double.
 *
 * @throws DecodeError with one of these rules
 * - `unflatten-key`: a key, or a part of it between two `/`, is empty
 * - `unflatten-conflict`: a key is there twice, or is both a value and an object: `a` beside `a/b`
 * - `unflatten-depth`: a key has more than 64 parts
 */
export function unflatten({ keys, values }: Fields): JsonObject {
  const root: Branch = {}
  // Fields of one object mostly come one after another: the branch of the last one is kept.
  let prefix = ''
  let branch = root
  for (let at = 0; at < keys.length; at++) {
    const key = keys[at]!
    const end = key.lastIndexOf(separator) + 1
    if (end !== prefix.length || !key.startsWith(prefix)) {
      prefix = key.slice(0, end)
      branch = branchOf(root, key, end)
    }
    if (end === key.length) throw emptyPart(key)
    const part = key.slice(end)
    if (Object.hasOwn(branch, part)) throw typeof branch[part] === 'object' ? conflict(key) : twice(key)
    define(branch, part, values[at]!)
  }
  return root
}

/** The object that a key stands in, made where it is missing: that of its parts before `stop`. */
function branchOf(root: Branch, key: string, stop: number): Branch {
  let branch = root
  let start = 0
  for (let level = 1; start < stop; level++) {
    const end = key.indexOf(separator, start)
    if (end === start) throw emptyPart(key)
    if (level === levelsMax) throw tooManyParts(key)
    const part = key.slice(start, end)
    let next = Object.hasOwn(branch, part) ? branch[part]! : undefined
    if (next === undefined) {
      next = {}
      define(branch, part, next)
    } else if (typeof next !== 'object') {
      throw conflict(key.slice(0, end))
    }
    branch = next
    start = end + 1
  }
  return branch
}

/** An assignment to `__proto__` would change what the object is; defined, it is a key like any other. */
function define(branch: Branch, key: string, value: FieldValue | Branch): void {
  if (key === '__proto__') Object.defineProperty(branch, key, { value, writable: true, enumerable: true, configurable: true })
  else branch[key] = value
}

function emptyPart(key: string): DecodeError {
  return new DecodeError('unflatten-key', key === '' ? 'a key is empty' : `the key ${excerpt(key)} has an empty part`, {
    hint: `between two ${separator} stands the key of one level, which is never empty`,
  })
}

function tooManyParts(key: string): DecodeError {
  return new DecodeError('unflatten-depth', `the key ${excerpt(key)} has more than ${levelsMax} parts`, {
    hint: `each ${separator} makes a level of nested objects; rename the field`,
  })
}

function conflict(key: string): DecodeError {
  return new DecodeError('unflatten-conflict', `the key ${excerpt(key)} is a value and has further keys below it`, {
    hint: 'a key holds either the one or the others: rename it',
  })
}

function twice(key: string): DecodeError {
  return new DecodeError('unflatten-conflict', `the key ${excerpt(key)} is there twice`, { hint: 'a field has one value: leave one out' })
}
