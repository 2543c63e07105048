// Encodes a record batch as line protocol. Pure, and the sink's hot path.

import { doubleBytesMax } from '../../config/decimal-bytes.ts'
import { type DocumentColumns, type RecordBatch, type RecordColumns, senmlFormat, ValueKind } from '../../transformers/record-batch.ts'
import type { EncodedBatch, EncodedFormat } from './encoded-batch.ts'
import { type Fault, faults } from './faults.ts'
import { type LineBytes, part } from './line-bytes.ts'
import { seriesBytesMax, stringBytesMax } from './line-protocol.ts'
import { LineWriter } from './line-writer.ts'
import { DocumentOrdinals, RecordOrdinals } from './ordinals.ts'
import { physicalName } from './physical-name.ts'
import { timeIsKept } from './position-text.ts'

/** Field keys that InfluxDB drops in silence, or that a Flux `pivot` would take for columns of its own, or that are tags. */
const reservedKeys = new Set(['time', '_time', '_start', '_stop', '_field', '_value', '_measurement', 'channel', 'publisher', 'subtopic'])

/**
 * @param room for the lines, of a batch that is not needed any more
 * @throws RangeError for what a transformer never gives: rows of a message not to be stored, a message of two formats, a nested payload
 */
export function encode(batch: RecordBatch, logNumber: number, room?: Buffer): EncodedBatch {
  const { messages } = batch
  const writer = new LineWriter(batch, logNumber, room)
  if (batch.records.length > 0) encodeRecords(batch.records, writer)
  const formats = batch.documents.length > 0 ? encodeDocuments(batch, writer) : []
  return {
    messages: { length: messages.length, partition: messages.partition, offset: messages.offset, outcome: messages.outcome },
    ranges: batch.ranges.map(range => ({ ...range })),
    lines: writer.finish(),
    formats,
    originals: batch.originals === undefined ? undefined : new Map(batch.originals),
    rejected: writer.rejected,
    acknowledged: new Set(),
    partly: new Set(),
    removed: new Set(),
    stored: new Set(),
    owed: new Set(),
  }
}

const parts = {
  name: part(',name='),
  nth: part(',nth='),
  ownNth: part(',/nth='),
  unit: part(',unit='),
  index: part(' /index='),
  created: part('i,/created='),
  value: part(',value='),
  true: part(',boolValue=true'),
  false: part(',boolValue=false'),
  stringValue: part(',stringValue='),
  dataValue: part(',dataValue='),
  sum: part(',sum='),
  updateTime: part(',updateTime='),
}
/** Of all of them, and of the numbers and quotes of a row: more than any one has beside its texts. */
const ownBytes = Object.values(parts).reduce((sum, { length }) => sum + length, 0) + 6 * doubleBytesMax + 4

function encodeRecords(records: RecordColumns, writer: LineWriter): void {
  const ordinals = new RecordOrdinals(records)
  for (let at = 0; at < records.length; at++) {
    const message = records.message[at]!
    if (message !== writer.message) writer.begin(message, senmlFormat, senmlFormat)
    if (writer.isRefused) continue
    const fault = writeRecord(records, at, ordinals.of(at), writer)
    if (fault === undefined) writer.end(records.index[at]!, records.timeUs[at]!)
    else writer.refuse(records.index[at], fault)
  }
}

/** @returns why it cannot be kept: what is written of it is taken back then */
function writeRecord(records: RecordColumns, at: number, nth: number, writer: LineWriter): Fault | undefined {
  const { line } = writer
  const name = records.name[at]!
  const unit = records.unit[at] ?? ''
  const content = records.content[at]
  writer.open(ownBytes + (name.length + unit.length + (content === undefined ? 0 : content.length)) * 3)
  writer.measurement()
  writer.channel()
  if (name !== '') line.put(parts.name)
  if (!line.tag(name)) return faults.tag('name')
  if (nth !== 0) {
    line.put(parts.nth)
    line.integer(nth)
  }
  writer.publisherAndSubtopic()
  if (unit !== '') line.put(parts.unit)
  if (!line.tag(unit)) return faults.tag('unit')
  if (isTooLong(line.at - writer.start, 'stringValue'.length)) return faults.series()
  if (!timeIsKept(records.timeUs[at]!)) return faults.time()
  line.put(parts.index)
  line.integer(records.index[at]!)
  writer.positionAndProtocol()
  const fault = writeValue(records, at, line)
  if (fault !== undefined) return fault
  const sum = records.sum[at]!
  if (!Number.isNaN(sum)) {
    line.put(parts.sum)
    line.number(sum)
  }
  const updateTime = records.updateTime[at]!
  if (!Number.isNaN(updateTime)) {
    line.put(parts.updateTime)
    line.number(updateTime)
  }
  return undefined
}

