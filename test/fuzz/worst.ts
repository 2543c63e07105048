// The most expensive known payloads for each transformer, which no generator finds by chance.

import type { Target } from './kind.ts'
import type { WorstCase } from './worst/filling.ts'
import { worstDocuments } from './worst/json.ts'
import { worstPacksOfCbor } from './worst/senml-cbor.ts'
import { worstPacksOfJson } from './worst/senml-json.ts'

export interface Worst {
  readonly name: string
  readonly target: Target
  /** The rule that refuses it, or `taken`. */
  readonly outcome: string
  /** @param bytes maximum size */
  readonly make: (bytes: number) => Uint8Array
}

function all(target: Target, cases: readonly WorstCase[]): Worst[] {
  return cases.map(([name, outcome, make]) => ({
    name: `${target}: ${name}`,
    target,
    outcome,
    make(bytes) {
      const made = make(bytes)
      return typeof made === 'string' ? Uint8Array.from(Buffer.from(made)) : made
    },
  }))
}

export const worst: readonly Worst[] = [
  ...all('senml-json', worstPacksOfJson),
  ...all('senml-cbor', worstPacksOfCbor),
  ...all('json', worstDocuments),
]
