// The time of a document: from which field, and from which numbers (SPEC §2, transformer rule 1).

import { describe, expect, test } from 'vitest'
import { openJsonDocuments } from '../../../../transformers/json/documents.ts'
import { type TimeField, timeFieldsOf } from '../../../../transformers/json/times/time-fields.ts'
import { anyTime, createdNs, createdUs, envelope, faultOf, rowsOf, timeOf } from '../rows.ts'

const unix: TimeField = { fieldName: 't', fieldFormat: 'unix' }
const second = 1_000_000_000n

function times(payload: string, ...timeFields: TimeField[]): bigint[] {
  return rowsOf(payload, openJsonDocuments({ timeFields, bounds: anyTime })).map(row => row.createdNs)
}

describe('the field', () => {
  test('gives the time and stays in the payload', () => {
    const transformer = openJsonDocuments({ timeFields: [unix] })
    expect(rowsOf('{"t":1600000000,"v":1}', transformer)).toEqual([
      { index: 0, format: 'room', createdNs: 1_600_000_000n * second, payload: { t: 1_600_000_000, v: 1 } },
    ])
  })

  test('is read in each element: the time of one is never that of the next', () => {
    expect(times('[{"t":1600000000},{},{"t":1500000000},{"v":1}]', unix)).toEqual([
      1_600_000_000n * second,
      createdNs,
      1_500_000_000n * second,
      createdNs,
    ])
  })

  test('absent from all: the time of the message, to the nanosecond', () => {
    expect(times('{"T":1,"v":{"t":5},"w":[{"t":6}]}', unix)).toEqual([createdNs])
  })

  test('is the first configured one that exists, whatever the order in the document', () => {
    const fields: TimeField[] = [
      { fieldName: 'a', fieldFormat: 'unix' },
      { fieldName: 'b', fieldFormat: 'unix_ms' },
    ]
    expect(times('[{"b":2000,"a":1},{"b":2000},{"a":1}]', ...fields)).toEqual([second, 2n * second, second])
  })

  test('that exists is never skipped for the next one: it must be valid', () => {
    const fields: TimeField[] = [
      { fieldName: 'a', fieldFormat: 'unix' },
      { fieldName: 'b', fieldFormat: 'unix' },
    ]
    expect(faultOf('{"a":null,"b":1600000000}', openJsonDocuments({ timeFields: fields }))).toBe(
      'time-type: record 0: the time field "a" must be a number or a string, not null',
    )
  })

  test.each(['constructor', 'toString', '__proto__'])('may be called %s, and does not exist by default', fieldName => {
    const field = { fieldName, fieldFormat: 'unix' }
    expect(times('{}', field)).toEqual([createdNs])
    expect(times(`{"${fieldName}":5}`, field)).toEqual([5n * second])
  })

  test('one invalid time refuses the whole payload, with the index', () => {
    expect(faultOf('[{"t":1600000000},{"t":"soon"}]', openJsonDocuments({ timeFields: [unix] }))).toBe(
      'time-syntax: record 1: the time field "t" is "soon", which does not match the format "unix"',
    )
  })
})

