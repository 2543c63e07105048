// The contents of a row as one text, the same for every store, and its digest: what `verify --contents` compares with the message in the log, and what
// `copy` writes to another store.

import { hash } from 'node:crypto'
import { canonicalPayload, type Json, parsePayload, printJson } from '../transformers/json/canonical.ts'
import { type JsonObject, type RecordBatch, senmlFormat, ValueKind } from '../transformers/record-batch.ts'
import { unitsDown } from '../transformers/time-units.ts'

const originColumns = ['index', 'channel', 'subtopic', 'publisher', 'protocol'] as const
const recordColumns = [
  ...originColumns,
  'name',
  'unit',
  'time',
  'value',
  'string_value',
  'bool_value',
  'data_value',
  'sum',
  'update_time',
] as const
const documentColumns = [...originColumns, 'created', 'payload'] as const

/**
 * The columns of a row by their names in PostgreSQL: `time` in microseconds since 1970, `created` in nanoseconds, `payload` in its canonical form. Null
 * or undefined for none.
 */
export type RowColumns = { readonly [Column in (typeof recordColumns | typeof documentColumns)[number]]?: unknown }

/** Stands between columns. No text of a device contains it, so a text in the store that does is not equal to any. */
const separator = '\0'

/**
 * The text of a row. Numbers are printed as JavaScript prints them, so 0 and -0 are the same.
 *
 * @param format `messages` for SenML
 */
export function textOf(format: string, row: RowColumns): string {
  let text = format
  for (const column of format === senmlFormat ? recordColumns : documentColumns) text += separator + cellText(row[column])
  return text
}

/** Texts and bytes begin with a mark: one that looks like a number, or is empty, is not a number or none. */
function cellText(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (typeof value === 'string') return `=${value}`
  if (value instanceof Uint8Array) return `#${Buffer.from(value.buffer, value.byteOffset, value.byteLength).toString('base64url')}`
  const printed = value as number | bigint | boolean
  return String(printed)
}

/** The canonical form of a payload as a store has it, which may have been changed there to anything. */
export function storedPayload(json: string): string {
  try {
    return canonicalPayload(json)
  } catch {
    return `not JSON: ${json}`
  }
}

/** The texts of the rows of a batch, from these rows on. */
export function* textsOf({ messages, records, documents }: RecordBatch, fromRecord: number, fromDocument: number): Generator<string> {
  for (let at = fromRecord; at < records.length; at++) {
    const kind = records.valueKind[at]
    const content = records.content[at]
    yield textOf(senmlFormat, {
      ...originOf(records.message[at]!, records.index[at]!),
      name: records.name[at],
      unit: records.unit[at],
      time: records.timeUs[at],
      value: kind === ValueKind.number ? records.number[at] : undefined,
      string_value: kind === ValueKind.string ? content : undefined,
      bool_value: kind === ValueKind.boolean ? records.number[at] === 1 : undefined,
      data_value: kind === ValueKind.data ? content : undefined,
      sum: numberOrNone(records.sum[at]!),
      update_time: numberOrNone(records.updateTime[at]!),
    })
  }
  for (let at = fromDocument; at < documents.length; at++) {
    yield textOf(documents.format[at]!, {
      ...originOf(documents.message[at]!, documents.index[at]!),
      created: BigInt(documents.createdUs[at]!) * 1000n + BigInt(documents.createdRestNs[at]!),
      payload: printJson(documents.payload[at] as Json),
    })
  }

  function originOf(message: number, index: number) {
    return {
      index,
      channel: messages.channel[message],
      subtopic: messages.subtopic[message],
      publisher: messages.publisher[message],
      protocol: messages.protocol[message],
    }
  }
}

function numberOrNone(value: number): number | undefined {
  return Number.isNaN(value) ? undefined : value
}

const createdColumn = 1 + documentColumns.indexOf('created')

/** The text of a row as its sender knows it: without the time of receipt, which documents have. */
export function withoutCreated(text: string): string {
  if (text.startsWith(`${senmlFormat}${separator}`)) return text
  return text.split(separator).toSpliced(createdColumn, 1).join(separator)
}

/** The text of a row with another payload; undefined if `change` returns none. Records have no payload. */
export function withPayload(text: string, change: (payload: JsonObject) => JsonObject | undefined): string | undefined {
  if (text.startsWith(`${senmlFormat}${separator}`)) return text
  const start = text.lastIndexOf(separator) + 1
  const changed = change(payloadIn(text.slice(start)))
  return changed === undefined ? undefined : text.slice(0, start) + cellText(printJson(changed as Json))
}

/** A text that no row of a sink has: others have changed this column. */
export class ForeignRowError extends Error {
  constructor(column: string) {
    super(`the column ${column} of a row is not as a writer stores it`)
    this.name = 'ForeignRowError'
  }
}

/** A row that is read from its text. */
export interface ContentsRow {
  /** `messages` for SenML. */
  readonly format: string
  readonly index: number
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  /** Of a record; 0 for a document. */
  readonly timeUs: number
  /** Appends it to the message that a batch has begun. */
  readonly append: (batch: RecordBatch) => void
}

