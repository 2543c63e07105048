// JSON documents fulfil the contract of a transformer, also through the selection by content type.

import { openJsonDocuments } from '../../../transformers/json/documents.ts'
import { openTransformer } from '../../../transformers/select.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { type TransformerUnderTest, transformerConformance } from '../../conformance/transformer.ts'
import { envelope, utf8 } from './rows.ts'

const timeFields = [
  { fieldName: 't', fieldFormat: 'unix_ns' },
  { fieldName: 'at', fieldFormat: 'rfc850', location: 'Europe/Berlin' },
]

function underTest(transformer: Transformer): TransformerUnderTest {
  return {
    transformer,
    envelope,
    accepted: [
      utf8('{"temperature":21.5}'),
      utf8('[{"t":1699999999123456789,"a":{"b":[1,"ä\\u00e4",null]}},{"t":"1699999999123456789"},{"t":1699999999123456789.5},{}]'),
      utf8('{"at":"Tuesday, 14-Nov-23 22:13:20 CET","\\u00e4":"\\ud83d\\ude00","id":8659456789564231564}'),
    ],
    empty: [utf8('[]'), utf8(' [ ] ')],
    refused: [
      utf8(''),
      utf8('1'),
      utf8('[{},1]'),
      utf8('{"a":"\\u0000"}'),
      utf8('{"a":\u001b[2J}'),
      utf8('{"\\ud800":1}'),
      utf8('{"t":"\\u001b[2J"}'),
      utf8('{"at":"\\n"}'),
      utf8('{"at":"\u009b2J\u007f"}'),
      utf8('{"t":null}'),
      utf8('{"t":0}'),
      utf8('{"a":1e999}'),
      utf8('['.repeat(65)),
      Uint8Array.of(0xff),
    ],
    refusedHalfWay: utf8('[{"t":1699999999123456789,"id":8659456789564231564},{"at":"Tuesday, 14-Nov-23 22:13:20 CET"},{"t":"never"}]'),
  }
}

transformerConformance('json documents', () => underTest(openJsonDocuments({ timeFields })))
transformerConformance('auto, for application/json', () => underTest(openTransformer({ format: 'auto', timeFields })))
