// Writes packs as SenML CBOR (RFC 8428 §6), in one of many equivalent forms.

import type { Random } from '../random.ts'
import { type CborBytes, Major, openCborBytes, writeNumber } from './cbor-bytes.ts'
import { type Fields, openPackMaker, type PackValue } from './packs.ts'

/** RFC 8428 §6, table 4. */
const integerOfLabel: ReadonlyMap<string, number> = new Map(
  Object.entries({ bver: -1, bn: -2, bt: -3, bu: -4, bv: -5, bs: -6, n: 0, u: 1, v: 2, vs: 3, vb: 4, s: 5, t: 6, ut: 7, vd: 8 }),
)

/** A pack of SenML CBOR of at most this size, or of one record. */
export function senmlCborPack(random: Random, bytes: number, oddOneIn = 8): Uint8Array {
  const pack = openPackMaker(random, oddOneIn)
  const records: Uint8Array[] = []
  // The head of the pack may take five bytes.
  let length = 5
  for (;;) {
    const output = openCborBytes()
    writeRecord(output, random, pack.next())
    length += output.length
    if (length > bytes && records.length > 0) break
    records.push(output.bytes())
  }
  return packOf(records)
}

/** A pack of encoded records. */
export function packOf(records: readonly Uint8Array[]): Uint8Array {
  const output = openCborBytes()
  output.head(Major.array, records.length)
  return Buffer.concat([output.bytes(), ...records])
}

export function writeRecord(output: CborBytes, random: Random, fields: Fields): void {
  output.head(Major.map, fields.length, random.oneIn(30) ? 1 : 0)
  for (const [label, value] of fields) {
    const integer = integerOfLabel.get(label)
    if (integer === undefined) output.text(label)
    else if (integer < 0) output.head(Major.negative, -1 - integer, random.oneIn(30) ? 1 : 0)
    else output.head(Major.unsigned, integer, random.oneIn(30) ? 1 : 0)
    if (label === 'bver' && typeof value === 'number' && Number.isInteger(value) && value > 0) output.head(Major.unsigned, value)
    else writeValue(output, random, value)
  }
}

function writeValue(output: CborBytes, random: Random, value: PackValue): void {
  if (typeof value === 'string') output.text(value)
  else if (typeof value === 'number') writeNumber(output, random, value)
  else if (value === null) output.raw([0xf6])
  else if (typeof value === 'boolean') output.raw([value ? 0xf5 : 0xf4])
  else if (value instanceof Uint8Array) output.data(value)
  else if (Array.isArray(value)) {
    output.head(Major.array, value.length)
    for (const item of value as readonly PackValue[]) writeValue(output, random, item)
  } else {
    const members = Object.entries(value as { readonly [key: string]: PackValue })
    output.head(Major.map, members.length)
    for (const [key, item] of members) {
      output.text(key)
      writeValue(output, random, item)
    }
  }
}