/**
 * Reads what `textOf` has written.
 *
 * @param isFlat the document is flattened: all its numbers are doubles
 * @throws ForeignRowError
 */
export function rowOf(text: string, isFlat = false): ContentsRow {
  const [format = '', ...cells] = text.split(separator)
  const columns: readonly string[] = format === senmlFormat ? recordColumns : documentColumns
  if (cells.length !== columns.length) throw new ForeignRowError(columns[0]!)
  const cellOf = (column: keyof RowColumns): string => cells[columns.indexOf(column)]!
  const textIn = (column: keyof RowColumns): string => {
    if (!cellOf(column).startsWith('=')) throw new ForeignRowError(column)
    // Not a part of the whole text, which it would keep in memory.
    return Buffer.from(cellOf(column).slice(1)).toString()
  }
  const numberIn = (column: keyof RowColumns): number => {
    const cell = cellOf(column)
    if (cell !== '' && !Number.isFinite(Number(cell))) throw new ForeignRowError(column)
    return cell === '' ? Number.NaN : Number(cell)
  }
  const integerIn = (column: keyof RowColumns): number => {
    if (!Number.isSafeInteger(numberIn(column))) throw new ForeignRowError(column)
    return numberIn(column)
  }

  const index = integerIn('index')
  const origin = {
    format,
    index,
    channel: textIn('channel'),
    subtopic: textIn('subtopic'),
    publisher: textIn('publisher'),
    protocol: textIn('protocol'),
  }
  if (format !== senmlFormat) {
    if (!/^-?\d{1,20}$/.test(cellOf('created'))) throw new ForeignRowError('created')
    const created = BigInt(cellOf('created'))
    const createdUs = unitsDown(created, 1000n)
    const payload = payloadIn(cellOf('payload'))
    if (isFlat) for (const [key, value] of Object.entries(payload)) if (typeof value === 'bigint') payload[key] = Number(value)
    const append = (batch: RecordBatch): void =>
      batch.appendDocument(index, format, Number(createdUs), Number(created - createdUs * 1000n), payload)
    return { ...origin, timeUs: 0, append }
  }
  const [name, timeUs, sum, updateTime] = [textIn('name'), integerIn('time'), numberIn('sum'), numberIn('update_time')]
  const unit = cellOf('unit') === '' ? undefined : textIn('unit')
  const { kind, number = Number.NaN, content } = valueIn()
  return { ...origin, timeUs, append: batch => batch.appendRecord(index, name, unit, timeUs, kind, number, content, sum, updateTime) }

  function valueIn(): { kind: ValueKind; number?: number; content?: string | Uint8Array } {
    const [column, another] = valueColumns.filter(column => cellOf(column) !== '')
    if (another !== undefined) throw new ForeignRowError(another)
    if (column === undefined) return { kind: ValueKind.none }
    const cell = cellOf(column)
    if (column === 'value') return { kind: ValueKind.number, number: numberIn(column) }
    if (column === 'string_value') return { kind: ValueKind.string, content: textIn(column) }
    if (column === 'bool_value' && (cell === 'true' || cell === 'false'))
      return { kind: ValueKind.boolean, number: Number(cell === 'true') }
    if (column === 'data_value' && cell.startsWith('#')) return { kind: ValueKind.data, content: Buffer.from(cell.slice(1), 'base64url') }
    throw new ForeignRowError(column)
  }
}

const valueColumns = ['value', 'string_value', 'bool_value', 'data_value'] as const

/** @throws ForeignRowError */
function payloadIn(cell: string): { [key: string]: Json } {
  let payload: Json = null
  try {
    payload = parsePayload(cell.slice(1))
  } catch {
    // What is not JSON is no object either.
  }
  if (cell.startsWith('=') && typeof payload === 'object' && payload !== null && !Array.isArray(payload)) return payload
  throw new ForeignRowError('payload')
}

/** Digests are whole numbers below this one. */
const digestsEnd = 2 ** 52

/** The digest of a row: the first 52 bits of its SHA-256. */
export function digestOf(text: string): number {
  return Number.parseInt(hash('sha256', text, 'hex').slice(0, 13), 16)
}

/** The digest of several rows, which does not depend on their order. */
export function addDigests(one: number, other: number): number {
  const sum = one + other
  return sum < digestsEnd ? sum : sum - digestsEnd
}

/** What is left of such a sum without the digest of one of its rows. */
export function withoutDigest(sum: number, digest: number): number {
  return sum < digest ? sum - digest + digestsEnd : sum - digest
}

/** The names of the columns in which two rows differ. */
export function differingColumns(one: string, other: string): string[] {
  const [format, ...values] = one.split(separator)
  const [otherFormat, ...otherValues] = other.split(separator)
  const isRecord = format === senmlFormat
  if (isRecord !== (otherFormat === senmlFormat)) {
    return ['format', ...originColumns.filter((_, at) => values[at] !== otherValues[at])]
  }
  const columns = (isRecord ? recordColumns : documentColumns).filter((_, at) => values[at] !== otherValues[at])
  return format === otherFormat ? columns : ['format', ...columns]
}
