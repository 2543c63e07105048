// SenML JSON and CBOR fulfil the contract of a transformer, also through the selections by content type.

import { openTransformer } from '../../../transformers/select.ts'
import { openSenmlCbor } from '../../../transformers/senml/cbor/cbor.ts'
import { openSenmlJson } from '../../../transformers/senml/json.ts'
import type { Transformer } from '../../../transformers/transformer.ts'
import { type TransformerUnderTest, transformerConformance } from '../../conformance/transformer.ts'
import { bytesOf } from './cbor/cbor-rows.ts'
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

/** Without the root object, which `auto` reads as JSON. */
function takingArrays(transformer: Transformer): TransformerUnderTest {
  const all = underTest(transformer)
  return { ...all, refused: all.refused.filter(payload => payload[0] !== '{'.charCodeAt(0)) }
}

/** Every pack whose first record looks like one. */
function unlabelled(transformer: Transformer): TransformerUnderTest {
  return { ...takingArrays(transformer), envelope: { ...envelope, contentType: '', subtopic: '' } }
}

/** The same packs in CBOR, and others that it refuses. */
function cborUnderTest(transformer: Transformer): TransformerUnderTest {
  return {
    transformer,
    envelope: { ...envelope, contentType: 'application/senml+cbor' },
    accepted: [
      bytesOf("81 a2 00 61 'a' 02 01"),
      bytesOf(`84
        a5 21 62 'm:' 23 63 'Cel' 00 61 'a' 06 03 02 f9 3e00
        a4 00 61 'b' 06 01 03 61 'x' 05 c4 82 00 04
        a3 00 61 'c' 04 f5 07 fa 3f800000
        a3 00 61 'd' 08 43 010203 65 'other' 82 01 a1 02 03`),
      bytesOf("81 a3 00 61 'a' 01 63 c2b0 'C' 03 63 c3a4 0a"),
    ],
    empty: [bytesOf("81 a1 21 62 'm:'")],
    refused: [
      bytesOf(''),
      bytesOf('a0'),
      bytesOf('80'),
      bytesOf("81 a2 00 68 00 c2b0 1b '[2J' 20 02 01"),
      bytesOf("81 a1 63 c28f 07 '_' 01"),
      bytesOf("81 a2 00 61 'a' 08 5b ffffffffffffffff"),
      bytesOf('ff'),
      bytesOf("81 a2 00 61 'a' 02 01 00"),
    ],
    refusedHalfWay: bytesOf("84 a5 21 62 'm:' 24 03 22 1a 5f5e1000 00 61 'a' 02 01 a2 00 61 'b' 03 61 'x' a1 00 61 'c' a2 00 61 ' ' 02 01"),
  }
}

transformerConformance('senml cbor', () => cborUnderTest(openSenmlCbor()))
transformerConformance('auto, of CBOR', () => cborUnderTest(openTransformer({ format: 'auto' })))
transformerConformance('senml json', () => underTest(openSenmlJson()))
transformerConformance('auto', () => takingArrays(openTransformer({ format: 'auto' })))
transformerConformance('auto, without a content type', () => unlabelled(openTransformer({ format: 'auto' })))
transformerConformance('senml', () => underTest(openTransformer({ format: 'senml' })))
