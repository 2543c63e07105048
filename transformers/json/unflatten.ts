// Restores the nesting of the fields of a time-series point: the reverse of flatten.ts.

import { DecodeError } from '../decode-error.ts'
import { excerpt } from '../excerpt.ts'
import type { JsonObject } from '../record-batch.ts'
import { define } from './exact-json.ts'
import { type Fields, type FieldValue, levelsMax, separator } from './flatten.ts'

/** An object while it is being filled. */
interface Branch {
  [key: string]: FieldValue | Branch
}

/**
 * Splits joined keys at `/`: `d/tmp` = 1 becomes `{"d":{"tmp":1}}`.
 *
 * Values dropped by flattening (null, empty objects) are not restored, an array stays JSON text, and an integer beyond 2^53 stays the
 * nearest double.
 *
 * @throws DecodeError with one of these rules
 * - `unflatten-key`: a key, or a part of it between two `/`, is empty
 * - `unflatten-conflict`: a key appears twice, or is both a value and an object: `a` and `a/b`
 * - `unflatten-depth`: a key has more than 64 parts
 */
export function unflatten({ keys, values }: Fields): JsonObject {
  const root: Branch = {}
  // Fields of one object are usually adjacent, so the branch of the last one is cached.
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

/** The object for the part of a key before `stop`, created if missing. */
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

/** An assignment to `__proto__` would change the prototype; defined like this, it is an ordinary key. */
function emptyPart(key: string): DecodeError {
  return new DecodeError('unflatten-key', key === '' ? 'a key is empty' : `the key ${excerpt(key)} has an empty part`, {
    hint: `each part between two ${separator} is the key of one level, which must not be empty`,
  })
}

function tooManyParts(key: string): DecodeError {
  return new DecodeError('unflatten-depth', `the key ${excerpt(key)} has more than ${levelsMax} parts`, {
    hint: `each ${separator} adds a level of nested objects; rename the field`,
  })
}

function conflict(key: string): DecodeError {
  return new DecodeError('unflatten-conflict', `the key ${excerpt(key)} is both a value and the parent of other keys`, {
    hint: 'a key is either a value or an object: rename it',
  })
}

function twice(key: string): DecodeError {
  return new DecodeError('unflatten-conflict', `the key ${excerpt(key)} appears twice`, { hint: 'a field has one value: remove one' })
}
