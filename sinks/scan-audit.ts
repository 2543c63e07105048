// The audit for stores that do not return rows in the order of positions: it scans them and counts them.
//
// Rows are counted into arrays that cover one slice of the requested offsets. One scan covers several partitions if they fit into a slice together; a
// range of several slices takes one scan for each.

import type { AuditedLog, AuditedMessage, AuditedRange, StoreAudit } from './audit.ts'
import type { RegisteredLog } from './logs.ts'
import { RowCounts } from './row-counts.ts'
import { limits, packedPosition } from './sink.ts'

/** One scan covers a partition of usual size: 48 MB of counters. */
const sliceOffsets = 6_000_000
/** The low bits of a packed position. */
const offsetMask = 0xfff_ffff_ffffn

/** @param position packed */
export type AddRow = (position: bigint, index: number) => void

/** Packed positions, both included. */
export interface ScannedRange {
  readonly first: bigint
  readonly last: bigint
}

/** What the store provides. Every method throws the errors of the store's driver. */
export interface ScannedRows {
  logs(): Promise<readonly RegisteredLog[]>
  /** Calls `add` for every row in these ranges, in any order. A store without an index by position scans all its rows. */
  scan(add: AddRow, ranges: readonly ScannedRange[]): Promise<void>
  /** The offsets in `[from, to)` of messages that were stored by a replay. */
  replayed(log: number, partition: number, from: number, to: number): Promise<ReadonlySet<number>>
  readonly rowsOf: StoreAudit['rowsOf']
  readonly statementOf?: NonNullable<StoreAudit['statementOf']>
}

export function openScanAudit(rows: ScannedRows): StoreAudit {
  /** Ranges that were counted along with another one, before they are asked for. */
  const ahead = new Map<string, RowCounts>()

  /** Counts the rows of a range and, in the same scan, of as many of the next ranges as fit. */
  async function countRows(log: number, range: AuditedRange, after: readonly AuditedRange[]): Promise<RowCounts> {
    const known = ahead.get(nameOf(log, range))
    if (known !== undefined) {
      ahead.delete(nameOf(log, range))
      return known
    }
    ahead.clear()
    const counts = new RowCounts(range.from, range.to)
    const byPartition = new Map([[packedPosition(log, range.partition, 0), counts]])
    const ranges = [scannedRange(log, range)]
    const next = new Map<string, RowCounts>()
    let left = sliceOffsets - (range.to - range.from)
    for (const other of after) {
      const first = packedPosition(log, other.partition, 0)
      left -= other.to - other.from
      if (left < 0 || byPartition.has(first)) break
      const others = new RowCounts(other.from, other.to)
      byPartition.set(first, others)
      ranges.push(scannedRange(log, other))
      next.set(nameOf(log, other), others)
    }
    await rows.scan((position, index) => {
      const counted = byPartition.get(position & ~offsetMask)
      const offset = Number(position & offsetMask)
      if (counted?.covers(offset) === true) counted.add(offset, index)
    }, ranges)
    // Only after the scan: counts of a scan that is running or has failed are incomplete.
    for (const [name, counted] of next) ahead.set(name, counted)
    return counts
  }

  return {
    logs: async () => (await rows.logs()).map((log): AuditedLog => ({ ...log, partitions: new Map() })),
    rowsOf: (...of) => rows.rowsOf(...of),
    ...(rows.statementOf === undefined ? {} : { statementOf: rows.statementOf }),
    async hasRows(log) {
      let found = false
      const all = { first: packedPosition(log, 0, 0), last: packedPosition(log, limits.partition, limits.offset) }
      await rows.scan(position => (found ||= Number(position >> 56n) === log), [all])
      return found
    },
    async *messages(log, partition, from, to, after = []): AsyncGenerator<AuditedMessage> {
      if (log > limits.log || partition > limits.partition) return
      const end = Math.min(to, limits.offset + 1)
      for (let start = from; start < end; start += sliceOffsets) {
        const stop = Math.min(start + sliceOffsets, end)
        const counts = await countRows(log, { partition, from: start, to: stop }, stop === end ? after : [])
        const again = await rows.replayed(log, partition, start, stop)
        for (let offset = start; offset < stop; offset++) {
          const count = counts.rowsAt(offset)
          if (count > 0) yield { offset, rows: count, doubled: counts.doubledAt(offset), replayed: again.has(offset) }
        }
      }
    },
  }
}

function scannedRange(log: number, { partition, from, to }: AuditedRange): ScannedRange {
  return { first: packedPosition(log, partition, from), last: packedPosition(log, partition, to - 1) }
}

function nameOf(log: number, { partition, from, to }: AuditedRange): string {
  return `${log}/${partition}/${from}/${to}`
}