describe('unix times', () => {
  test.each([
    ['unix', '1638310819', 1638310819_000_000_000n],
    ['unix_ms', '1638310819123', 1638310819_123_000_000n],
    ['unix_us', '1638310819123456', 1638310819_123_456_000n],
    ['unix_ns', '1638310819123456789', 1638310819_123_456_789n],
    ['unix', '1638310819.123', 1638310819_123_000_000n],
    ['unix', '1638310819.123456789', 1638310819_123_456_789n],
    ['unix', '1638310819.1234567899999', 1638310819_123_456_789n],
    ['unix_ms', '1638310819123.456789', 1638310819_123_456_789n],
    ['unix_ms', '1638310819123.4567899', 1638310819_123_456_789n],
    ['unix_us', '1638310819123456.789', 1638310819_123_456_789n],
    ['unix_ns', '1638310819123456789.9', 1638310819_123_456_789n],
    ['unix', '1.638310819e9', 1638310819_000_000_000n],
    ['unix', '1638310819123456789E-9', 1638310819_123_456_789n],
    ['unix_ns', '1.638310819123456789e+18', 1638310819_123_456_789n],
    ['unix', '1600000000.0000000019', 1600000000_000_000_001n],
    ['unix_us', '1600000000.0000001e6', 1600000000_000_000_100n],
    ['unix', '0', 0n],
    ['unix', '-0', 0n],
    ['unix', '0.000000000000000000e999999999', 0n],
    ['unix', '-1', -1_000_000_000n],
    ['unix', '-0.0000000015', -1n],
    ['unix', '-1.5', -1_500_000_000n],
    ['unix_ns', '-1', -1n],
    ['unix_ns', '-1500', -1500n],
    ['unix', '1e-300', 0n],
  ])('%s: the number %s is read exactly', (format, number, ns) => {
    expect(timeOf(number, format)).toBe(ns)
  })

  test.each([
    ['unix', '1638310819', 1638310819_000_000_000n],
    ['unix', '1638310819.5', 1638310819_500_000_000n],
    ['unix', '1638310819,123456789', 1638310819_123_456_789n],
    ['unix', '+1638310819', 1638310819_000_000_000n],
    ['unix', '-2.25', -2_250_000_000n],
    ['unix', '0001', 1_000_000_000n],
    ['unix_ms', '1638310819123,456', 1638310819_123_456_000n],
    ['unix_ns', '1638310819123456789', 1638310819_123_456_789n],
    ['unix_ns', '9007199254740993', 9007199254740993n],
  ])('%s: the string %s is read exactly', (format, text, ns) => {
    expect(timeOf(JSON.stringify(text), format)).toBe(ns)
  })

  test.each(['', ' ', ' 1', '1 ', '1.', '.5', '1.2.3', '1,2,3', '1e9', '0x10', '--1', '1_000', 'now', '１', '2023-11-14T22:13:20Z'])(
    'time-syntax: the string %j is refused',
    text => {
      expect(timeOf(JSON.stringify(text), 'unix')).toBe('time-syntax')
    },
  )

  test.each(['null', 'true', 'false', '{}', '[]', '[1600000000]', '{"t":1}'])('time-type: %s is refused', value => {
    expect(timeOf(value, 'unix_ms')).toBe('time-type')
  })

  test('of a duplicate field the last one counts, with its digits', () => {
    expect(times('{"t":1638310819.000000001,"t":1638310819.123456789}', unix)).toEqual([1638310819_123_456_789n])
    expect(times('{"t":1638310819.123456789,"t":"1"}', unix)).toEqual([second])
    expect(times('{"t":1638310819.123456789,"t":1.5}', unix)).toEqual([1_500_000_000n])
  })

  test("digits are those of the element's own field, not of one below it, of a text, or of another element", () => {
    const payload =
      '[{"d":{"t":1638310819.111111111},"x":"t","a":["t",1638310819.222222222],"t" : 1638310819.333333333 },{"\\u0074":1638310819.444444444},{"t":2.5}]'
    expect(times(payload, unix)).toEqual([1638310819_333_333_333n, 1638310819_444_444_444n, 2_500_000_000n])
    expect(times('\ufeff {"s":"\\"t\\":1.0000000000000000001","t":1638310819.333333333,"e\\\\":1}', unix)).toEqual([
      1638310819_333_333_333n,
    ])
  })

  test('a field whose name is written with an escape keeps its digits', () => {
    expect(times('{"a\\"\\\\b":1638310819.333333333}', { fieldName: 'a"\\b', fieldFormat: 'unix' })).toEqual([1638310819_333_333_333n])
    expect(times('{"a\\\\n":1638310819.333333333,"a\\n":1}', { fieldName: 'a\n', fieldFormat: 'unix' })).toEqual([second])
    expect(times('{"a\\\\n":1.5,"a\\n":1638310819.333333333}', { fieldName: 'a\\n', fieldFormat: 'unix' })).toEqual([1_500_000_000n])
  })
})

test.each(['1.2345678901234567e-18014398509481984', '0.0000000000000000e9007199254740992', '0.00000000000000000e36028797018963968'])(
  'an exponent beyond the safe integers, %s, is accepted',
  text => {
    expect(times(`{"t":${text}}`, unix)).toEqual([0n])
  },
)

