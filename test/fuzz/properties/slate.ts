// A reused batch with one message at a time, and comparisons of rows.

import { DecodeError } from '../../../transformers/decode-error.ts'
import type { Envelope } from '../../../transformers/envelope.ts'
import { type DocumentColumns, type JsonValue, Outcome, RecordBatch, type RecordColumns } from '../../../transformers/record-batch.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { createdUs, origin } from '../../transformers/json/rows.ts'
import { differ } from '../property.ts'

export const envelope: Envelope = { ...origin, contentType: '', createdUs, createdRestNs: 7 }

export interface Slate {
  readonly batch: RecordBatch
  /** Decodes one message into the empty batch. Returns the error of a refused one, which leaves no row. */
  decode(transformer: Transformer, payload: Uint8Array): DecodeError | undefined
}

export function openSlate(): Slate {
  const batch = new RecordBatch()
  batch.beginMessage(origin)
  return {
    batch,
    decode(transformer, payload) {
      batch.dropRows(Outcome.filtered)
      try {
        transformer.decode(payload, envelope, batch)
        return undefined
      } catch (error) {
        batch.dropRows(Outcome.deadLettered)
        if (error instanceof DecodeError) return error
        throw error
      }
    },
  }
}

/** Compared by `ordinalsDiffer`, or the same in each row of a message. */
const otherColumns: ReadonlySet<string> = new Set(['length', 'message', 'index'])

/** The difference between the records from two places on, without their ordinals; undefined if there is none. */
export function recordsDiffer(one: RecordColumns, from: number, other: RecordColumns, otherFrom: number): string | undefined {
  const count = one.length - from
  if (other.length - otherFrom !== count) return differ('rows', count, other.length - otherFrom)
  for (const column of Object.keys(one) as (keyof RecordColumns)[]) {
    if (otherColumns.has(column)) continue
    const [left, right] = [one[column] as ArrayLike<unknown>, other[column] as ArrayLike<unknown>]
    for (let row = 0; row < count; row++) {
      const [mine, yours] = [left[from + row], right[otherFrom + row]]
      if (!Object.is(mine, yours) && !sameBytes(mine, yours)) return differ(`${column} of row ${row}`, mine, yours)
    }
  }
  return undefined
}

function sameBytes(one: unknown, other: unknown): boolean {
  return one instanceof Uint8Array && other instanceof Uint8Array && Buffer.compare(one, other) === 0
}

/** The difference between the ordinals of records; undefined if there is none. */
export function ordinalsDiffer(one: RecordColumns, from: number, other: RecordColumns, otherFrom: number): string | undefined {
  for (let row = 0; from + row < one.length; row++) {
    if (one.index[from + row] !== other.index[otherFrom + row])
      return differ(`index of row ${row}`, one.index[from + row], other.index[otherFrom + row])
  }
  return undefined
}

export function documentsDiffer(one: DocumentColumns, from: number, other: DocumentColumns, otherFrom: number): string | undefined {
  const count = one.length - from
  if (other.length - otherFrom !== count) return differ('documents', count, other.length - otherFrom)
  for (let row = 0; row < count; row++) {
    for (const column of ['index', 'format', 'createdUs', 'createdRestNs'] as const) {
      const [mine, yours] = [one[column][from + row], other[column][otherFrom + row]]
      if (!Object.is(mine, yours)) return differ(`${column} of document ${row}`, mine, yours)
    }
    const [mine, yours] = [one.payload[from + row]!, other.payload[otherFrom + row]!]
    if (!sameJson(mine, yours)) return differ(`document ${row}`, mine, yours)
  }
  return undefined
}

/**
 * Whether two values are the same, to the digit, in any order of keys.
 *
 * @param exactly false: a bigint may equal the double with the same text, and -0 may equal 0
 */
export function sameJson(one: unknown, other: unknown, exactly = true): boolean {
  if (Object.is(one, other)) return true
  if (!exactly && one === other) return true
  if (typeof one === 'bigint') return !exactly && !Number.isSafeInteger(other) && Number(one) === other
  if (typeof one !== 'object' || typeof other !== 'object' || one === null || other === null) return false
  if (Array.isArray(one) || Array.isArray(other)) {
    if (!Array.isArray(one) || !Array.isArray(other) || one.length !== other.length) return false
    for (let at = 0; at < one.length; at++) if (!sameJson(one[at], other[at], exactly)) return false
    return true
  }
  if (Object.getPrototypeOf(one) !== Object.prototype || Object.getPrototypeOf(other) !== Object.prototype) return false
  let keys = 0
  for (const key in one) {
    if (!Object.hasOwn(other, key)) return false
    if (!sameJson((one as Record<string, JsonValue>)[key], (other as Record<string, JsonValue>)[key], exactly)) return false
    keys++
  }
  return Object.keys(other).length === keys
}
