// The canonical answer, byte for byte.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { secondsText } from '../../../readers/answers/json-bytes.ts'
import { bucketsJson, linesBytes, rowJson, rowsBytes } from '../../../readers/answers/record-json.ts'
import type { RecordKeys } from '../../../readers/answers/record-keys.ts'
import type { DocumentRow, SenmlRow } from '../../../readers/reader.ts'
import { bare, type FullRecord, full, origin, pageText, rowsText } from './page-text.ts'

const head = '{"Channel":"c","Subtopic":"","Publisher":"p","Protocol":"http","Name":"n"'

test('a record has its keys in a fixed order', () => {
  expect(rowJson(full)).toBe(
    `${head},"Unit":"Cel","Time":1600000000,"UpdateTime":30,"Value":21.5,"StringValue":"s","BoolValue":true,"DataValue":"_-8","Sum":4}`,
  )
})

test('`lower` has only keys in lower case; `both` has the capitals, and those in lower case that differ by more than case', () => {
  const full: SenmlRow = { ...bare, updateTime: 30, stringValue: 's\u00e9', boolValue: false, dataValue: new Uint8Array([0xff]) }
  const body = (keys: RecordKeys): string => rowsBytes([full, full], false, keys).toString().split('},')[1]!
  expect(body('lower')).toBe(
    '{"channel":"c","subtopic":"","publisher":"p","protocol":"http","name":"n","time":1600000000,"update_time":30,"string_value":"s\u00e9","bool_value":false,"data_value":"_w"}',
  )
  expect(body('both')).toBe(
    `${head},"Time":1600000000,"UpdateTime":30,"update_time":30,"StringValue":"s\u00e9","string_value":"s\u00e9","BoolValue":false,"bool_value":false,"DataValue":"_w","data_value":"_w"}`,
  )
})

test.each(['capitals', 'lower', 'both'] as const)('texts of any size fit with keys %s', keys => {
  const text = '\u0001'.repeat(70_000)
  const [row] = JSON.parse(`[${rowsBytes([{ ...bare, stringValue: text, dataValue: Buffer.alloc(70_000) }], false, keys).toString()}]`)
  for (const name of keys === 'both' ? ['StringValue', 'string_value'] : [keys === 'lower' ? 'string_value' : 'StringValue'])
    expect(row[name]).toBe(text)
})

test.each(['capitals', 'lower', 'both'] as const)('a long text fits in any field with keys %s', keys => {
  const text = '\u0001'.repeat(5_000)
  for (const [field, value] of Object.entries(full)) {
    if (typeof value !== 'string' || field === 'kind') continue
    const row = JSON.parse(rowsBytes([{ ...bare, [field]: text }], false, keys).toString()) as object
    expect(Object.values(row), field).toContain(text)
  }
})

test('documents and buckets have their keys in lower case as well', () => {
  const document: DocumentRow = { kind: 'document', ...origin, createdNs: 5n, payloadText: '{"A":1}' }
  expect(linesBytes([document], 'lower').toString()).toBe(
    '{"channel":"c","subtopic":"","publisher":"p","protocol":"http","created":5,"payload":{"A":1}}\n',
  )
  const bucket = { channel: 'c', publisher: 'p', subtopic: '', name: 'n', unit: 'V', timeUs: 1_000_000, value: 2, count: 3 }
  expect(bucketsJson([bucket], ',', 'lower')).toBe(
    '{"channel":"c","publisher":"p","subtopic":"","name":"n","unit":"V","time":1,"value":2,"count":3}',
  )
})

test('missing values are left out', () => {
  expect(rowJson(bare)).toBe(`${head},"Time":1600000000}`)
})

test('0, false and the empty text are not missing', () => {
  const empty: FullRecord = {
    ...bare,
    unit: '',
    updateTime: 0,
    value: 0,
    stringValue: '',
    boolValue: false,
    dataValue: new Uint8Array(),
    sum: 0,
  }
  expect(rowJson(empty)).toBe(
    `${head},"Unit":"","Time":1600000000,"UpdateTime":0,"Value":0,"StringValue":"","BoolValue":false,"DataValue":"","Sum":0}`,
  )
})

