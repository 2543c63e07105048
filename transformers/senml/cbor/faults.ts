// The error messages for a SenML pack in CBOR. Those for records in any format are in ../faults.ts.

import { DecodeError } from '../../decode-error.ts'
import { excerpt } from '../../excerpt.ts'
import { nameOfBit } from './labels.ts'

type Where = number | undefined

/** The kind of an item, by its first byte. */
function kindOfItem(first: number): string {
  const kinds = ['an integer', 'an integer', 'a byte string', 'a text string', 'an array', 'a map', 'a decimal fraction']
  if (first < 0xe0) return kinds[first >> 5]!
  if (first === 0xf4 || first === 0xf5) return 'a boolean'
  if (first === 0xf6) return 'null'
  if (first === 0xf7) return 'undefined'
  return first >= 0xf9 && first <= 0xfb ? 'a float' : 'a simple value'
}

/** Sets `record` only if there is one: errors about the whole payload have none. */
function at(record: Where): { record?: number } {
  return record === undefined ? {} : { record }
}

export function truncated(record: Where): DecodeError {
  return new DecodeError('cbor-cut', 'the payload ends in the middle of an item', {
    ...at(record),
    hint: 'a length or a count exceeds the payload; check that it was sent completely',
  })
}

export function malformed(what: string, record: Where): DecodeError {
  return new DecodeError('cbor-malformed', `the payload is not CBOR: it contains ${what}`, {
    ...at(record),
    hint: 'check it with a CBOR decoder (RFC 8949 §3)',
  })
}

export function indefiniteLength(first: number, record: Where): DecodeError {
  return new DecodeError('cbor-indefinite', `it contains ${kindOfItem(first)} of indefinite length`, {
    ...at(record),
    hint: 'use definite lengths only; SensML streams (application/sensml+cbor) are a different format, which is not supported',
  })
}

export function badTag(tag: number, record: Where): DecodeError {
  return new DecodeError('cbor-tag', `it contains the tag ${tag}`, {
    ...at(record),
    hint: 'the only tag in SenML is 4, a decimal fraction with an integer for its mantissa; send other numbers as integers or floats',
  })
}

export function tooDeep(record: Where): DecodeError {
  return new DecodeError('nesting-depth', 'it has more than 4 nested levels of arrays, maps and tags', {
    ...at(record),
    hint: 'a pack is an array of maps; reduce the nesting under unknown labels',
  })
}

export function trailingBytes(count: number): DecodeError {
  return new DecodeError('cbor-trailing', `${count === 1 ? '1 byte follows' : `${count} bytes follow`} the pack`, {
    hint: 'send one pack per message, and nothing after it',
  })
}

export function rootNotPack(first: number): DecodeError {
  // In CBOR, the first byte of JSON would start a string longer than any payload.
  const looksLikeJson = first === 0x5b || first === 0x7b
  return new DecodeError('root-array', `the root must be an array of records, not ${kindOfItem(first)}`, {
    hint: looksLikeJson ? 'it looks like JSON: send it as application/senml+json' : 'send an array of maps, even for a single record',
  })
}

export function recordNotMap(first: number, record: number): DecodeError {
  return new DecodeError('record-object', `a record must be a map, not ${kindOfItem(first)}`, {
    record,
    hint: 'send an array of maps, even for a single record',
  })
}

export function labelKind(first: number, record: number): DecodeError {
  return new DecodeError('label-kind', `a label must be an integer or a text string, not ${kindOfItem(first)}`, {
    record,
    hint: 'labels are the integers -6 to 8 (RFC 8428 §6), and text for extensions',
  })
}

export function unknownInteger(label: number, record: number): DecodeError {
  return new DecodeError('label-unknown', `the integer label ${label} is not a SenML label`, {
    record,
    hint: 'the table of integer labels is closed, -6 to 8 (RFC 8428 §6); an extension uses a text label',
  })
}

export function duplicateKey(what: string, record: number): DecodeError {
  return new DecodeError('cbor-duplicate-key', `${what} is given twice`, { record, hint: 'a map contains each key once' })
}

export function onlyTextLabels(record: number): DecodeError {
  return new DecodeError('record-labels', 'it has no SenML label', {
    record,
    hint: 'in CBOR the labels are integers: bver -1, bn -2, bt -3, bu -4, bv -5, bs -6, n 0, u 1, v 2, vs 3, vb 4, s 5, t 6, ut 7, vd 8',
  })
}

export function wrongItem(bit: number, type: string, first: number, record: number): DecodeError {
  const label = nameOfBit(bit)
  return new DecodeError('label-type', `${label} must be ${type}, not ${kindOfItem(first)}`, {
    record,
    hint: `send ${label} as ${type}, or omit it`,
  })
}

export function notFinite(bit: number, record: number): DecodeError {
  return new DecodeError('number-finite', `${nameOfBit(bit)} is not a number, or beyond the range of a double`, {
    record,
    hint: 'send a number between -1.8e308 and 1.8e308; omit unknown values',
  })
}

export function versionNotUnsigned(first: number, record: number): DecodeError {
  const kind = first >> 5 === 1 ? 'negative' : kindOfItem(first)
  return new DecodeError('version-integer', `bver must be an unsigned integer, not ${kind}`, {
    record,
    hint: 'omit bver: the default is 10',
  })
}

export function badDecimal(record: Where): DecodeError {
  return new DecodeError('decimal-fraction', 'a decimal fraction is not an array of two integers', {
    ...at(record),
    hint: 'send 4([exponent, mantissa]), both integers of at most 64 bits (RFC 8949 §3.4.4)',
  })
}

export function notUtf8(record: number): DecodeError {
  return new DecodeError('utf-8', 'a text string is not UTF-8', {
    record,
    hint: 'SenML must be UTF-8: encode the text as UTF-8, or send bytes as vd',
  })
}

/** Error for content of a valid pack that the other wire format cannot express. @param record undefined if unknown */
export function noOtherForm(what: string, record?: number): DecodeError {
  return new DecodeError('other-format', `${what} cannot be expressed in the other wire format`, {
    ...(record === undefined ? {} : { record }),
    hint: 'omit it: it is not part of SenML, and readers of the pack ignore it',
  })
}

/** Quotes a label from a device in an error. */
export function quoted(label: string): string {
  return `the label ${excerpt(label)}`
}
