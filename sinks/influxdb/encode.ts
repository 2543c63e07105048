// Encodes a record batch as line protocol. Pure, and the sink's hot path.

import { doubleBytesMax } from '../../config/decimal-bytes.ts'
import { type DocumentColumns, type RecordBatch, type RecordColumns, senmlFormat, ValueKind } from '../../transformers/record-batch.ts'
import { physicalName as nameOf, type WantedFormat } from '../formats.ts'
import { type KeyedBatch, keyedBatch } from '../keyed-sink.ts'
import type { LogNumbers } from '../sink.ts'
import { type Fault, faults, seriesBytesMax, stringBytesMax } from './errors.ts'
import { type LineBytes, LineWriter, part } from './line-protocol.ts'
import { type EncodedLines, indexField, msOf, rejectCollisions, timeIsKept, typeEnds } from './points.ts'

/** A JSON format of the batch, and the messages that use it. */
interface EncodedFormat extends WantedFormat {
  readonly messages: readonly number[]
}

export interface EncodedBatch extends KeyedBatch {
  readonly lines: EncodedLines
  readonly formats: readonly EncodedFormat[]
}

/**
 * No character that is special in line protocol, Flux or InfluxQL, and no `$`, which only names made here contain. A leading `_` is reserved by
 * InfluxDB; `messages` holds SenML.
 */
const rule = { harmless: /^(?!messages$)[A-Za-z0-9][A-Za-z0-9_-]{0,99}$/, foreign: /[^a-z0-9_]+/g, separator: '$', prefixLengthMax: 40 }

/** The measurement that a JSON format is stored in. */
export function physicalName(format: string): string {
  return nameOf(format, rule)
}

/** Keys that InfluxDB silently drops as fields, that collide with columns of a Flux `pivot`, or that are tags. */
const reservedKeys = new Set(['time', '_time', '_start', '_stop', '_field', '_value', '_measurement', 'channel', 'publisher', 'subtopic'])

/**
 * @param buffer of an earlier batch that was written; it is reused for the lines
 * @throws RangeError for batches that no transformer produces: rows of a message that is not to be stored, a nested payload
 */
