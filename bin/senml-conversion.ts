// Converts SenML packs between JSON and CBOR without resolving them: base fields, the order of labels and unknown labels are kept. It uses cbor-x and
// serves the tools and tests only; messages never pass through it.

import { Decoder, Encoder, Tag } from 'cbor-x'
import { DecodeError } from '../transformers/decode-error.ts'
import { parseExactKeys } from '../transformers/json/exact-json.ts'
import { logPartition } from '../transformers/log-partition.ts'
import { type MessageOrigin, RecordBatch } from '../transformers/record-batch.ts'
import { base64urlBytes } from '../transformers/senml/base64url.ts'
import { openSenmlCbor } from '../transformers/senml/cbor/cbor.ts'
import { noOtherForm, quoted, tooDeep } from '../transformers/senml/cbor/faults.ts'
import { integerOfLabel, nameOfInteger } from '../transformers/senml/cbor/labels.ts'
import { openSenmlJson } from '../transformers/senml/json.ts'
import type { TimeBounds, Transformer } from '../transformers/transformer.ts'

/** A clock that is wrong is no reason not to convert. */
const anyTime: TimeBounds = { timeMinUs: Number.NEGATIVE_INFINITY, timeAheadMaxUs: Number.POSITIVE_INFINITY }
const json = openSenmlJson(anyTime)
const cbor = openSenmlCbor(anyTime)
const encoder = new Encoder({ useRecords: false, mapsAsObjects: false, tagUint8Array: false, variableMapSize: true })
const decoder = new Decoder({ useRecords: false, mapsAsObjects: false })

/**
 * The pack in CBOR: SenML labels become integers, the text of vd becomes bytes. Any time is allowed; integers beyond 2^53 are rounded to doubles.
 *
 * @param payload a pack of `application/senml+json`
 * @throws DecodeError if the pack breaks a rule of SenML, or would break one in CBOR
 */
export function toCbor(payload: Uint8Array): Uint8Array {
  assertRight(json, payload)
  const encoded = encodePack(new TextDecoder().decode(payload))
  // CBOR also has rules for the values under unknown labels, for example how deep they may be nested.
  assertRight(cbor, encoded)
  return encoded
}

/**
 * The pack in JSON: integer labels become names, bytes become base64url, and a value that JSON cannot express becomes null (RFC 8949 §6.1). Any time
 * is allowed; integers beyond 2^53 are rounded to doubles.
 *
 * @param payload a pack of `application/senml+cbor`
 * @throws DecodeError if the pack breaks a rule of SenML
 */
export function toJson(payload: Uint8Array): string {
  assertRight(cbor, payload)
  let pack: Map<unknown, unknown>[]
  try {
    pack = decoder.decode(payload) as Map<unknown, unknown>[]
  } catch (cause) {
    // The pack was checked, so the value is under an unknown label: an unassigned simple value, for example.
    throw new DecodeError('other-format', `a value cannot be read (${(cause as Error).message})`, {
      cause,
      hint: 'leave it out: it is not part of SenML',
    })
  }
  return JSON.stringify(pack.map((record, index) => objectOf(record, label => nameOf(label, index))))
}

function nameOf(label: unknown, record: number): string {
  // As text it is an unknown label in CBOR, but in JSON it would become the SenML label of that name.
  if (integerOfLabel.has(label as string))
    throw noOtherForm(`${quoted(label as string)}, which CBOR accepts as a SenML label only as an integer,`, record)
  // cbor-x gives a bigint for an integer in the longest form.
  return nameOfInteger.get(typeof label === 'bigint' ? Number(label) : (label as number)) ?? String(label)
}

function encodePack(text: string): Uint8Array {
  try {
    // Not JSON.parse, which may confuse keys with escapes.
    const pack = parseExactKeys(text) as readonly Readonly<Record<string, unknown>>[]
    for (const record of pack) assertWellFormed('', record)
    return encoder.encode(pack.map(record => new Map(Object.entries(record).map(cborEntry))))
  } catch (error) {
    // JSON.parse with a reviver is recursive, and so is the encoder. SenML JSON allows any depth under an unknown label, CBOR four levels.
    if (error instanceof RangeError) throw tooDeep(undefined)
    throw error
  }
}

function cborEntry([label, value]: [string, unknown]): [string | number, unknown] {
  return [integerOfLabel.get(label) ?? label, label === 'vd' ? base64urlBytes(value as string)! : value]
}

/** @throws DecodeError for half a surrogate pair, which CBOR cannot carry */
function assertWellFormed(key: string, value: unknown): void {
  if (!key.isWellFormed() || (typeof value === 'string' && !value.isWellFormed()))
    throw noOtherForm(`half a surrogate pair under ${quoted(key)}`)
  if (typeof value === 'object' && value !== null) for (const [inner, one] of Object.entries(value)) assertWellFormed(inner, one)
}

function objectOf(map: ReadonlyMap<unknown, unknown>, nameOf: (key: unknown) => string): object {
  return Object.fromEntries([...map].map(([key, value]) => [nameOf(key), jsonOf(value)]))
}

function jsonOf(value: unknown): unknown {
  // A decimal fraction (RFC 8949 §3.4.4), the only tag in a valid pack.
  if (value instanceof Tag) {
    const [exponent, mantissa] = value.value as [number, number]
    return Number(`${mantissa}e${exponent}`)
  }
  if (value instanceof Map) return objectOf(value, String)
  if (value instanceof Uint8Array) return Buffer.from(value).toString('base64url')
  if (Array.isArray(value)) return value.map(jsonOf)
  if (typeof value === 'bigint') return Number(value)
  return typeof value === 'string' || typeof value === 'boolean' || typeof value === 'number' ? value : null
}

const noOrigin: MessageOrigin = { at: logPartition(0, 0), offset: 0, channel: '', subtopic: '', publisher: '', protocol: '' }

/** @throws DecodeError where the pack breaks a rule of the transformer */
function assertRight(transformer: Transformer, payload: Uint8Array): void {
  const batch = new RecordBatch()
  batch.beginMessage(noOrigin)
  transformer.decode(payload, { ...noOrigin, contentType: '', createdUs: 0, createdRestNs: 0 }, batch)
}
