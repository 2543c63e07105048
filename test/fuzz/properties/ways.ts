// SenML JSON has two decoders, a fast one for plain packs: both must agree.

import type { Transformer } from '../../../transformers/transformer.ts'
import { differ, must, type Property } from '../property.ts'
import { openSlate, ordinalsDiffer, recordsDiffer } from './slate.ts'

/** A decoder drops it at the start of a pack, and then uses the slow path. */
const byteOrderMark = Uint8Array.of(0xef, 0xbb, 0xbf)

export function bothWays(transformer: Transformer): Property {
  const [short, long] = [openSlate(), openSlate()]
  return {
    name: 'the fast and the slow decoder give the same rows, or the same fault',
    holds(input) {
      const shortFault = short.decode(transformer, input)
      const longFault = long.decode(transformer, Buffer.concat([byteOrderMark, input]))
      // A second mark is not JSON.
      if (longFault?.rule === 'json-syntax' && input[0] === byteOrderMark[0]) return
      if (shortFault?.rule !== longFault?.rule) throw new Error(differ('the rule', shortFault?.rule, longFault?.rule))
      if (shortFault?.record !== longFault?.record) throw new Error(differ('the record', shortFault?.record, longFault?.record))
      must(recordsDiffer(short.batch.records, 0, long.batch.records, 0))
      must(ordinalsDiffer(short.batch.records, 0, long.batch.records, 0))
    },
  }
}
