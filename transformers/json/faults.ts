// The error messages for a payload of JSON documents, kept apart from the decoding loops, which only detect the faults.

import { DecodeError } from '../decode-error.ts'
import { excerpt, syntaxReason } from '../excerpt.ts'
import { depthMax, keysMax } from './limits.ts'
import type { TimeFault, TimeField } from './times/time-fields.ts'
import { unixUnits } from './times/unix-time.ts'

/** The JSON type of a value, for messages. */
function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object') return 'an object'
  return `a ${typeof value === 'bigint' ? 'number' : typeof value}`
}

export function noFormat(subtopic: string): DecodeError {
  const what = subtopic === '' ? 'the subtopic is empty' : `the subtopic ${excerpt(subtopic)} ends in an empty part`
  return new DecodeError('format-empty', `${what}, so the message has no format`, {
    hint: 'publish to a subtopic: its last part is the format under which the documents are stored; or set transformer.default_format of the writer',
  })
}

export function reservedFormat(): DecodeError {
  return new DecodeError('reserved-format', 'the format "messages" is reserved for SenML records', {
    hint: 'end the subtopic with another word, or send SenML',
  })
}

export function tooLong(bytes: number, bytesMax: number): DecodeError {
  return new DecodeError('payload-size', `the payload has ${bytes} bytes, but only ${bytesMax} are allowed`, {
    hint: 'send fewer documents per message',
  })
}

export function notUtf8(cause: unknown): DecodeError {
  return new DecodeError('utf-8', 'the payload is not UTF-8', { hint: 'JSON must be UTF-8: encode the text as UTF-8', cause })
}

export function notJson(cause: unknown): DecodeError {
  return new DecodeError('json-syntax', `the payload is not JSON: ${syntaxReason(cause)}`, { hint: 'check it with a JSON parser', cause })
}

export function badRoot(root: unknown): DecodeError {
  return new DecodeError('root-object', `the root must be an object or an array of objects, not ${kindOf(root)}`, {
    hint: 'send {"temperature":21.5}, or an array of such objects',
  })
}

export function badElement(element: unknown, record: number): DecodeError {
  return new DecodeError('element-object', `an element of the array must be an object, not ${kindOf(element)}`, {
    record,
    hint: 'each element becomes a separate message: send [{"temperature":21.5}]',
  })
}

export function tooDeep(record: number): DecodeError {
  return new DecodeError('nesting-depth', `it has more than ${depthMax} levels of objects and arrays`, {
    record,
    hint: 'reduce the nesting',
  })
}

export function tooManyKeys(): DecodeError {
  return new DecodeError('key-count', `the payload has more than ${keysMax} keys`, { hint: 'split it into several messages' })
}

export function tooManyContainers(most: number): DecodeError {
  return new DecodeError('container-count', `the payload has more than ${most} objects and arrays, which is too many for its size`, {
    hint: 'split it into several messages, or remove empty objects and arrays',
  })
}

export function badNumber(record: number): DecodeError {
  return new DecodeError('number-finite', 'it contains a number beyond the range of a double', {
    record,
    hint: 'send a number between -1.8e308 and 1.8e308, or text',
  })
}

export function badText(kind: 'nul' | 'surrogate', record: number): DecodeError {
  return kind === 'nul'
    ? new DecodeError('text-nul', 'a key or a text contains a NUL', {
        record,
        hint: 'no store can keep a NUL in text; send bytes as base64',
      })
    : new DecodeError('text-surrogate', 'a key or a text contains half of a surrogate pair', {
        record,
        hint: 'escapes from \\ud800 to \\udfff must come in pairs; send UTF-8 instead of escapes',
      })
}

export function badFormatText(subtopic: string): DecodeError {
  return new DecodeError('format-characters', `the subtopic ${excerpt(subtopic)} contains a NUL or half of a surrogate pair`, {
    hint: 'remove such characters from the subtopic',
  })
}

export function badTime(
  fault: TimeFault,
  { fieldName, fieldFormat, location = 'UTC' }: TimeField,
  value: unknown,
  record: number,
): DecodeError {
  const field = `the time field ${excerpt(fieldName)}`
  const isUnix = Object.hasOwn(unixUnits, fieldFormat)
  if (fault === 'type') {
    return new DecodeError('time-type', `${field} must be ${isUnix ? 'a number or a string' : 'a string'}, not ${kindOf(value)}`, {
      record,
      hint: `send it in the format ${excerpt(fieldFormat)}, or omit it: the time of receipt is then used`,
    })
  }
  if (fault === 'abbreviation') {
    return new DecodeError(
      'time-zone',
      `${field} is ${excerpt(String(value))}, whose abbreviation is not a time zone of ${excerpt(location)}`,
      {
        record,
        hint: 'send an offset such as +02:00; of abbreviations, only UTC, GMT, Z and those of the configured location are known',
      },
    )
  }
  return new DecodeError('time-syntax', `${field} is ${excerpt(String(value))}, which does not match the format ${excerpt(fieldFormat)}`, {
    record,
    hint: isUnix
      ? 'send digits, optionally with a fraction after a dot'
      : 'write the time like the reference time in that format; the date must exist',
  })
}

export function timeOutOfRange(us: number, minUs: number, maxUs: number, record: number): DecodeError {
  const where = us < minUs ? `before the earliest allowed, ${minUs / 1e6} s` : `after the latest allowed, ${maxUs / 1e6} s`
  const what = Number.isFinite(us) ? `its time, ${us / 1e6} s since 1970, is` : 'its time is'
  return new DecodeError('time-range', `${what} ${where}`, {
    record,
    hint: "check the device's clock and the unit of the time: unix is in seconds, unix_ms in milliseconds",
  })
}