export function encode(batch: RecordBatch, logNumbers: LogNumbers, buffer?: Buffer): EncodedBatch {
  const writer = new LineWriter(batch, logNumbers, buffer)
  if (batch.records.length > 0) encodeRecords(batch.records, writer)
  const formats = batch.documents.length > 0 ? encodeDocuments(batch, writer) : []
  const lines = writer.finish()
  const { rejected } = writer
  rejectCollisions(batch, logNumbers, lines, rejected)
  return { ...keyedBatch(batch), lines, formats, rejected }
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
/** More than all fixed parts of one row together, with its numbers and quotes. */
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

/** @returns why the row cannot be stored; the caller then removes what was written of it */
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
  line.integer(indexField(records.index[at]!, records.timeUs[at]!))
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

/** Writes the field of the record's value, if it has one and not only a sum. */
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

function encodeDocuments({ documents, messages }: RecordBatch, writer: LineWriter): EncodedFormat[] {
  const formats = new Map<string, FormatOfBatch>()
  const ordinals = new DocumentOrdinals(documents)
  let format: FormatOfBatch | undefined
  for (let at = 0; at < documents.length; at++) {
    const message = documents.message[at]!
    const name = documents.format[at]!
    if (message !== writer.message) {
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

function encodeDocument(documents: DocumentColumns, at: number, nth: number, writer: LineWriter): void {
  const fault = writeDocument(documents, at, nth, writer)
  if (fault === undefined) writer.end(documents.index[at]!, documents.createdUs[at]!)
  else writer.refuse(documents.index[at], fault)
}

/** @returns why the row cannot be stored; the caller then removes what was written of it */
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
  line.integer(indexField(documents.index[at]!, createdUs))
  line.put(parts.created)
  line.time(createdUs, documents.createdRestNs[at]!, 3)
  writer.positionAndProtocol()
  let longestKey = '/position'.length
  for (const key in payload) {
    const value = payload[key]
    writer.open(ownBytes + (key.length + (typeof value === 'string' ? value.length : 0)) * 3)
    line.bytes[line.at++] = comma
    const start = line.at
    if (reservedKeys.has(key) || key === '' || key.startsWith('/') || !line.fieldKey(key)) return faults.key(key)
    if (typeof value === 'string') line.put(words.textEnd)
    else if (typeof value === 'boolean') line.put(words.booleanEnd)
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
const words = { true: part('true'), false: part('false'), textEnd: part(typeEnds.text), booleanEnd: part(typeEnds.boolean) }
const comma = 0x2c
const equals = 0x3d

function nested(message: number, key: string, value: unknown): RangeError {
  const kind = value === null ? 'null' : typeof value
  return new RangeError(`message ${message}: ${JSON.stringify(key)} is ${kind}: documents for this store must be flattened`)
}

function isTooLong(seriesBytes: number, keyBytes: number): boolean {
  return seriesBytes + 4 + keyBytes > seriesBytesMax
}

// The tag `nth` is the ordinal of a row among those of its message with the same series and millisecond. Without it they would overwrite each other.

/** Up to this many rows with the same millisecond are compared with each other; beyond that they are counted by series. */
const comparedMax = 12

/** For records, which are ordered by message and, within it, by time. Call `of` for each in turn, from the first. */
class RecordOrdinals {
  readonly #records: RecordColumns
  #message = -1
  #ms = Number.NaN
  #first = 0
  #counted: Map<string, number> | undefined

  constructor(records: RecordColumns) {
    this.#records = records
  }

  of(at: number): number {
    const { message, timeUs } = this.#records
    const ms = msOf(timeUs[at]!)
    if (message[at] !== this.#message || ms !== this.#ms) {
      this.#message = message[at]!
      this.#ms = ms
      this.#first = at
      this.#counted = undefined
      return 0
    }
    if (at - this.#first >= comparedMax) return this.#count(at)
    const { name, unit } = this.#records
    let nth = 0
    for (let before = this.#first; before < at; before++) {
      if (name[before] === name[at] && (unit[before] ?? '') === (unit[at] ?? '')) nth++
    }
    return nth
  }

  #count(at: number): number {
    const { name, unit } = this.#records
    let counted = this.#counted
    let from = at
    if (counted === undefined) {
      this.#counted = counted = new Map()
      from = this.#first
    }
    let nth = 0
    for (let row = from; row <= at; row++) {
      const series = `${unit[row] ?? ''}\0${name[row]!}`
      nth = counted.get(series) ?? 0
      counted.set(series, nth + 1)
    }
    return nth
  }
}

/** For documents, whose times are in any order. All documents of a message have the same series. */
class DocumentOrdinals {
  readonly #documents: DocumentColumns
  #message = -1
  #first = 0
  /** The latest millisecond so far, and how many documents have it. While times ascend, nothing else has to be kept. */
  #latestMs = 0
  #latest = 0
  #counted: Map<number, number> | undefined

  constructor(documents: DocumentColumns) {
    this.#documents = documents
  }

  of(at: number): number {
    const { message, createdUs } = this.#documents
    const ms = msOf(createdUs[at]!)
    if (message[at] !== this.#message) {
      this.#message = message[at]!
      this.#first = at
      this.#latestMs = ms
      this.#latest = 1
      this.#counted = undefined
      return 0
    }
    if (this.#counted === undefined && ms > this.#latestMs) {
      this.#latestMs = ms
      this.#latest = 1
      return 0
    }
    if (this.#counted === undefined && ms === this.#latestMs) return this.#latest++
    return this.#count(at)
  }

  #count(at: number): number {
    const { createdUs } = this.#documents
    let counted = this.#counted
    let from = at
    if (counted === undefined) {
      this.#counted = counted = new Map()
      from = this.#first
    }
    let nth = 0
    for (let row = from; row <= at; row++) {
      const ms = msOf(createdUs[row]!)
      nth = counted.get(ms) ?? 0
      counted.set(ms, nth + 1)
    }
    return nth
  }
}
