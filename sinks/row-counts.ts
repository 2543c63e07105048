// Counts the rows of each message in a range of offsets, and how many of them are duplicates. Rows may come in any order.

/** Bits of one number. */
const maskBits = 32

export class RowCounts {
  readonly #from: number
  readonly #rows: Uint32Array
  /** For each offset, a bit for each index below 32. */
  readonly #seen: Uint32Array
  /** For each offset, a bit for each index from 32 on; only large messages have any. */
  readonly #seenAbove = new Map<number, Uint32Array>()
  readonly #doubled = new Map<number, number>()

  constructor(from: number, to: number) {
    this.#from = from
    this.#rows = new Uint32Array(Math.max(0, to - from))
    this.#seen = new Uint32Array(this.#rows.length)
  }

  covers(offset: number): boolean {
    return offset >= this.#from && offset < this.#from + this.#rows.length
  }

  /** @param offset in the range */
  add(offset: number, index: number): void {
    const at = offset - this.#from
    this.#rows[at]!++
    const mask = index < maskBits ? this.#seen : this.#maskAbove(at, index)
    const slot = index < maskBits ? at : Math.floor(index / maskBits)
    const bit = 2 ** (index % maskBits)
    if ((mask[slot]! & bit) >>> 0 === bit) this.#doubled.set(offset, (this.#doubled.get(offset) ?? 0) + 1)
    else mask[slot] = mask[slot]! | bit
  }

  rowsAt(offset: number): number {
    return this.#rows[offset - this.#from]!
  }

  doubledAt(offset: number): number {
    return this.#doubled.get(offset) ?? 0
  }

  #maskAbove(at: number, index: number): Uint32Array {
    const slot = Math.floor(index / maskBits)
    let mask = this.#seenAbove.get(at)
    if (mask === undefined || mask.length <= slot) {
      const larger = new Uint32Array(Math.max(slot + 1, (mask?.length ?? 2) * 2))
      if (mask !== undefined) larger.set(mask)
      this.#seenAbove.set(at, (mask = larger))
    }
    return mask
  }
}
