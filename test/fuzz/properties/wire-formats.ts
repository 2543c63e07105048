// One pack in JSON and in CBOR gives the same records, whoever writes it.

import { toCbor, toJson } from '../../../bin/senml-conversion.ts'
import { DecodeError } from '../../../transformers/decode-error.ts'
import { parseExactKeys } from '../../../transformers/json/exact-json.ts'
import { Label } from '../../../transformers/senml/record.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { openCborBytes } from '../inputs/cbor-bytes.ts'
import type { Fields } from '../inputs/packs.ts'
import { packOf, writeRecord } from '../inputs/senml-cbor.ts'
import { must, type Property } from '../property.ts'
import type { Random } from '../random.ts'
import { openSlate, ordinalsDiffer, recordsDiffer, type Slate } from './slate.ts'

const utf8 = new TextDecoder()
const labels: ReadonlySet<string> = new Set(Object.keys(Label))

/** Compares a pack of JSON with the result of `toCbor`, and with CBOR written here, with numbers in any form. */
export function jsonAsCbor(json: Transformer, cbor: Transformer): Property {
  const [original, other] = [openSlate(), openSlate()]
  return {
    name: 'a pack of JSON gives the same records as CBOR',
    holds(input, random) {
      const refused = original.decode(json, input) !== undefined
      // A conversion is expensive; for most refused packs it is skipped.
      const converted = refused && !random.oneIn(8) ? undefined : convert(() => toCbor(input))
      if (refused) return
      if (converted !== undefined) mustBeSame(original, other, cbor, converted)
      mustBeSame(original, other, cbor, written(random, input))
    },
  }
}

/** Compares a pack of CBOR with the result of `toJson`. */
export function cborAsJson(json: Transformer, cbor: Transformer): Property {
  const [original, other] = [openSlate(), openSlate()]
  return {
    name: 'a pack of CBOR gives the same records as JSON',
    holds(input, random) {
      const refused = original.decode(cbor, input) !== undefined
      const converted = refused && !random.oneIn(8) ? undefined : convert(() => toJson(input))
      if (refused) return
      if (converted !== undefined) mustBeSame(original, other, json, Buffer.from(converted))
    },
  }
}

function mustBeSame(original: Slate, other: Slate, transformer: Transformer, payload: Uint8Array): void {
  const fault = other.decode(transformer, payload)
  // Only JSON has a limit for them.
  if (fault?.rule === 'label-count') return
  if (fault !== undefined) throw new Error(`the same pack in the other format is refused: ${fault.message}`, { cause: fault })
  must(recordsDiffer(original.batch.records, 0, other.batch.records, 0))
  must(ordinalsDiffer(original.batch.records, 0, other.batch.records, 0))
}

/** The result of the conversion; undefined if it refuses what the other format cannot represent. */
function convert<T>(conversion: () => T): T | undefined {
  try {
    return conversion()
  } catch (error) {
    if (error instanceof DecodeError) return undefined
    throw error
  }
}

/** The pack of a JSON text in CBOR, without unknown labels. */
function written(random: Random, json: Uint8Array): Uint8Array {
  // Not JSON.parse, which may mix up keys with escapes.
  const pack = parseExactKeys(utf8.decode(json)) as Record<string, never>[]
  return packOf(
    pack.map(record => {
      const fields: Fields = Object.entries(record).filter(([label]) => labels.has(label))
      for (const field of fields) if (field[0] === 'vd') field[1] = Buffer.from(field[1] as string, 'base64url')
      const output = openCborBytes()
      writeRecord(output, random, fields)
      return output.bytes()
    }),
  )
}
