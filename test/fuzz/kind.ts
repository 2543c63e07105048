// A kind of hostile input: what the fuzzer, the measurement of memory and the benchmark are made of.

import type { Random } from './random.ts'

/** What an input is given to. `any` is given to each of the three transformers. */
export type Target = 'any' | 'senml-json' | 'senml-cbor' | 'json' | 'flatten' | 'unflatten'

export interface Kind {
  /** As `--kind` takes it: `senml-cbor-lengths`. */
  readonly name: string
  readonly target: Target
  /** Has its turn in one of so many rounds; 1 unless its inputs take long. */
  readonly every: number
  /** How long its inputs are when the fuzzer asks for one; undefined where they have any length. */
  readonly bytes: number | undefined
  /**
   * Makes an input; the same one for the same `random`.
   *
   * @param bytes how long it may be at most. What is made of many parts comes near it, and what cannot be as long is shorter
   */
  readonly make: (random: Random, bytes: number) => Uint8Array
}
