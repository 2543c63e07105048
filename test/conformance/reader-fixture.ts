// The rows that the conformance suite of readers stores, and what each of them must be read back as.

import type { SenmlRow } from '../../readers/reader.ts'
import { type JsonObject, type RecordBatch, ValueKind } from '../../transformers/record-batch.ts'

export const channel = '1f0c6b5e-7c2e-4a36-9a51-0c3c6c6f2a10'
export const neighbour = '1f0c6b5e-7c2e-4a36-9a51-0c3c6c6f2a11'
export const publishers = ['7d5a2c1e-0000-4000-8000-000000000001', '7d5a2c1e-0000-4000-8000-000000000002'] as const
const [first, second] = publishers

/** 2026-10-31T23:59:59 UTC: the rows lie on both sides of a day's and a month's end. */
export const startUs = 1_793_491_199_000_000
export const dayUs = 86_400_000_000

type Value = Partial<Pick<SenmlRow, 'unit' | 'value' | 'stringValue' | 'boolValue' | 'dataValue' | 'sum' | 'updateTime'>>

interface StoredRecord {
  /** Which message of the log it is in. */
  readonly offset: number
  readonly index: number
  readonly publisher: string
  readonly subtopic: string
  readonly name: string
  readonly timeUs: number
  readonly value: Value
  /** What the record's end looks like in the answer, from Time on. */
  readonly text: string
}

const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte)
const text = 'quote " backslash \\ newline \n tab \t emoji 😀 line \u2028 del \u007f'

/** Oldest message first; the record's ordinal is its index. */
const stored: readonly StoredRecord[] = [
  record(0, 0, first, '', 'number', 0, { value: 21.5, unit: 'Cel' }, '"Value":21.5'),
  record(0, 1, first, '', 'zero', 0, { value: 0 }, '"Value":0'),
  record(0, 2, first, '', 'earlier-in-the-same-message', -1, { value: -1 }, '"Value":-1'),
  record(1, 0, second, 'bedroom.temperature', 'true', 0, { boolValue: true }, '"BoolValue":true'),
  record(1, 1, second, 'bedroom.temperature', 'false', 0, { boolValue: false }, '"BoolValue":false'),
  record(2, 0, first, 'küche.温度', 'text', 250_000, { stringValue: text }, `"StringValue":${JSON.stringify(text)}`),
  record(2, 1, first, 'küche.温度', 'empty-text', 250_001, { stringValue: '' }, '"StringValue":""'),
  record(3, 0, second, 'a', 'data', 1_000_000, { dataValue: everyByte }, `"DataValue":"${Buffer.from(everyByte).toString('base64url')}"`),
  record(3, 1, second, 'a', 'empty-data', 1_000_001, { dataValue: new Uint8Array() }, '"DataValue":""'),
  record(4, 0, first, 'a', 'sum-alone', 2 * dayUs, { sum: 0 }, '"Sum":0'),
  record(
    4,
    1,
    first,
    'a',
    'all',
    2 * dayUs,
    { value: 1e21, sum: -0.1, updateTime: 0, unit: '%RH' },
    '"UpdateTime":0,"Value":1e+21,"Sum":-0.1',
  ),
  record(
    5,
    0,
    second,
    'a',
    'largest',
    3 * dayUs,
    { value: Number.MAX_VALUE, updateTime: 0.5 },
    '"UpdateTime":0.5,"Value":1.7976931348623157e+308',
  ),
  record(5, 1, second, 'a', 'least', 3 * dayUs + 1, { value: 5e-324 }, '"Value":5e-324'),
  record(6, 0, first, 'a', 'late', -400 * dayUs, { value: 0.1 + 0.2 }, '"Value":0.30000000000000004'),
  record(7, 0, second, 'a', 'ahead', 300 * dayUs, { value: -9007199254740991 }, '"Value":-9007199254740991'),
]

function record(
  offset: number,
  index: number,
  publisher: string,
  subtopic: string,
  name: string,
  afterStartUs: number,
  value: Value,
  text: string,
): StoredRecord {
  return { offset, index, publisher, subtopic, name, timeUs: startUs + afterStartUs, value, text }
}

const newestFirst = stored.toSorted((a, b) => b.timeUs - a.timeUs || b.offset - a.offset || b.index - a.index)

function recordText({ subtopic, publisher, name, timeUs, value, text }: StoredRecord): string {
  const unit = value.unit === undefined ? '' : `,"Unit":"${value.unit}"`
  const digits = String(timeUs)
  const time = `${digits.slice(0, -6)}.${digits.slice(-6)}`.replace(/\.?0+$/, '')
  return `{"Channel":"${channel}","Subtopic":"${subtopic}","Publisher":"${publisher}","Protocol":"http","Name":"${name}"${unit},"Time":${time},${text}}`
}

