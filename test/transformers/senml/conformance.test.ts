// SenML JSON keeps the contract of a transformer, and so do the selections through which it is reached.

import { openAutoTransformer, openSenmlTransformer } from '../../../transformers/select.ts'
import { openSenmlJson } from '../../../transformers/senml/json.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { type TransformerUnderTest, transformerConformance } from '../../conformance/transformer.ts'
import { envelope } from './rows.ts'

function utf8(text: string): Uint8Array {
  return new TextEncoder().encode(text)
}

function underTest(transformer: Transformer): TransformerUnderTest {
  return {
    transformer,
    envelope,
    accepted: [
      utf8('[{"n":"a","v":1}]'),
      utf8(
        '[{"bn":"m:","bu":"Cel","n":"a","t":3,"v":1.5},{"n":"b","t":1,"vs":"x","s":4},{"n":"c","vb":true,"ut":1},{"n":"d","vd":"AQID"}]',
      ),
      utf8('[{"n":"a","u":"°C","vs":"\\u00e4\\n"}]'),
    ],
    empty: [utf8('[{"bn":"m:"}]')],
    refused: [
      utf8(''),
      utf8('{}'),
      utf8('[]'),
      utf8('[{"n":"\\u0000\\ud800\\u001b[2J","v":1}]'),
      utf8('[{"\\ud800\\u0007_":1}]'),
      Uint8Array.of(0xff),
    ],
    refusedHalfWay: utf8('[{"bn":"m:","bv":3,"bt":1600000000,"n":"a","v":1},{"n":"b","vs":"x"},{"n":"c"},{"n":" ","v":1}]'),
  }
}

transformerConformance('senml json', () => underTest(openSenmlJson()))
transformerConformance('auto', () => underTest(openAutoTransformer()))
transformerConformance('senml', () => underTest(openSenmlTransformer()))