/** The field of the record's value: none where it has a sum alone. */
function writeValue({ valueKind, number, content }: RecordColumns, at: number, line: LineBytes): Fault | undefined {
  const kind = valueKind[at]
  if (kind === ValueKind.number) {
    line.put(parts.value)
    line.number(number[at]!)
  } else if (kind === ValueKind.boolean) line.put(number[at] === 1 ? parts.true : parts.false)
  else if (kind === ValueKind.string) {
    line.put(parts.stringValue)
    const text = content[at] as string
    if (!line.string(text)) return faults.text('a text value', text)
  } else if (kind === ValueKind.data) {
    const data = content[at] as Uint8Array
    if (Math.ceil((data.length * 4) / 3) > stringBytesMax) return faults.length('a data value')
    line.put(parts.dataValue)
    line.data(data)
  }
  return undefined
}

interface FormatOfBatch extends EncodedFormat {
  readonly measurement: string
  readonly channels: Set<string>
  readonly messages: number[]
}

function encodeDocuments({ documents, messages, records }: RecordBatch, writer: LineWriter): EncodedFormat[] {
  const formats = new Map<string, FormatOfBatch>()
  const holdsRecords = new Set(records.message.subarray(0, records.length))
  const ordinals = new DocumentOrdinals(documents)
  let format: FormatOfBatch | undefined
  for (let at = 0; at < documents.length; at++) {
    const message = documents.message[at]!
    const name = documents.format[at]!
    if (message === writer.message && format?.format !== name) throw twoMeasurements(message)
    if (message !== writer.message) {
      if (holdsRecords.has(message)) throw twoMeasurements(message)
      format = formats.get(name)
      if (format === undefined) {
        format = { format: name, measurement: physicalName(name), channels: new Set(), messages: [] }
        formats.set(name, format)
      }
      format.channels.add(messages.channel[message]!)
      format.messages.push(message)
      writer.begin(message, name, format.measurement)
    }
    const nth = writer.isRefused ? 0 : ordinals.of(at)
    if (!writer.isRefused) encodeDocument(documents, at, nth, writer)
  }
  return [...formats.values()]
}

/** A refused row takes its whole message with it, which is deleted from one measurement only. */
function twoMeasurements(message: number): RangeError {
  return new RangeError(`message ${message} has rows for two measurements: a transformer gives all rows of a message one format`)
}

function encodeDocument(documents: DocumentColumns, at: number, nth: number, writer: LineWriter): void {
  const fault = writeDocument(documents, at, nth, writer)
  if (fault === undefined) writer.end(documents.index[at]!, documents.createdUs[at]!)
  else writer.refuse(documents.index[at], fault)
}

/** @returns why it cannot be kept: what is written of it is taken back then */
function writeDocument(documents: DocumentColumns, at: number, nth: number, writer: LineWriter): Fault | undefined {
  const { line } = writer
  const createdUs = documents.createdUs[at]!
  const payload = documents.payload[at]!
  if (!timeIsKept(createdUs)) return faults.time()
  writer.open(ownBytes)
  // In the order in which the server sorts tags.
  writer.measurement()
  if (nth !== 0) {
    line.put(parts.ownNth)
    line.integer(nth)
  }
  writer.channel()
  writer.publisherAndSubtopic()
  const seriesBytes = line.at - writer.start
  line.put(parts.index)
  line.integer(documents.index[at]!)
  line.put(parts.created)
  line.time(createdUs, documents.createdRestNs[at]!)
  writer.positionAndProtocol()
  let longestKey = '/position'.length
  for (const key in payload) {
    const value = payload[key]
    writer.open(ownBytes + (key.length + (typeof value === 'string' ? value.length : 0)) * 3)
    line.bytes[line.at++] = comma
    const start = line.at
    if (reservedKeys.has(key) || key === '' || key.startsWith('/') || !line.fieldKey(key)) return faults.key(key)
    longestKey = Math.max(longestKey, line.at - start)
    line.bytes[line.at++] = equals
    if (typeof value === 'number' && Number.isFinite(value)) line.number(value)
    else if (typeof value === 'boolean') line.put(value ? words.true : words.false)
    else if (typeof value === 'string') {
      if (!line.string(value)) return faults.text(`the value of ${JSON.stringify(key)}`, value)
    } else throw nested(writer.message, key, value)
  }
  return isTooLong(seriesBytes, longestKey) ? faults.series() : undefined
}
const words = { true: part('true'), false: part('false') }
const comma = 0x2c
const equals = 0x3d

function nested(message: number, key: string, value: unknown): RangeError {
  const kind = value === null ? 'null' : typeof value
  return new RangeError(`message ${message}: ${JSON.stringify(key)} is ${kind}: documents for this store are flattened before`)
}

function isTooLong(seriesBytes: number, keyBytes: number): boolean {
  return seriesBytes + 4 + keyBytes > seriesBytesMax
}
