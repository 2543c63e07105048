// The rows that the conformance suite of readers stores, and the expected form of each in answers.

import { type DocumentRow, type SenmlRow, senmlFormat } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { type RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import type { RecordField } from '../../sinks/batches.ts'
import { documents, type KeptOf } from './fixture-documents.ts'
import { channel, dayUs, neighbour, packed, publishers, startUs } from './fixture-origin.ts'

export { documents, documentsAnswer, formats, type KeptOf } from './fixture-documents.ts'
export { channel, dayUs, neighbour, publishers, startUs } from './fixture-origin.ts'

const [first, second] = publishers

type Value = Partial<Pick<SenmlRow, Exclude<RecordField, 'name' | 'timeUs'>>>
/** Of a record with a number, and everything else that it can have. */
type FullValue = { [Field in Exclude<keyof Value, 'stringValue' | 'boolValue' | 'dataValue'>]: Exclude<Value[Field], undefined> }

interface StoredRecord {
  /** The offset of its message. */
  readonly offset: number
  readonly index: number
  readonly publisher: string
  readonly subtopic: string
  readonly name: string
  readonly timeUs: number
  readonly value: Value
  /** The end of the record in the answer, from Time on. */
  readonly text: string
}

const everyByte = Uint8Array.from({ length: 256 }, (_, byte) => byte)
const text = 'quote " backslash \\ newline \n tab \t emoji 😀 line \u2028 del \u007f'

/** Oldest message first; a record's index is its ordinal. */
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
    { value: 1e21, sum: -0.1, updateTime: 0, unit: '%RH' } satisfies FullValue,
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

const nothing = {
  unit: undefined,
  value: undefined,
  stringValue: undefined,
  boolValue: undefined,
  sum: undefined,
  updateTime: undefined,
}

/** The SenML of the fixture: eight messages in partition 0, and one of the neighbour in partition 2. */
export const records = {
  rows: newestFirst.map(
    ({ offset, index, publisher, subtopic, name, timeUs, value }): SenmlRow => ({
      kind: 'senml',
      channel,
      subtopic,
      publisher,
      protocol: 'http',
      position: packed(0, offset),
      index,
      name,
      timeUs,
      ...nothing,
      ...value,
      dataValue: value.dataValue === undefined ? undefined : Buffer.from(value.dataValue),
    }),
  ),
  answer: `{"total":${stored.length},"offset":0,"limit":1000,"format":"messages","messages":[${newestFirst.map(recordText).join(',')}]}`,

  appendTo(batch: RecordBatch): void {
    for (let offset = 0; offset <= stored.at(-1)!.offset; offset++) {
      const messageRecords = stored.filter(one => one.offset === offset)
      const { publisher, subtopic } = messageRecords[0]!
      batch.beginMessage({ at: logPartition(0, 0), offset, channel, subtopic, publisher, protocol: 'http' })
      // Within a message rows are ordered by time, whatever their ordinals.
      for (const one of messageRecords.toSorted((a, b) => a.timeUs - b.timeUs)) append(batch, one)
      batch.endMessage()
    }
    batch.cover(logPartition(0, 0), 0, stored.at(-1)!.offset + 1)
    batch.beginMessage({ at: logPartition(0, 2), offset: 0, channel: neighbour, subtopic: '', publisher: first, protocol: 'mqtt' })
    batch.appendRecord(0, 'next-door', undefined, startUs, ValueKind.number, 1, undefined, Number.NaN, Number.NaN)
    batch.endMessage()
    batch.cover(logPartition(0, 2), 0, 1)
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

/** The only record of the neighbour channel. */
export const neighbourRow: SenmlRow = {
  kind: 'senml',
  channel: neighbour,
  subtopic: '',
  publisher: first,
  protocol: 'mqtt',
  position: packed(2, 0),
  index: 0,
  name: 'next-door',
  timeUs: startUs,
  ...nothing,
  value: 1,
  dataValue: undefined,
}

/** Every row of the fixture, as the store returns it. */
export function everyRow(keptOf?: KeptOf): { format: string; row: SenmlRow | DocumentRow }[] {
  return [...records.rows.map(row => ({ format: senmlFormat, row })), { format: senmlFormat, row: neighbourRow }, ...documents.rows(keptOf)]
}
