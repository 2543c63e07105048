// The keys of records and documents in answers: capitals, as the specification has them; lower case; or capitals, and beside them those that
// clients of the origin cannot tell from their capitals.

import type { Compatibility } from '../config/http/older-clients.ts'
import { part } from './json-bytes.ts'

/** Older clients read keys without regard to case, and do not find `UpdateTime` under `update_time`. */
export const recordKeysOf = (compatibility: Compatibility): RecordKeys => (compatibility === 'none' ? 'capitals' : 'both')

export type RecordKeys = 'capitals' | 'lower' | 'both'

const names = {
  channel: ['Channel', 'channel'],
  subtopic: ['Subtopic', 'subtopic'],
  publisher: ['Publisher', 'publisher'],
  protocol: ['Protocol', 'protocol'],
  name: ['Name', 'name'],
  unit: ['Unit', 'unit'],
  time: ['Time', 'time'],
  updateTime: ['UpdateTime', 'update_time'],
  value: ['Value', 'value'],
  stringValue: ['StringValue', 'string_value'],
  boolValue: ['BoolValue', 'bool_value'],
  dataValue: ['DataValue', 'data_value'],
  sum: ['Sum', 'sum'],
  created: ['Created', 'created'],
  payload: ['Payload', 'payload'],
  count: ['Count', 'count'],
} as const
type Key = keyof typeof names

/** The keys as they are written, each with what comes before and behind it. Where there are two, the value stands behind each. */
export interface KeyParts {
  readonly channel: Uint8Array
  readonly subtopic: Uint8Array
  readonly publisher: Uint8Array
  readonly protocol: Uint8Array
  readonly name: Uint8Array
  readonly unit: Uint8Array
  readonly time: Uint8Array
  readonly updateTime: readonly Uint8Array[]
  readonly value: Uint8Array
  readonly stringValue: readonly Uint8Array[]
  readonly true: readonly Uint8Array[]
  readonly false: readonly Uint8Array[]
  /** With the quote that opens the text. */
  readonly dataValue: readonly Uint8Array[]
  readonly sum: Uint8Array
}

/** The key as it stands in an answer; that of `both` is the capital one. */
export function keyName(key: Key, keys: RecordKeys = 'capitals'): string {
  return names[key][keys === 'lower' ? 1 : 0]
}

function partsOf(keys: RecordKeys): KeyParts {
  const one = (key: Key, behind = ':'): Uint8Array => part(`${key === 'channel' ? '{' : ','}"${keyName(key, keys)}"${behind}`)
  const all = (key: Key, behind = ':'): Uint8Array[] =>
    keys === 'both' ? names[key].map(name => part(`,"${name}"${behind}`)) : [one(key, behind)]
  return {
    channel: one('channel'),
    subtopic: one('subtopic'),
    publisher: one('publisher'),
    protocol: one('protocol'),
    name: one('name'),
    unit: one('unit'),
    time: one('time'),
    updateTime: all('updateTime'),
    value: one('value'),
    stringValue: all('stringValue'),
    true: all('boolValue', ':true'),
    false: all('boolValue', ':false'),
    dataValue: all('dataValue', ':"'),
    sum: one('sum'),
  }
}

const parts = { capitals: partsOf('capitals'), lower: partsOf('lower'), both: partsOf('both') }

export function keyParts(keys: RecordKeys = 'capitals'): KeyParts {
  return parts[keys]
}
