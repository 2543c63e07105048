// The keys of records and documents in responses: capitals, as in the specification; lower case; or capitals plus those lower-case keys that
// clients of the origin would not find otherwise.

import type { Compatibility } from '../../http/older-clients.ts'
import { part } from './json-bytes.ts'

/** Older clients ignore the case of keys, but do not recognize `UpdateTime` as `update_time`. */
export const recordKeysOf = (compatibility: Compatibility): RecordKeys => (compatibility === 'none' ? 'capitals' : 'both')

/** The keys of records; `both` adds lower-case ones for those capitals that older clients do not recognize. */
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

/** The key as text; for `both` the one in capitals. */
export function keyName(key: Key, keys: RecordKeys = 'capitals'): string {
  return names[key][keys === 'lower' ? 1 : 0]
}

/** The keys as bytes, each with its surrounding punctuation. If there are two, the value is written after each. */
function keyPartsOf(keys: RecordKeys) {
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
    /** Includes the opening quote of the value. */
    dataValue: all('dataValue', ':"'),
    sum: one('sum'),
  }
}

export type KeyParts = ReturnType<typeof keyPartsOf>

const parts = { capitals: keyPartsOf('capitals'), lower: keyPartsOf('lower'), both: keyPartsOf('both') }

/** The keys of records as bytes, created once. */
export function keyParts(keys: RecordKeys = 'capitals'): KeyParts {
  return parts[keys]
}