test('text is escaped: nothing that a device sends can break out', () => {
  const text = rowJson({ ...bare, subtopic: 'a"b', name: '\\"},{', stringValue: '\u2028\n\u0000"' })
  expect(JSON.parse(text)).toMatchObject({ Subtopic: 'a"b', Name: '\\"},{', StringValue: '\u2028\n\u0000"' })
})

test("only the data's own view of its buffer is printed", () => {
  const view = new Uint8Array([1, 2, 3, 4]).subarray(1, 3)
  expect(rowJson({ ...bare, dataValue: view })).toContain('"DataValue":"AgM"')
})

const times: [timeUs: number, text: string][] = [
  [0, '0'],
  [1, '0.000001'],
  [-1, '-0.000001'],
  [1_600_000_000_000_000, '1600000000'],
  [1_600_000_000_250_000, '1600000000.25'],
  [1_600_000_000_000_001, '1600000000.000001'],
  [1_600_000_000_999_999, '1600000000.999999'],
  [-1_500_000, '-1.5'],
  [-500_000, '-0.5'],
  [2 ** 33 * 1_000_000, '8589934592'],
  [2 ** 33 * 1_000_000 - 1, '8589934591.999999'],
  [-(2 ** 33) * 1_000_000 - 1, '-8589934592.000001'],
  [9_000_000_000_100_000, '9000000000.1'],
  [Number.MAX_SAFE_INTEGER, '9007199254.740991'],
  [Number.MIN_SAFE_INTEGER, '-9007199254.740991'],
]

test.each(times)('%i µs are printed as %s seconds', (timeUs, text) => {
  expect(secondsText(timeUs)).toBe(text)
})

test('every microsecond can be read back from its seconds', () => {
  fc.assert(
    fc.property(fc.maxSafeInteger(), timeUs => {
      const text = secondsText(timeUs)
      expect(text).toMatch(/^-?(0|[1-9]\d*)(\.\d{0,5}[1-9])?$/)
      const [seconds, decimals = ''] = text.replace('-', '').split('.')
      expect(BigInt(seconds + decimals.padEnd(6, '0'))).toBe(BigInt(Math.abs(timeUs)))
      expect(text.startsWith('-')).toBe(timeUs < 0)
    }),
  )
})

const numbers: [value: number, text: string][] = [
  [-0, '0'],
  [1e21, '1e+21'],
  [1e-7, '1e-7'],
  [0.1 + 0.2, '0.30000000000000004'],
  [5e-324, '5e-324'],
  [Number.MAX_VALUE, '1.7976931348623157e+308'],
]

test.each(numbers)('the value %d is printed as %s', (value, text) => {
  expect(rowJson({ ...bare, value })).toBe(`${head},"Time":1600000000,"Value":${text}}`)
})

const document: DocumentRow = {
  kind: 'document',
  ...origin,
  createdNs: 1_638_310_819_123_456_789n,
  payloadText: '{"b": 1, "a": {"d": 2, "c": []}}',
}

test('a document has its keys in a fixed order, every digit of Created, and its payload sorted', () => {
  expect(rowJson(document)).toBe(
    '{"Channel":"c","Subtopic":"","Publisher":"p","Protocol":"http","Created":1638310819123456789,"Payload":{"a":{"c":[],"d":2},"b":1}}',
  )
})

test('a page describes its request, and its records follow in order', () => {
  const rows = [bare, { ...bare, name: 'm' }]
  expect(pageText({ total: { total: 7, isExact: true }, offset: 3, limit: 2, format: 'messages' }, rows)).toBe(
    `{"total":7,"offset":3,"limit":2,"format":"messages","messages":[${rowJson(bare)},${rowJson({ ...bare, name: 'm' })}]}`,
  )
})

