// Flattens a JSON document into the fields of one point of the time-series store (SPEC §2, transformer rule 8).

import { DecodeError } from '../decode-error.ts'
import { excerpt } from '../excerpt.ts'
import type { JsonObject, JsonValue } from '../record-batch.ts'
import { jsonText } from './json-text.ts'

/** Type of a field. All numbers are floats: a key may have whole numbers and fractions, and InfluxDB gives a field one type. */
export type FieldValue = number | string | boolean

/** The fields of a point as two parallel arrays: `keys[i]` has `values[i]`. In document order. */
export interface Fields {
  readonly keys: string[]
  readonly values: FieldValue[]
}

/** Separates joined keys, so no key may contain it. */
export const separator = '/'

/** Levels of nested objects, including the document itself. */
export const levelsMax = 64

/** Each nested key repeats its parents: a long parent of many keys would make the point far larger than the document. */
const keyCharactersMax = 2 ** 20

/** Whether the key is a tag of every point. A nested key cannot be one, because it contains a separator. */
function isTag(key: string): boolean {
  return key === 'channel' || key === 'publisher' || key === 'subtopic'
}

/**
 * Joins nested keys by `/`: `{"d":{"tmp":1}}` becomes `d/tmp` = 1.
 *
 * An array is a leaf, stored as JSON text; null and an empty object give no field; an integer beyond 2^53 becomes the
 * nearest double. A document without fields gives no point: the message counts as empty.
 *
 * @throws DecodeError with one of these rules
 * - `flatten-root`: the document is not an object
 * - `flatten-key`: a key is empty, contains `/`, or is a tag at the top level (`channel`, `publisher`, `subtopic`)
 * - `flatten-depth`: more than 64 levels of objects, or an array nested several thousand levels deep
 * - `flatten-size`: the joined keys have more than 1,048,576 characters together
 * - `flatten-number`: an integer beyond the range of a double
 */
export function flatten(document: JsonValue): Fields {
  if (!isObject(document)) throw rootNotObject(document)
  const fields: Fields = { keys: [], values: [] }
  collect(document, '', 1, 0, fields)
  return fields
}

export function isObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * Adds the fields of one object. Recurses to at most `levelsMax`.
 *
 * @param prefix the parent keys, each with its separator
 * @param characters number of characters of all keys so far
 * @returns that number afterwards
 */
function collect(object: JsonObject, prefix: string, level: number, characters: number, fields: Fields): number {
  if (level > levelsMax) throw tooDeep(prefix)
  let total = characters
  for (const key in object) {
    if (key === '' || key.includes(separator)) throw badKey(prefix, key)
    const value = object[key]!
    if (level === 1 && isTag(key)) throw tagTaken(key)
    if (value === null) continue
    if (isObject(value)) {
      total = collect(value, prefix + key + separator, level + 1, total, fields)
      continue
    }
    total += prefix.length + key.length
    if (total > keyCharactersMax) throw keysTooLong()
    fields.keys.push(prefix + key)
    fields.values.push(
      typeof value === 'object' ? arrayText(value, prefix, key) : typeof value === 'bigint' ? nearest(value, prefix, key) : value,
    )
  }
  return total
}

function nearest(value: bigint, prefix: string, key: string): number {
  const number = Number(value)
  if (Number.isFinite(number)) return number
  throw new DecodeError('flatten-number', `the number at ${excerpt(prefix + key)} is beyond the range of a double`, {
    hint: 'the time-series store keeps doubles; send a number between -1.8e308 and 1.8e308, or text',
  })
}

function arrayText(value: readonly JsonValue[], prefix: string, key: string): string {
  try {
    return jsonText(value)
  } catch (cause) {
    throw new DecodeError('flatten-depth', `the array at ${excerpt(prefix + key)} is nested too deeply to be stored as text`, {
      hint: 'reduce the nesting',
      cause,
    })
  }
}

function rootNotObject(root: JsonValue): DecodeError {
  const kind = root === null ? 'null' : typeof root === 'object' ? 'an array' : `a ${typeof root === 'bigint' ? 'number' : typeof root}`
  return new DecodeError('flatten-root', `the document must be an object, not ${kind}`, {
    hint: 'only an object has fields; pass each object of an array separately',
  })
}

function badKey(prefix: string, key: string): DecodeError {
  const where = prefix === '' ? '' : ` in ${excerpt(prefix.slice(0, -1))}`
  const what = key === '' ? `a key${where} is empty` : `the key ${excerpt(key)}${where} contains ${separator}`
  return new DecodeError('flatten-key', what, {
    hint: `the time-series store joins nested keys by ${separator}: rename the key`,
  })
}

function tagTaken(key: string): DecodeError {
  return new DecodeError('flatten-key', `the key ${excerpt(key)} is the name of a tag`, {
    hint: 'channel, publisher and subtopic are tags of every point of the time-series store: rename the key',
  })
}

function tooDeep(prefix: string): DecodeError {
  return new DecodeError(
    'flatten-depth',
    `the document has more than ${levelsMax} levels of objects, below ${excerpt(prefix.slice(0, -1))}`,
    {
      hint: 'reduce the nesting',
    },
  )
}

function keysTooLong(): DecodeError {
  return new DecodeError('flatten-size', `the keys, each joined with its parents, have more than ${keyCharactersMax} characters in total`, {
    hint: 'shorten the keys with many nested ones',
  })
}