/** The SenML of the fixture: seven messages in partition 0, and one of the neighbour in partition 2. */
export const records = {
  rows: newestFirst.map(({ publisher, subtopic, name, timeUs, value }) => ({
    kind: 'senml' as const,
    channel,
    subtopic,
    publisher,
    protocol: 'http',
    name,
    timeUs,
    unit: undefined,
    value: undefined,
    stringValue: undefined,
    boolValue: undefined,
    sum: undefined,
    updateTime: undefined,
    ...value,
    dataValue: value.dataValue === undefined ? undefined : Buffer.from(value.dataValue),
  })),
  answer: `{"total":${stored.length},"offset":0,"limit":1000,"format":"messages","messages":[${newestFirst.map(recordText).join(',')}]}`,

  appendTo(batch: RecordBatch): void {
    for (let offset = 0; offset <= stored.at(-1)!.offset; offset++) {
      const ofMessage = stored.filter(one => one.offset === offset)
      const { publisher, subtopic } = ofMessage[0]!
      batch.beginMessage({ partition: 0, offset, channel, subtopic, publisher, protocol: 'http' })
      // Within a message rows lie ordered by time, whatever their ordinals.
      for (const one of ofMessage.toSorted((a, b) => a.timeUs - b.timeUs)) append(batch, one)
      batch.endMessage()
    }
    batch.beginMessage({ partition: 2, offset: 0, channel: neighbour, subtopic: '', publisher: first, protocol: 'mqtt' })
    batch.appendRecord(0, 'next-door', undefined, startUs, ValueKind.number, 1, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
    batch.cover(2, 0, 1)
  },
}

function append(batch: RecordBatch, { index, name, timeUs, value }: StoredRecord): void {
  const { unit, value: number, stringValue, boolValue, dataValue, sum = Number.NaN, updateTime = Number.NaN } = value
  let kind: ValueKind = ValueKind.none
  if (number !== undefined) kind = ValueKind.number
  else if (stringValue !== undefined) kind = ValueKind.string
  else if (boolValue !== undefined) kind = ValueKind.boolean
  else if (dataValue !== undefined) kind = ValueKind.data
  batch.appendRecord(
    index,
    name,
    unit,
    timeUs,
    kind,
    number ?? (boolValue === undefined ? Number.NaN : Number(boolValue)),
    stringValue ?? dataValue,
    sum,
    updateTime,
  )
}

/** Names that a store must not take as they are: too long for one, in capitals beside small letters, with signs, not ASCII. */
export const formats = ['weather', 'Weather', 'room-1', '温度', `${'long-'.repeat(24)}name`] as const

const payloads: readonly [payload: JsonObject, text: string][] = [
  [{ b: 1, a: { z: [1, { y: 2, x: 3 }], '10': null, '9': true } }, '{"a":{"10":null,"9":true,"z":[1,{"x":3,"y":2}]},"b":1}'],
  [{ id: 8_659_456_789_564_231_564n, least: -9_223_372_036_854_775_808n }, '{"id":8659456789564231564,"least":-9223372036854775808}'],
  [{ f: 1.5, tiny: 1e-7, huge: 1e21, whole: 1e15, zero: 0 }, '{"f":1.5,"huge":1e+21,"tiny":1e-7,"whole":1000000000000000,"zero":0}'],
  [
    { 'a/b': 'slash', '': 'empty', 'quote"': '\\', '😀': '\u2028\u0001' },
    '{"":"empty","a/b":"slash","quote\\"":"\\\\","😀":"\u2028\\u0001"}',
  ],
  [JSON.parse('{"__proto__":{"b":1,"a":2},"constructor":"c"}') as JsonObject, '{"__proto__":{"a":2,"b":1},"constructor":"c"}'],
  [{}, '{}'],
]

/** The JSON of the fixture: for each format a message of several documents, and a later message of one, in partition 3. */
export const documents = {
  appendTo(batch: RecordBatch): void {
    const offsetEnd = 8
    batch.cover(0, 0, offsetEnd)
    formats.forEach((format, nth) => {
      batch.beginMessage({ partition: 3, offset: 2 * nth, channel, subtopic: `house.${format}`, publisher: first, protocol: 'http' })
      // The same instant for all but the last digits: their order is the position's and the index's.
      payloads.forEach(([payload], index) => batch.appendDocument(index, format, startUs, index < 2 ? 1 : 999, payload))
      batch.endMessage()
      batch.beginMessage({ partition: 3, offset: 2 * nth + 1, channel, subtopic: `house.${format}`, publisher: second, protocol: 'mqtt' })
      batch.appendDocument(0, format, startUs + 2 * dayUs, 0, { later: true })
      batch.appendDocument(1, format, startUs - 2 * dayUs, 7, { later: false })
      batch.endMessage()
    })
    batch.cover(3, 0, 2 * formats.length)
  },

  answer(format: string): string {
    const lines = [
      documentText(format, second, 'mqtt', `${startUs + 2 * dayUs}000`, '{"later":true}'),
      ...[5, 4, 3, 2].map(index => documentText(format, first, 'http', `${startUs}999`, payloads[index]![1])),
      ...[1, 0].map(index => documentText(format, first, 'http', `${startUs}001`, payloads[index]![1])),
      documentText(format, second, 'mqtt', `${startUs - 2 * dayUs}007`, '{"later":false}'),
    ]
    return `{"total":${lines.length},"offset":0,"limit":1000,"format":"${format}","messages":[${lines.join(',')}]}`
  },
}

function documentText(format: string, publisher: string, protocol: string, createdNs: string, payload: string): string {
  return `{"Channel":"${channel}","Subtopic":"house.${format}","Publisher":"${publisher}","Protocol":"${protocol}","Created":${createdNs},"Payload":${payload}}`
}