test('each row names its origin', () => {
  const rows = [
    bare,
    bare,
    { ...bare, subtopic: 's' },
    { ...bare, subtopic: 's', publisher: 'q' },
    { ...bare, subtopic: 's', publisher: 'q', protocol: 'mqtt' },
    { ...bare, channel: 'd', subtopic: 's', publisher: 'q', protocol: 'mqtt' },
    bare,
  ]
  const text = pageText({ total: { total: 7, isExact: true }, offset: 0, limit: 10, format: 'messages' }, rows)
  expect(text).toContain(`[${rows.map(rowJson).join(',')}]`)
})

test('an empty page is a page', () => {
  expect(pageText({ total: { total: 0, isExact: true }, offset: 0, limit: 10, format: 'a"b' }, [])).toBe(
    '{"total":0,"offset":0,"limit":10,"format":"a\\"b","messages":[]}',
  )
})

test('a total that was not counted completely is marked', () => {
  expect(pageText({ total: { total: 10_000, isExact: false }, offset: 0, limit: 1, format: 'messages' }, [bare])).toContain(
    '{"total":10000,"total_is_lower_bound":true,"offset":0',
  )
})

test('without a count there is no total, and the next page comes last', () => {
  expect(pageText({ total: undefined, offset: 0, limit: 'all', format: 'messages', nextCursor: 'abc' }, [])).toBe(
    '{"offset":0,"limit":"all","format":"messages","messages":[],"next_cursor":"abc"}',
  )
})

test('rows in any order are printed like JSON.stringify prints each', () => {
  const text = fc.oneof(fc.constantFrom('', 'a', 'b"', 'é'), fc.string({ unit: 'binary', maxLength: 12 }))
  const few = fc.constantFrom('', 'x', 'y', '"', 'ü')
  const optional = <Value>(value: fc.Arbitrary<Value>) => fc.option(value, { nil: undefined })
  const number = fc.oneof(
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer({ min: -200_000, max: 200_000 }).map(thousandths => thousandths / 1000),
  )
  const row = fc.record<SenmlRow>({
    kind: fc.constant('senml'),
    channel: few,
    subtopic: few,
    publisher: few,
    protocol: fc.constantFrom('http', 'mqtt'),
    position: fc.constant(0n),
    index: fc.constant(0),
    name: text,
    unit: optional(text),
    timeUs: fc.integer({ min: -(10 ** 15), max: 10 ** 15 }),
    value: optional(number),
    stringValue: optional(text),
    boolValue: optional(fc.boolean()),
    dataValue: optional(fc.uint8Array({ maxLength: 5 })),
    sum: optional(number),
    updateTime: optional(number),
  })
  const expected = (of: SenmlRow): string =>
    JSON.stringify({
      Channel: of.channel,
      Subtopic: of.subtopic,
      Publisher: of.publisher,
      Protocol: of.protocol,
      Name: of.name,
      Unit: of.unit,
      Time: of.timeUs / 1e6,
      UpdateTime: of.updateTime,
      Value: of.value,
      StringValue: of.stringValue,
      BoolValue: of.boolValue,
      DataValue: of.dataValue === undefined ? undefined : Buffer.from(of.dataValue).toString('base64url'),
      Sum: of.sum,
    }).replace(
      /("Time":)(-?)(\d+)e-(\d)/,
      (_all, key: string, sign: string, digits: string, power: string) => `${key}${sign}0.${digits.padStart(Number(power), '0')}`,
    )
  fc.assert(
    // Rows that differ in their publisher alone, and rows that differ in anything.
    fc.property(fc.array(fc.tuple(row, fc.array(fc.oneof(few, text), { minLength: 1, maxLength: 5 })), { maxLength: 4 }), some => {
      const rows = some.flatMap(([one, publishers]) => publishers.map(publisher => ({ ...one, publisher })))
      expect(rowsText(rows)).toBe(rows.map(expected).join(','))
    }),
    { numRuns: 1000 },
  )
})
