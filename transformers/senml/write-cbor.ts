// Writes a SenML JSON pack as SenML CBOR, as it is: base fields, the order of labels, and labels that nobody knows are kept.

import { readExactJson } from '../json/exact-json.ts'
import { base64urlBytes } from './base64url.ts'
import { noOtherForm, quoted, tooDeep } from './cbor-faults.ts'
import { Major } from './cbor-head.ts'
import { depthMax } from './cbor-ignored.ts'
import { integerOfLabel } from './cbor-labels.ts'
import { type CborOutput, openCborOutput } from './cbor-output.ts'
import { openSenmlJson } from './json.ts'
import { anyTime, assertRight } from './right-pack.ts'

const json = openSenmlJson(anyTime)
const utf8 = new TextDecoder('utf-8', { fatal: true })

/** What JSON.parse gives, with integers beyond 2^53 as bigints where their digits are known. */
type Value = null | boolean | number | bigint | string | readonly Value[] | { readonly [key: string]: Value }

/**
 * The pack in CBOR. Labels of SenML become integers, the text of vd becomes bytes, and numbers take the shortest form that keeps
 * their value (RFC 8949 §4.1); an integer within 64 bits keeps all its digits. Its times may be any.
 *
 * @param payload a pack of `application/senml+json`
 * @throws DecodeError where the pack breaks a rule of SenML, or `other-format` or `nesting-depth` where CBOR cannot carry what
 *   stands under a label that nobody knows
 */
export function toCbor(payload: Uint8Array): Uint8Array {
  assertRight(json, payload)
  return packOf(readExactJson(utf8.decode(payload), within64Bits) as readonly Value[])
}

function within64Bits(digits: string, nearest: number): number | bigint {
  // Twenty digits and a sign; BigInt of a text is quadratic in its length.
  if (digits.length > 21) return nearest
  const integer = BigInt(digits)
  return integer < 2n ** 64n && integer >= -(2n ** 64n) ? integer : nearest
}

function packOf(pack: readonly Value[]): Uint8Array {
  const output = openCborOutput()
  output.head(Major.array, pack.length)
  for (const [index, record] of pack.entries()) writeRecord(output, record as { readonly [label: string]: Value }, index)
  return output.bytes()
}

function writeRecord(output: CborOutput, record: { readonly [label: string]: Value }, index: number): void {
  const fields = Object.entries(record)
  output.head(Major.map, fields.length)
  for (const [label, value] of fields) {
    const integer = integerOfLabel.get(label)
    if (integer === undefined) writeText(output, label, 'a label', index)
    else output.number(integer)
    if (label === 'vd') output.data(base64urlBytes(value as string)!)
    else writeValue(output, value, quoted(label), 3, index)
  }
}

/** @param depth how deep the value lies, were it an array or an object; @param where the label that it stands under */
function writeValue(output: CborOutput, value: Value, where: string, depth: number, index: number): void {
  if (typeof value === 'string') {
    writeText(output, value, where, index)
  } else if (typeof value === 'number' || typeof value === 'bigint') {
    if (value === Number.POSITIVE_INFINITY || value === Number.NEGATIVE_INFINITY)
      throw noOtherForm(`a number beyond a double under ${where}`, index)
    output.number(value)
  } else if (typeof value === 'boolean' || value === null) {
    output.simple(value)
  } else {
    if (depth > depthMax) throw tooDeep(index)
    if (Array.isArray(value)) {
      output.head(Major.array, value.length)
      for (const item of value as readonly Value[]) writeValue(output, item, where, depth + 1, index)
      return
    }
    const fields = Object.entries(value)
    output.head(Major.map, fields.length)
    for (const [key, item] of fields) {
      writeText(output, key, where, index)
      writeValue(output, item, where, depth + 1, index)
    }
  }
}

function writeText(output: CborOutput, text: string, where: string, index: number): void {
  if (!text.isWellFormed()) throw noOtherForm(`half a surrogate pair under ${where}`, index)
  output.text(text)
}
