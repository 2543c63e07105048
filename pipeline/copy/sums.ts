// Sums over the rows of a store, by which two stores are compared: each gives its rows in its own order, and none has to be kept.

import { addDigests, digestOf, withoutDigest } from '../../sinks/contents.ts'

/** Sums are of this many offsets of a partition, which two stores have alike or not. */
export const blockOffsets = 2 ** 14
const offsetBits = 14n

/** The number of the block of offsets that a packed position is in. Those of a partition follow each other. */
export function blockOf(position: bigint): number {
  return Number(position >> offsetBits)
}

/** The first packed position of a block. */
export function firstPosition(block: number): bigint {
  return BigInt(block) << offsetBits
}

interface Sum {
  rows: number
  digest: number
}

/** The rows of a store by block: how many, and a digest of all of them. */
export class RowSums {
  readonly #sums = new Map<number, Sum>()

  /** @param row what is compared of the row: its index, or its text */
  add(position: bigint, row: number | string): void {
    const block = blockOf(position)
    let sum = this.#sums.get(block)
    if (sum === undefined) this.#sums.set(block, (sum = { rows: 0, digest: 0 }))
    sum.rows++
    sum.digest = addDigests(sum.digest, digestOf(`${position} ${row}`))
  }

  /** Takes back a row that was added. */
  remove(position: bigint, row: number | string): void {
    const sum = this.#sums.get(blockOf(position))!
    sum.rows--
    sum.digest = withoutDigest(sum.digest, digestOf(`${position} ${row}`))
  }

  /** In the order of their positions. */
  blocks(): number[] {
    return [...this.#sums.keys()].sort((one, other) => one - other)
  }

  rowsIn(block: number): number {
    return this.#sums.get(block)?.rows ?? 0
  }

  /** The blocks whose rows are not the same, in the order of their positions. */
  differingFrom(other: RowSums): number[] {
    const blocks = new Set([...this.#sums.keys(), ...other.#sums.keys()])
    const none = { rows: 0, digest: 0 }
    return [...blocks]
      .filter(block => {
        const [one, another] = [this.#sums.get(block) ?? none, other.#sums.get(block) ?? none]
        return one.rows !== another.rows || one.digest !== another.digest
      })
      .sort((one, another) => one - another)
  }
}

/** The partition of a packed position. */
export function partitionIn(position: bigint): number {
  return Number((position >> 44n) & 0xfffn)
}

/** Its offset. */
export function offsetIn(position: bigint): number {
  return Number(position & 0xfff_ffff_ffffn)
}
