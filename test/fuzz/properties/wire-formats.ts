// One pack in JSON and in CBOR gives the same records, whoever writes it.

import { DecodeError } from '../../../transformers/decode-error.ts'
import { toCbor } from '../../../transformers/senml/write-cbor.ts'
import { toJson } from '../../../transformers/senml/write-json.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { openCborBytes } from '../inputs/cbor-bytes.ts'
import type { Fields } from '../inputs/packs.ts'
import { packOf, writeRecord } from '../inputs/senml-cbor.ts'
import { must, type Property } from '../property.ts'
import type { Random } from '../random.ts'
import { openSlate, ordinalsDiffer, recordsDiffer, type Slate } from './slate.ts'

const utf8 = new TextDecoder()
const labels: ReadonlySet<string> = new Set('bver bn bt bu bv bs n u v vs vb s t ut vd'.split(' '))

/** A pack of JSON against what `toCbor` makes of it, and against what is written here, its numbers in whatever form. */
export function jsonAsCbor(json: Transformer, cbor: Transformer): Property {
  const [original, other] = [openSlate(), openSlate()]
  return {
    name: 'a pack of JSON gives the same records as CBOR',
    holds(input, random) {
      const refused = original.decode(json, input) !== undefined
      // A conversion is dear; of packs that are refused it only has to throw nothing else.
      const converted = refused && !random.oneIn(8) ? undefined : convert(() => toCbor(input))
      if (refused) return
      if (converted !== undefined) mustBeSame(original, other, cbor, converted)
      mustBeSame(original, other, cbor, written(random, input))
    },
  }
}

/** A pack of CBOR against what `toJson` makes of it. */
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
  if (fault !== undefined) throw new Error(`the same pack in the other format is refused: ${fault.message}`, { cause: fault })
  must(recordsDiffer(original.batch.records, 0, other.batch.records, 0))
  must(ordinalsDiffer(original.batch.records, 0, other.batch.records, 0))
}

/** What the conversion gives; undefined where it refuses, as it may what the other format cannot say. */
function convert<T>(conversion: () => T): T | undefined {
  try {
    return conversion()
  } catch (error) {
    if (error instanceof DecodeError) return undefined
    throw error
  }
}

/** The pack of a JSON text in CBOR, without labels that nobody knows. */
function written(random: Random, json: Uint8Array): Uint8Array {
  const pack = JSON.parse(utf8.decode(json)) as Record<string, never>[]
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