describe('time-range', () => {
  const transformer = openJsonDocuments({ timeFields: [unix] })

  test.each([
    [2 ** 28, 'the earliest'],
    [createdUs / 1e6 + 366 * 86_400, 'the latest'],
  ])('%d s is %s that is accepted by default', seconds => {
    expect(rowsOf(`{"t":${seconds}}`, transformer)).toHaveLength(1)
  })

  test.each(['268435455.999999', '0', '-1', '1731622400.000001', '1e15', '-1e300', '9999999999999999999999'])(
    '%s s is refused',
    seconds => {
      expect(faultOf(`[{},{"t":${seconds}}]`, transformer)).toMatch(
        /^time-range: record 1: its time.* is (before|after) the (earliest|latest) allowed, \d+ s$/,
      )
    },
  )

  test('no configuration extends the bounds beyond ±2^53 µs', () => {
    expect(timeOf('9007199254.740991', 'unix')).toBe(9007199254740991000n)
    expect(timeOf('-9007199254.740991', 'unix')).toBe(-9007199254740991000n)
    expect(timeOf('9007199254.740992', 'unix')).toBe('time-range')
    expect(timeOf('-9007199254.740992', 'unix')).toBe('time-range')
    expect(timeOf('"9999-12-31T23:59:59Z"', 'rfc3339')).toBe('time-range')
    expect(timeOf('"0000-01-01 00:00:00"', '2006-01-02 15:04:05', 'Europe/Berlin')).toBe('time-range')
  })

  test("the bounds are relative to the message's own time", () => {
    const later = { ...envelope, createdUs: createdUs + 1e15 }
    expect(rowsOf('{"t":2700000000}', transformer, later)).toHaveLength(1)
    expect(faultOf('{"t":2700000000}', transformer)).toMatch(/^time-range: /)
  })
})

describe('time fields of a configuration', () => {
  test('become time fields', () => {
    expect(
      timeFieldsOf([
        { field_name: 't', field_format: 'unix_ms' },
        { field_name: 'at', field_format: '2006-01-02 15:04', location: 'Europe/Berlin' },
      ]),
    ).toEqual([
      { fieldName: 't', fieldFormat: 'unix_ms' },
      { fieldName: 'at', fieldFormat: '2006-01-02 15:04', location: 'Europe/Berlin' },
    ])
    expect(timeFieldsOf([])).toEqual([])
  })

  test.each<[unknown, RegExp]>([
    ['t,unix', /it is not an object: write \{ field_name, field_format, location \}/],
    [{ field_name: 't', field_formt: 'unix' }, /the key "field_formt" is unknown: the keys are field_name, field_format, location/],
    [{ field_format: 'unix' }, /field_name must be a string/],
    [{ field_name: 't' }, /field_format must be a string, such as unix_ms or rfc3339/],
    [{ field_name: 't', field_format: 'unix', location: 1 }, /location must be a string, such as Europe\/Berlin/],
    [{ field_name: '', field_format: 'unix' }, /a time field has no field_name/],
    [
      { field_name: 't', field_format: 'unixms' },
      /the field_format "unixms" of the time field "t" is not a time format: give one of unix, unix_ms,/,
    ],
    [
      { field_name: 't', field_format: 'rfc3339', location: 'Mars/Olympus' },
      /the location "Mars\/Olympus" of the time field "t" is unknown/,
    ],
  ])('%j is refused, with its place and what to write', (entry, message) => {
    const open = () => timeFieldsOf([{ field_name: 'first', field_format: 'unix' }, entry])
    expect(open).toThrow(RangeError)
    expect(open).toThrow(message)
    expect(open).toThrow(/^time field 1: /)
  })

  test('an unknown format or location is a RangeError when the transformer is opened', () => {
    expect(() => openJsonDocuments({ timeFields: [{ fieldName: 't', fieldFormat: 'UNIX' }] })).toThrow(RangeError)
    expect(() => openJsonDocuments({ timeFields: [{ ...unix, location: 'Europe/Berlin2' }] })).toThrow(RangeError)
  })
})
