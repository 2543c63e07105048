// A resolved pack, written as in RFC 8428 §4.6, resolves to itself.

import { resolvedText } from '../../../bin/resolved-text.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { differ, must, type Property } from '../property.ts'
import { openSlate, recordsDiffer } from './slate.ts'

/**
 * @param versionOf the version of the resolved records of a valid pack
 * @param json the transformer for the resolved text
 */
export function resolvesToItself(transformer: Transformer, versionOf: (input: Uint8Array) => number, json: Transformer): Property {
  const [first, second] = [openSlate(), openSlate()]
  return {
    name: 'a resolved pack resolves to itself',
    holds(input) {
      if (first.decode(transformer, input) !== undefined || first.batch.records.length === 0) return
      const fault = second.decode(json, Buffer.from(resolvedText(first.batch.records, versionOf(input))))
      if (fault !== undefined) throw new Error(`the resolved pack is refused: ${fault.message}`, { cause: fault })
      must(recordsDiffer(first.batch.records, 0, second.batch.records, 0))
      for (let row = 0; row < second.batch.records.length; row++) {
        if (second.batch.records.index[row] !== row) throw new Error(differ(`index of row ${row}`, second.batch.records.index[row], row))
      }
    },
  }
}
