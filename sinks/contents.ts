// The contents of a row as one text, the same for every store, and its digest: what `verify --contents` compares with the message in the log.

import { hash } from 'node:crypto'
import { canonicalPayload, type Json, printJson } from '../transformers/json/canonical.ts'
import { type RecordBatch, senmlFormat, ValueKind } from '../transformers/record-batch.ts'

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
