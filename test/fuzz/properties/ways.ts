// SenML JSON is read in two ways, straight from its bytes where it is plain: both must judge alike.

import type { Transformer } from '../../../transformers/transformer.ts'
import { differ, must, type Property } from '../property.ts'
import { openSlate, ordinalsDiffer, recordsDiffer } from './slate.ts'

/** Before a pack it is dropped, and makes it take the long way. */
const byteOrderMark = Uint8Array.of(0xef, 0xbb, 0xbf)

export function bothWays(transformer: Transformer): Property {
  const [short, long] = [openSlate(), openSlate()]
  return {
    name: 'the short way and the long way give the same rows, or the same fault',
    holds(input) {
      const shortFault = short.decode(transformer, input)
      const longFault = long.decode(transformer, Buffer.concat([byteOrderMark, input]))
      // A second mark is no JSON.
      if (longFault?.rule === 'json-syntax' && input[0] === byteOrderMark[0]) return
      if (shortFault?.rule !== longFault?.rule) throw new Error(differ('the rule', shortFault?.rule, longFault?.rule))
      if (shortFault?.record !== longFault?.record) throw new Error(differ('the record', shortFault?.record, longFault?.record))
      must(recordsDiffer(short.batch.records, 0, long.batch.records, 0))
      must(ordinalsDiffer(short.batch.records, 0, long.batch.records, 0))
    },
  }
}
