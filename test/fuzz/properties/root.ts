// Without a content type, a message is read by its root, as one of two transformers would read it.

import { openJsonDocuments } from '../../../transformers/json/documents.ts'
import { openReadAs, openTransformer } from '../../../transformers/select.ts'
import { openSenmlJson } from '../../../transformers/senml/json.ts'
import { differ, must, type Property } from '../property.ts'
import { documentsDiffer, envelope, openSlate, recordsDiffer } from './slate.ts'

export function readByRoot(payloadBytesMax: number): Property {
  const readAs = openReadAs({ format: 'auto' })
  const auto = openTransformer({ format: 'auto' }, {}, { payloadBytesMax })
  const chosen = new Map([
    ['application/senml+json', openSenmlJson()],
    ['application/json', openJsonDocuments({ payloadBytesMax })],
  ])
  const [one, other] = [openSlate(), openSlate()]
  return {
    name: 'without a content type, a message is read as one of SenML JSON and JSON documents, by its root',
    holds(input) {
      const fault = one.decode(auto, input)
      const otherFault = other.decode(chosen.get(readAs(envelope, input))!, input)
      if (fault?.rule !== otherFault?.rule) throw new Error(differ('the rule', fault?.rule, otherFault?.rule))
      must(recordsDiffer(one.batch.records, 0, other.batch.records, 0))
      must(documentsDiffer(one.batch.documents, 0, other.batch.documents, 0))
    },
  }
}
