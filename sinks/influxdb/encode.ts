// Encodes a record batch as line protocol. Pure, and the sink's hot path.

import { type DocumentColumns, type RecordBatch, type RecordColumns, senmlFormat, ValueKind } from '../../transformers/record-batch.ts'
import type { EncodedBatch, EncodedFormat } from './encoded-batch.ts'
import { type Fault, faults } from './faults.ts'
import { fieldKeyText, seriesBytesMax, stringBytesMax, stringText, tagText } from './line-protocol.ts'
import { LineWriter } from './line-writer.ts'
import { DocumentOrdinals, RecordOrdinals } from './ordinals.ts'
import { physicalName } from './physical-name.ts'
import { timeIsKept, timeText } from './position-text.ts'

/** Field keys that InfluxDB drops in silence, or that a Flux `pivot` would take for columns of its own, or that are tags. */
const reservedKeys = new Set(['time', '_time', '_start', '_stop', '_field', '_value', '_measurement', 'channel', 'publisher', 'subtopic'])

/** @throws RangeError for what a transformer never gives: rows of a message not to be stored, a message of two formats, a nested payload */
export function encode(batch: RecordBatch, logNumber: number): EncodedBatch {
  const { messages } = batch
  const writer = new LineWriter(batch, logNumber)
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
    stored: new Set(),
    owed: new Set(),
  }
}

function encodeRecords(records: RecordColumns, writer: LineWriter): void {
  const ordinals = new RecordOrdinals(records)
  for (let at = 0; at < records.length; at++) {
    const message = records.message[at]!
    if (message !== writer.message) writer.begin(message, senmlFormat, senmlFormat)
    if (writer.isRefused) continue
    const index = records.index[at]!
    const timeUs = records.timeUs[at]!
    const nth = ordinals.of(at)
    const name = tagText(records.name[at]!)
    const unit = tagText(records.unit[at] ?? '')
    const value = valueText(records, at)
    if (name === undefined || unit === undefined || value === undefined || !timeIsKept(timeUs)) {
      writer.refuse(index, recordFault(name, unit, records.content[at], timeUs))
      continue
    }
    const named = name === '' ? writer.lead : `${writer.lead},name=${name}`
    const series = `${named}${nth === 0 ? '' : `,nth=${nth}`}${writer.tail}${unit === '' ? '' : `,unit=${unit}`}`
    if (series.length > seriesBytesMax / 4 && isTooLong(series, 'stringValue'.length)) {
      writer.refuse(index, faults.series())
      continue
    }
    const sum = records.sum[at]!
    const sumText = Number.isNaN(sum) ? '' : `,sum=${sum}`
    const updateTime = records.updateTime[at]!
    const updateTimeText = Number.isNaN(updateTime) ? '' : `,updateTime=${updateTime}`
    writer.append(`${series} /index=${index}${writer.shared}${value}${sumText}${updateTimeText}`, index, timeUs)
  }
}

/** The field of the record's value; empty where it has a sum alone, undefined where the value cannot be kept. */
function valueText({ valueKind, number, content }: RecordColumns, at: number): string | undefined {
  const kind = valueKind[at]
  if (kind === ValueKind.number) return `,value=${number[at]!}`
  if (kind === ValueKind.boolean) return number[at] === 1 ? ',boolValue=true' : ',boolValue=false'
  if (kind === ValueKind.string) {
    const text = stringText(content[at] as string)
    return text === undefined ? undefined : `,stringValue=${text}`
  }
  if (kind !== ValueKind.data) return ''
  const text = dataText(content[at] as Uint8Array)
  return text.length > stringBytesMax ? undefined : `,dataValue="${text}"`
}

function recordFault(name: string | undefined, unit: string | undefined, content: string | Uint8Array | undefined, timeUs: number): Fault {
  if (name === undefined || unit === undefined) return faults.tag(name === undefined ? 'name' : 'unit')
  if (!timeIsKept(timeUs)) return faults.time()
  return typeof content === 'string' ? faults.text('a text value', content) : faults.length('a data value')
}

function dataText(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64url')
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
    if (!writer.isRefused) encodeDocument(documents, at, nth, format!.measurement, writer)
  }
  return [...formats.values()]
}

/** A refused row takes its whole message with it, which is deleted from one measurement only. */
function twoMeasurements(message: number): RangeError {
  return new RangeError(`message ${message} has rows for two measurements: a transformer gives all rows of a message one format`)
}

function encodeDocument(documents: DocumentColumns, at: number, nth: number, measurement: string, writer: LineWriter): void {
  const index = documents.index[at]!
  const createdUs = documents.createdUs[at]!
  const payload = documents.payload[at]!
  const { lead, tail, shared } = writer
  if (!timeIsKept(createdUs)) return writer.refuse(index, faults.time())
  // In the order in which the server sorts tags.
  const series = nth === 0 ? lead + tail : `${measurement},/nth=${nth}${lead.slice(measurement.length)}${tail}`
  let line = `${series} /index=${index}i,/created=${timeText(createdUs, documents.createdRestNs[at]!)}${shared}`
  let longestKey = '/position'.length
  for (const key in payload) {
    const keyText = reservedKeys.has(key) || key === '' || key.startsWith('/') ? undefined : fieldKeyText(key)
    if (keyText === undefined) return writer.refuse(index, faults.key(key))
    if (keyText.length > longestKey) longestKey = keyText.length
    const value = payload[key]
    if (typeof value === 'number' && Number.isFinite(value)) line += `,${keyText}=${value}`
    else if (typeof value === 'boolean') line += value ? `,${keyText}=true` : `,${keyText}=false`
    else if (typeof value === 'string') {
      const text = stringText(value)
      if (text === undefined) return writer.refuse(index, faults.text(`the value of ${JSON.stringify(key)}`, value))
      line += `,${keyText}=${text}`
    } else throw nested(writer.message, key, value)
  }
  if (series.length + longestKey > seriesBytesMax / 4 && isTooLong(series, longestKey * 3)) return writer.refuse(index, faults.series())
  writer.append(line, index, createdUs)
}

function nested(message: number, key: string, value: unknown): RangeError {
  const kind = value === null ? 'null' : typeof value
  return new RangeError(`message ${message}: ${JSON.stringify(key)} is ${kind}: documents for this store are flattened before`)
}

function isTooLong(series: string, keyBytesMax: number): boolean {
  return Buffer.byteLength(series) + 4 + keyBytesMax > seriesBytesMax
}
