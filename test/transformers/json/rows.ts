// Decodes JSON documents for a test into rows that are easy to compare.

import { DecodeError } from '../../../transformers/decode-error.ts'
import type { Envelope } from '../../../transformers/envelope.ts'
import { openJsonDocuments } from '../../../transformers/json/documents.ts'
import type { TimeField } from '../../../transformers/json/times/time-fields.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { type JsonObject, RecordBatch } from '../../../transformers/record-batch.ts'
import type { Transformer } from '../../../transformers/transformer.ts'

export interface Row {
  index: number
  format: string
  createdNs: bigint
  payload: JsonObject
}

/** 14 November 2023, 22:13:20, and 7 ns. */
export const createdUs = 1_700_000_000_000_000
export const createdNs = 1_700_000_000_000_000_007n

export const origin = {
  at: logPartition(0, 0),
  offset: 0,
  channel: 'channel',
  subtopic: 'house.room',
  publisher: 'thing',
  protocol: 'http',
}

export const envelope: Envelope = {
  channel: 'channel',
  subtopic: 'house.room',
  publisher: 'thing',
  protocol: 'http',
  contentType: 'application/json',
  createdUs,
  createdRestNs: 7,
}

/** Every time that a row can have. */
export const anyTime = { timeMinUs: Number.MIN_SAFE_INTEGER, timeAheadMaxUs: Number.POSITIVE_INFINITY }

export function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

export function rowsIn(batch: RecordBatch): Row[] {
  const { documents } = batch
  return Array.from({ length: documents.length }, (_, at) => ({
    index: documents.index[at]!,
    format: documents.format[at]!,
    createdNs: BigInt(documents.createdUs[at]!) * 1000n + BigInt(documents.createdRestNs[at]!),
    payload: documents.payload[at]!,
  }))
}

/** The outcome of one message: its rows, or the DecodeError. Other errors are thrown. */
export function outcomeOf(payload: Uint8Array, transformer: Transformer, used: Envelope = envelope): Row[] | DecodeError {
  const batch = new RecordBatch()
  batch.beginMessage(origin)
  try {
    transformer.decode(payload, used, batch)
  } catch (error) {
    if (error instanceof DecodeError) return error
    throw error
  }
  batch.endMessage()
  return rowsIn(batch)
}

/** The rows of a valid payload. */
export function rowsOf(payload: string, transformer = openJsonDocuments(), used = envelope): Row[] {
  const outcome = outcomeOf(utf8(payload), transformer, used)
  if (outcome instanceof DecodeError) throw outcome
  return outcome
}

/** The rule and message of a refused payload: `time-type: record 0: …`. */
export function faultOf(payload: string | Uint8Array, transformer = openJsonDocuments(), used = envelope): string {
  const outcome = outcomeOf(typeof payload === 'string' ? utf8(payload) : payload, transformer, used)
  if (!(outcome instanceof DecodeError)) throw new Error(`not refused: ${outcome.length} rows`)
  if (outcome.hint === '') throw new Error(`${outcome.rule} does not say what to do`)
  return `${outcome.rule}: ${outcome.message}`
}

/** The time in nanoseconds of a value, given as JSON text, in a time field; or the rule that refuses it. */
export function timeOf(value: string, fieldFormat: string, location?: string, used = envelope): bigint | string {
  const field: TimeField = location === undefined ? { fieldName: 't', fieldFormat } : { fieldName: 't', fieldFormat, location }
  const outcome = outcomeOf(utf8(`{"t":${value}}`), openJsonDocuments({ timeFields: [field], bounds: anyTime }), used)
  return outcome instanceof DecodeError ? outcome.rule : outcome[0]!.createdNs
}

/** The time of a text in a time field, as Date prints it, with nanoseconds; or the rule that refuses it. */
export function civilTimeOf(text: string, fieldFormat: string, location?: string, used = envelope): string {
  const ns = timeOf(JSON.stringify(text), fieldFormat, location, used)
  if (typeof ns === 'string') return ns
  const second = ns - (((ns % 1_000_000_000n) + 1_000_000_000n) % 1_000_000_000n)
  const fraction = String(ns - second)
    .padStart(9, '0')
    .replace(/0+$/, '')
  return new Date(Number(second / 1_000_000n)).toISOString().replace('.000Z', fraction === '' ? 'Z' : `.${fraction}Z`)
}
