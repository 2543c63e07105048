// The error messages for a SenML pack, kept apart from the decoding loops, which only detect the faults.

import { DecodeError } from '../decode-error.ts'
import { excerpt } from '../excerpt.ts'
import { baseLabels, Label, type Pack, valueLabels } from './record.ts'

/** The JSON type of a value, for messages. */
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
  return new DecodeError('root-array', `the root must be an array of records, not ${kindOf(root)}`, {
    hint: 'send an array; for free-form JSON use the json transformer',
  })
}

export function emptyPack(): DecodeError {
  return new DecodeError('empty-pack', 'the pack contains no record', { hint: 'send at least one record, or nothing at all' })
}

export function recordNotObject(value: unknown, record: number): DecodeError {
  return new DecodeError('record-object', `a record must be an object, not ${kindOf(value)}`, {
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
  return new DecodeError('label-type', `${label} must be a ${type}, not ${kindOf(value)}`, {
    record,
    hint: `send ${label} as a ${type}, or omit it`,
  })
}

export function mustUnderstand(label: string, record: number): DecodeError {
  return new DecodeError('must-understand', `the label ${excerpt(label)} ends in _ and is unknown`, {
    record,
    hint: 'a receiver must reject an unknown label that ends in _; omit it',
  })
}

export function badBase64url(record: number): DecodeError {
  return new DecodeError('data-base64url', 'vd is not base64url without padding', {
    record,
    hint: 'encode with the URL-safe alphabet (A-Z a-z 0-9 - _) and drop the = at the end (RFC 4648 §5)',
  })
}

export function noLabels(record: number): DecodeError {
  return new DecodeError('record-labels', 'it has no SenML label', {
    record,
    hint: 'labels are case-sensitive: n, u, v, vs, vb, vd, s, t, ut and bn, bt, bu, bv, bs, bver',
  })
}

export function manyValues(labels: number, record: number): DecodeError {
  const names = namesOf(labels & valueLabels)
  const list = names.length === 2 ? `both ${names.join(' and ')}` : `${names.slice(0, -1).join(', ')} and ${names.at(-1)}`
  return new DecodeError('one-value', `${list}; a record has exactly one value`, { record, hint: 'send one record per value' })
}

export function noValue(labels: number, record: number): DecodeError {
  return new DecodeError('no-value', `${namesOf(labels & ~baseLabels).join(', ')} but neither a value nor a sum`, {
    record,
    hint: 'add one of v, vs, vb, vd or s, or omit the record',
  })
}

export function badVersion(version: number, first: number, record: number): DecodeError {
  if (!Number.isInteger(version) || version < 1) {
    return new DecodeError('version-integer', `bver must be a positive integer, not ${version}`, {
      record,
      hint: 'omit bver: the default is 10',
    })
  }
  if (version !== 26 && version > 10) {
    return new DecodeError('version-unknown', `bver ${version} requires unknown features`, {
      record,
      hint: '10 and 26 (with secondary units, RFC 9100) are supported; omit bver if 10 is enough',
    })
  }
  return new DecodeError('version-mixed', `bver is ${version}, but the pack started with ${first}; a pack has one version`, {
    record,
    hint: 'set bver in the first record only; without it the version is 10',
  })
}

export function badName(name: string, record: number): DecodeError {
  if (name === '') {
    return new DecodeError('name-empty', 'it has no name: bn and n are both empty', {
      record,
      hint: 'set n, or bn in this or an earlier record',
    })
  }
  if (!/^[A-Za-z0-9]/.test(name)) {
    return new DecodeError('name-start', `the name ${excerpt(name)} must start with a letter A-Z a-z or a digit`, {
      record,
      hint: 'the rule applies to bn and n joined: start bn with one',
    })
  }
  const at = name.search(/[^A-Za-z0-9\-:./_]/)
  return new DecodeError('name-characters', `the name ${excerpt(name)} contains ${excerpt(name.charAt(at))} at ${at}`, {
    record,
    hint: 'a name may contain only A-Z a-z 0-9 and - : . / _ (RFC 8428 §4.5.1)',
  })
}

export function tooManyRows(most: number, record: number): DecodeError {
  return new DecodeError('record-count', `the pack has more than ${most} records, where a record with vd counts as three`, {
    record,
    hint: 'split it into several packs',
  })
}

export function tooManyContainers(most: number): DecodeError {
  return new DecodeError('container-count', `the pack has more than ${most} objects and arrays, which is too many for its size`, {
    hint: 'split it into several packs',
  })
}

export function tooManyUnknownLabels(most: number): DecodeError {
  return new DecodeError('label-count', `the pack has more than ${most} unknown labels`, {
    hint: 'omit them: they are ignored',
  })
}

export function tooManyCharacters(most: number, record: number): DecodeError {
  return new DecodeError('name-size', `bn and bu repeated in all records have more than ${most} characters`, {
    record,
    hint: 'shorten bn and bu',
  })
}

export function badText(label: string, text: string, record: number): DecodeError {
  return text.includes('\0')
    ? new DecodeError('text-nul', `${label} contains a NUL`, { record, hint: 'no store can keep a NUL in text; send bytes as vd' })
    : new DecodeError('text-surrogate', `${label} contains half of a surrogate pair`, {
        record,
        hint: 'escapes from \\ud800 to \\udfff must come in pairs; send UTF-8 instead of escapes',
      })
}

export function tooLarge(what: string, record: number): DecodeError {
  return new DecodeError('number-overflow', `its ${what}, with the base added, is beyond the range of a double`, {
    record,
    hint: 'the base is added to the record; send numbers whose sum is below 1.8e308',
  })
}

export function badTime(timeUs: number, pack: Pack, record: number): DecodeError {
  const where =
    timeUs < pack.timeMinUs
      ? `before the earliest allowed, ${pack.timeMinUs / 1e6} s`
      : `after the latest allowed, ${pack.timeMaxUs / 1e6} s`
  return new DecodeError('time-range', `its time, ${timeUs / 1e6} s since 1970, is ${where}`, {
    record,
    hint: "check the device's clock, and that bt and t are in seconds; a time below 2^28 is relative to the time of receipt",
  })
}
