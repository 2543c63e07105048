// The audit for stores that do not return rows in the order of positions: it scans them, counts them, and adds up their digests.
//
// Rows are counted into arrays that cover one slice of the requested offsets. One scan covers several partitions if they fit into a slice together; a
// range of several slices takes one scan for each.

import type { AuditedLog, AuditedMessage, AuditedRange, MessagesOptions, PositionRange, StoreAudit } from './audit.ts'
import { addDigests, digestOf } from './contents.ts'
import { erasuresIn } from './erasure.ts'
import type { RegisteredLog } from './logs.ts'
import { limits, packedPosition } from './sink.ts'

/** One scan covers a partition of usual size: 48 MB of counters, and as much for digests. */
const sliceOffsets = 6_000_000
/** The low bits of a packed position. */
const offsetMask = 0xfff_ffff_ffffn

/** @param position packed */
export type AddRow<Row> = (position: bigint, index: number, row: Row) => void

/** What the store provides. Every method throws the errors of the store's driver. `Row` is a row in the store's own form. */
export interface ScannedRows<Row> {
  logs(): Promise<readonly RegisteredLog[]>
  /** The notes of erasures, in any order. */
  erasures(): Promise<readonly string[]>
  /**
   * Calls `add` for every row in these ranges, in any order. A store without an index by position scans all its rows.
   *
   * @param contents whether rows need all their columns, and not only position and index
   */
  scan(add: AddRow<Row>, ranges: readonly PositionRange[], contents: boolean): Promise<void>
  /** The text of a row with all its columns: `textOf`. */
  textOf(row: Row): string
  readonly replayed: StoreAudit['replayed']
  readonly rowsOf: StoreAudit['rowsOf']
  readonly statementOf?: NonNullable<StoreAudit['statementOf']>
}

export function openScanAudit<Row>(rows: ScannedRows<Row>): StoreAudit {
  /** Ranges that were counted along with another one, before they are asked for. */
  const ahead = new Map<string, RowCounts>()

  /** Counts the rows of a range and, in the same scan, of as many of the next ranges as fit. */
  async function countRows(log: number, range: AuditedRange, { after = [], contents = false }: MessagesOptions): Promise<RowCounts> {
    const name = nameOf(log, range, contents)
    const known = ahead.get(name)
    if (known !== undefined) {
      ahead.delete(name)
      return known
    }
    ahead.clear()
    const counts = new RowCounts(range.from, range.to, contents)
    const byPartition = new Map([[packedPosition(log, range.partition, 0), counts]])
    const ranges = [scannedRange(log, range)]
    const next = new Map<string, RowCounts>()
    let left = sliceOffsets - (range.to - range.from)
    for (const other of after) {
      const first = packedPosition(log, other.partition, 0)
      left -= other.to - other.from
      if (left < 0 || byPartition.has(first)) break
      const others = new RowCounts(other.from, other.to, contents)
      byPartition.set(first, others)
      ranges.push(scannedRange(log, other))
      next.set(nameOf(log, other, contents), others)
    }
    const count = (position: bigint, index: number, row: Row): void => {
      const counted = byPartition.get(position & ~offsetMask)
      const offset = Number(position & offsetMask)
      if (counted?.covers(offset) !== true) return
      counted.add(offset, index)
      if (contents) counted.addDigest(offset, digestOf(rows.textOf(row)))
    }
    await rows.scan(count, ranges, contents)
    // Only after the scan: counts of a scan that is running or has failed are incomplete.
    for (const [name, counted] of next) ahead.set(name, counted)
    return counts
  }

  return {
    logs: async () => (await rows.logs()).map((log): AuditedLog => ({ ...log, partitions: new Map() })),
    erasures: async () => erasuresIn(await rows.erasures()),
    rowsOf: (...of) => rows.rowsOf(...of),
    replayed: (...of) => rows.replayed(...of),
    ...(rows.statementOf === undefined ? {} : { statementOf: rows.statementOf }),
    async hasRows(log) {
      let found = false
      const all = { first: packedPosition(log, 0, 0), last: packedPosition(log, limits.partition, limits.offset) }
      await rows.scan(position => (found ||= Number(position >> 56n) === log), [all], false)
      return found
    },
    rows: (ranges, contents, each) => rows.scan((position, index, row) => each(position, index, () => rows.textOf(row)), ranges, contents),
    async *messages(log, partition, from, to, options = {}): AsyncGenerator<AuditedMessage> {
      if (log > limits.log || partition > limits.partition) return
      const end = Math.min(to, limits.offset + 1)
      for (let start = from; start < end; start += sliceOffsets) {
        const stop = Math.min(start + sliceOffsets, end)
        const counts = await countRows(log, { partition, from: start, to: stop }, stop === end ? options : { ...options, after: [] })
        const again = await rows.replayed(log, partition, start, stop)
        for (let offset = start; offset < stop; offset++) {
          const count = counts.rowsAt(offset)
          if (count === 0) continue
          const digest = counts.digestAt(offset)
          const message = { offset, rows: count, doubled: counts.doubledAt(offset), replayed: again.has(offset) }
          yield digest === undefined ? message : { ...message, digest }
        }
      }
    },
  }
}

function scannedRange(log: number, { partition, from, to }: AuditedRange): PositionRange {
  return { first: packedPosition(log, partition, from), last: packedPosition(log, partition, to - 1) }
}

function nameOf(log: number, { partition, from, to }: AuditedRange, contents: boolean): string {
  return `${log}/${partition}/${from}/${to}/${contents}`
}

/** Bits of one number. */
const maskBits = 32

/** Counts the rows of each message in a range of offsets, and how many of them are duplicates. Rows may come in any order. */
export class RowCounts {
  readonly #from: number
  readonly #rows: Uint32Array
  /** For each offset, a bit for each index below 32. */
  readonly #seen: Uint32Array
  /** For each offset, a bit for each index from 32 on; only large messages have any. */
  readonly #seenAbove = new Map<number, Uint32Array>()
  readonly #doubled = new Map<number, number>()
  readonly #digests: Float64Array | undefined

  /** @param contents whether digests are added, too */
  constructor(from: number, to: number, contents = false) {
    this.#from = from
    this.#rows = new Uint32Array(Math.max(0, to - from))
    this.#seen = new Uint32Array(this.#rows.length)
    this.#digests = contents ? new Float64Array(this.#rows.length) : undefined
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

  addDigest(offset: number, digest: number): void {
    const at = offset - this.#from
    this.#digests![at] = addDigests(this.#digests![at]!, digest)
  }

  digestAt(offset: number): number | undefined {
    return this.#digests?.[offset - this.#from]
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
