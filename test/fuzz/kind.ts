// A kind of hostile input, for the fuzzer, the measurement of memory and the benchmark.

import type { Random } from './random.ts'

/** Where an input is used. `any` is decoded by each of the three transformers. */
export type Target = 'any' | 'senml-json' | 'senml-cbor' | 'json' | 'flatten' | 'unflatten'

export interface Kind {
  /** The value of `--kind`: `senml-cbor-lengths`. */
  readonly name: string
  readonly target: Target
  /** Runs in one of this many rounds; 1 unless its inputs take long. */
  readonly every: number
  /** The size of its inputs in the fuzzer; undefined for any size. */
  readonly bytes: number | undefined
  /**
   * Creates an input; the same one for the same `random`.
   *
   * @param bytes maximum size. Inputs of many parts come close to it, and those that cannot be as long are shorter
   */
  readonly make: (random: Random, bytes: number) => Uint8Array
}
