// All hostile inputs of one size: some of each kind of the fuzzer, and the most expensive known ones.

import { openJsonDocuments } from '../../transformers/json/documents.ts'
import { openSenmlCbor } from '../../transformers/senml/cbor/cbor.ts'
import { openSenmlJson } from '../../transformers/senml/json.ts'
import type { Transformer } from '../../transformers/transformer.ts'
import { timeFields } from './inputs/documents.ts'
import { kinds } from './kinds.ts'
import { openRandom } from './random.ts'
import { worst } from './worst.ts'

export const formats = ['senml-json', 'senml-cbor', 'json'] as const
export type Format = (typeof formats)[number]

export interface Hostile {
  /** Of the kind, or of the worst case. */
  readonly name: string
  readonly format: Format
  /** Created on demand, because all of them together take much memory. */
  readonly make: () => Uint8Array
}

/** The transformers as a writer opens them, with time fields that the fuzzer's documents have in each format. */
export function openTransformers(): Readonly<Record<Format, Transformer>> {
  return { 'senml-json': openSenmlJson(), 'senml-cbor': openSenmlCbor(), json: openJsonDocuments({ timeFields }) }
}

function isFormat(target: string): target is Format {
  return formats.some(format => format === target)
}

/**
 * @param bytes maximum size of each
 * @param each inputs of each kind
 */
export function hostileInputs(seed: number, bytes: number, each: number): Hostile[] {
  const inputsOfKinds = kinds.flatMap(kind =>
    formats
      .filter(format => format === kind.target || kind.target === 'any')
      .flatMap(format =>
        Array.from({ length: each }, (_, ordinal): Hostile => {
          const name = kind.target === 'any' ? `${kind.name} as ${format}` : kind.name
          return { name, format, make: () => kind.make(openRandom(seed, kind.name, ordinal), bytes) }
        }),
      ),
  )
  const dearest = worst.flatMap(({ name, target, make }): Hostile[] =>
    isFormat(target) ? [{ name, format: target, make: () => make(bytes) }] : [],
  )
  return [...inputsOfKinds, ...dearest]
}
