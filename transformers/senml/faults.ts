// What is wrong with a SenML pack, in a sentence each: kept out of the loops, which only ask whether something is.

import { DecodeError } from '../decode-error.ts'
import { excerpt } from '../excerpt.ts'
import { baseLabels, Label, type Pack, valueLabels } from './record.ts'

/** What a value is, in the words of JSON. */
function kindOf(value: unknown): string {
  if (value === null) return 'null'
  if (Array.isArray(value)) return 'an array'
  if (typeof value === 'object') return 'an object'
  return `a ${typeof value}`
}

function namesOf(labels: number): string[] {
  return Object.entries(Label).flatMap(([name, bit]) => (labels & bit ? [name] : []))
}

export function rootNotArray(root: unknown): DecodeError {
  return new DecodeError('root-array', `the root must be an array of records, and is ${kindOf(root)}`, {
    hint: 'the root must be an array; for free-form JSON use the json transformer',
  })
}

export function emptyPack(): DecodeError {
  return new DecodeError('empty-pack', 'the pack holds no record', { hint: 'send at least one record, or nothing at all' })
}

export function recordNotObject(value: unknown, record: number): DecodeError {
  return new DecodeError('record-object', `a record must be an object, and is ${kindOf(value)}`, {
    record,
    hint: 'send [{"n":"temperature","v":21.5}]: an array of objects',
  })
}

export function wrongType(label: string, type: 'string' | 'number' | 'boolean', value: unknown, record: number): DecodeError {
  if (typeof value === 'number' && type === 'number') {
    return new DecodeError('number-finite', `${label} is beyond the range of a double`, {
      record,
      hint: 'send a number between -1.8e308 and 1.8e308',
    })
  }
  return new DecodeError('label-type', `${label} must be a ${type}, and is ${kindOf(value)}`, {
    record,
    hint: `send ${label} as a ${type}, or leave it out`,
  })
}

export function mustUnderstand(label: string, record: number): DecodeError {
  return new DecodeError('must-understand', `the label ${excerpt(label)} ends in _ and is not known here`, {
    record,
    hint: 'a receiver must refuse what it does not understand in such a label; leave it out',
  })
}

export function badBase64url(record: number): DecodeError {
  return new DecodeError('data-base64url', 'vd is not base64url without padding', {
    record,
    hint: 'encode with the URL-safe alphabet (A-Z a-z 0-9 - _) and drop the = at the end (RFC 4648 §5)',
  })
}

export function noLabels(record: number): DecodeError {
  return new DecodeError('record-labels', 'it has none of the labels of SenML', {
    record,
    hint: 'labels are case-sensitive: n, u, v, vs, vb, vd, s, t, ut and bn, bt, bu, bv, bs, bver',
  })
}

export function manyValues(labels: number, record: number): DecodeError {
  const names = namesOf(labels & valueLabels)
  const list = names.length === 2 ? `both ${names.join(' and ')}` : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
  return new DecodeError('one-value', `${list}; a record has exactly one value`, { record, hint: 'send a record for each value' })
}

export function noValue(labels: number, record: number): DecodeError {
  return new DecodeError('no-value', `${namesOf(labels & ~baseLabels).join(', ')} but neither a value nor a sum`, {
    record,
    hint: 'add one of v, vs, vb, vd or s, or leave out the record',
  })
}

export function badVersion(version: number, first: number, record: number): DecodeError {
  if (!Number.isInteger(version) || version < 1) {
    return new DecodeError('version-integer', `bver must be a positive integer, and is ${version}`, {
      record,
      hint: 'leave bver out: the default is 10',
    })
  }
  if (version !== 26 && version > 10) {
    return new DecodeError('version-unknown', `bver ${version} asks for features that are not known here`, {
      record,
      hint: '10 and 26 (with secondary units, RFC 9100) are understood; leave bver out where 10 will do',
    })
  }
  return new DecodeError('version-mixed', `bver ${version}, but the pack began with ${first}; a pack has one version`, {
    record,
    hint: 'give bver in the first record only; without it the version is 10',
  })
}

export function badName(name: string, record: number): DecodeError {
  if (name === '') {
    return new DecodeError('name-empty', 'it has no name: bn and n are both empty', {
      record,
      hint: 'give n, or bn in it or a record before',
    })
  }
  if (!/^[A-Za-z0-9]/.test(name)) {
    return new DecodeError('name-start', `the name ${excerpt(name)} must begin with a letter A-Z a-z or a digit`, {
      record,
      hint: 'the rule is for bn and n joined: let bn begin so',
    })
  }
  const at = name.search(/[^A-Za-z0-9\-:./_]/)
  return new DecodeError('name-characters', `the name ${excerpt(name)} holds ${excerpt(name.charAt(at))} at ${at}`, {
    record,
    hint: 'a name holds A-Z a-z 0-9 and - : . / _ only (RFC 8428 §4.5.1)',
  })
}

export function tooManyRows(most: number, record: number): DecodeError {
  return new DecodeError('record-count', `the pack has more than ${most} records, a record with vd counted as three`, {
    record,
    hint: 'send it in several packs',
  })
}

export function tooManyContainers(most: number): DecodeError {
  return new DecodeError('container-count', `the pack has more than ${most} objects and arrays, which is too many for its size`, {
    hint: 'send it in several packs',
  })
}

export function tooManyUnknownLabels(most: number): DecodeError {
  return new DecodeError('label-count', `the pack has more than ${most} labels that are not known here`, {
    hint: 'leave them out: they are ignored',
  })
}

export function tooManyCharacters(most: number, record: number): DecodeError {
  return new DecodeError('name-size', `the records repeat bn and bu into more than ${most} characters`, {
    record,
    hint: 'shorten bn and bu',
  })
}

export function badText(label: string, text: string, record: number): DecodeError {
  return text.includes('\0')
    ? new DecodeError('text-nul', `${label} holds a NUL`, { record, hint: 'no store can keep a NUL in text; send bytes as vd' })
    : new DecodeError('text-surrogate', `${label} holds half of a surrogate pair`, {
        record,
        hint: 'a \\ud800 to \\udfff escape must come in pairs; send UTF-8 instead of escapes',
      })
}

export function tooLarge(what: string, record: number): DecodeError {
  return new DecodeError('number-overflow', `its ${what}, with the base added, is beyond the range of a double`, {
    record,
    hint: 'base and record are added; send numbers whose sum is below 1.8e308',
  })
}

export function badTime(timeUs: number, pack: Pack, record: number): DecodeError {
  const where =
    timeUs < pack.timeMinUs
      ? `before the earliest that is kept, ${pack.timeMinUs / 1e6} s`
      : `after the latest that is kept, ${pack.timeMaxUs / 1e6} s`
  return new DecodeError('time-range', `its time, ${timeUs / 1e6} s since 1970, lies ${where}`, {
    record,
    hint: "check the device's clock, and that bt and t are in seconds; a time below 2^28 counts from when the message was received",
  })
}
