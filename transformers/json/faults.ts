// What is wrong with a payload of JSON documents, in a sentence each: kept out of the loops, which only ask whether something is.

import { DecodeError } from '../decode-error.ts'
import { excerpt, syntaxReason } from '../excerpt.ts'
import { depthMax, keysMax } from './limits.ts'
import type { TimeFault, TimeField } from './time-fields.ts'
import { unixUnits } from './unix-time.ts'

/** What a value is, in the words of JSON. */
function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object') return 'an object'
  return `a ${typeof value === 'bigint' ? 'number' : typeof value}`
}

export function noFormat(subtopic: string): DecodeError {
  const what = subtopic === '' ? 'the subtopic is empty' : `the subtopic ${excerpt(subtopic)} ends in an empty part`
  return new DecodeError('format-empty', `${what}, so the message has no format`, {
    hint: 'publish to a subtopic: its last part names the format, under which the documents are stored',
  })
}

export function reservedFormat(): DecodeError {
  return new DecodeError('reserved-format', 'the format "messages" is that of SenML records', {
    hint: 'let the subtopic end in another word, or send SenML',
  })
}

export function tooLong(bytes: number, bytesMax: number): DecodeError {
  return new DecodeError('payload-size', `the payload has ${bytes} bytes, and ${bytesMax} are allowed`, {
    hint: 'send fewer documents at once',
  })
}

export function notUtf8(cause: unknown): DecodeError {
  return new DecodeError('utf-8', 'the payload is not UTF-8', { hint: 'JSON is UTF-8 only; encode the text so before sending it', cause })
}

export function notJson(cause: unknown): DecodeError {
  return new DecodeError('json-syntax', `the payload is not JSON: ${syntaxReason(cause)}`, { hint: 'check it with a JSON parser', cause })
}

export function badRoot(root: unknown): DecodeError {
  return new DecodeError('root-object', `the root must be an object or an array of objects, and is ${kindOf(root)}`, {
    hint: 'send {"temperature":21.5}, or several of them in an array',
  })
}

export function badElement(element: unknown, record: number): DecodeError {
  return new DecodeError('element-object', `an element of the array must be an object, and is ${kindOf(element)}`, {
    record,
    hint: 'each element becomes a message of its own: send [{"temperature":21.5}]',
  })
}

export function tooDeep(record: number): DecodeError {
  return new DecodeError('nesting-depth', `it has more than ${depthMax} levels of objects and arrays`, {
    record,
    hint: 'send fewer levels',
  })
}

export function tooManyKeys(): DecodeError {
  return new DecodeError('key-count', `the payload has more than ${keysMax} keys`, { hint: 'send it in several messages' })
}

export function tooManyContainers(most: number): DecodeError {
  return new DecodeError('container-count', `the payload has more than ${most} objects and arrays, which is too many for its size`, {
    hint: 'send it in several messages, or give those that are empty something to hold',
  })
}

export function badNumber(record: number): DecodeError {
  return new DecodeError('number-finite', 'it holds a number beyond the range of a double', {
    record,
    hint: 'send a number between -1.8e308 and 1.8e308, or text',
  })
}

export function badText(kind: 'nul' | 'surrogate', record: number): DecodeError {
  return kind === 'nul'
    ? new DecodeError('text-nul', 'a key or a text holds a NUL', { record, hint: 'no store can keep a NUL in text; send bytes as base64' })
    : new DecodeError('text-surrogate', 'a key or a text holds half of a surrogate pair', {
        record,
        hint: 'a \\ud800 to \\udfff escape must come in pairs; send UTF-8 instead of escapes',
      })
}

export function badFormatText(subtopic: string): DecodeError {
  return new DecodeError('format-characters', `the subtopic ${excerpt(subtopic)} holds a NUL or half of a surrogate pair`, {
    hint: 'leave such characters out of the subtopic',
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
    return new DecodeError('time-type', `${field} must be ${isUnix ? 'a number or a string' : 'a string'}, and is ${kindOf(value)}`, {
      record,
      hint: `send it in the format ${excerpt(fieldFormat)}, or leave it out: the time is then the one at which the message was received`,
    })
  }
  if (fault === 'abbreviation') {
    return new DecodeError('time-zone', `${field} holds ${excerpt(String(value))}, which names no time zone of ${excerpt(location)}`, {
      record,
      hint: 'UTC, GMT, Z and the abbreviations of the configured location are known; better, send an offset such as +02:00',
    })
  }
  return new DecodeError('time-syntax', `${field} holds ${excerpt(String(value))}, which is not in the format ${excerpt(fieldFormat)}`, {
    record,
    hint: isUnix
      ? 'send digits, with a fraction behind a dot where needed'
      : 'send it as the reference time is written in that format; a date must exist',
  })
}

export function timeOutOfRange(us: number, minUs: number, maxUs: number, record: number): DecodeError {
  const where = us < minUs ? `before the earliest that is kept, ${minUs / 1e6} s` : `after the latest that is kept, ${maxUs / 1e6} s`
  const what = Number.isFinite(us) ? `its time, ${us / 1e6} s since 1970, lies` : 'its time lies'
  return new DecodeError('time-range', `${what} ${where}`, {
    record,
    hint: "check the device's clock, and the unit of the time: unix is in seconds, unix_ms in milliseconds",
  })
}
