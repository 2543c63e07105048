// The dearest payloads that anybody could think of, for each transformer: what no generator comes upon by chance.

import type { Target } from './kind.ts'
import { worstDocuments } from './worst/json.ts'
import { worstPacksOfCbor } from './worst/senml-cbor.ts'
import { worstPacksOfJson } from './worst/senml-json.ts'

export interface Worst {
  readonly name: string
  readonly target: Target
  /** The rule by which it is refused, or `taken`. */
  readonly outcome: string
  /** @param bytes how long it may be at most */
  readonly make: (bytes: number) => Uint8Array
}

/** A line of a table of the worst: its name, its outcome, and how it is made. */
export type WorstCase = readonly [name: string, outcome: string, make: (bytes: number) => string | Uint8Array]

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
