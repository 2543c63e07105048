// Which batches a reader of committed messages leaves out: those of transactions that were aborted.
//
// A broker sends with each fetch the aborted transactions that its messages touch: a producer, and the offset at which its
// transaction began. From there on the producer's transactional batches are left out, until the control batch that says "aborted".
//
//   control batch   one record, its key: version int16 · type int16 (0 aborted, 1 committed)

import type { BatchHeader } from './batch-header.ts'
import { record, stepRecord } from './record-steps.ts'
import { readVarint, varint } from './varint.ts'

/** As the fetch response has it, for one partition. */
export interface AbortedTransaction {
  readonly producerId: number
  readonly firstOffset: number
}

export interface AbortedTransactions {
  /** Told every batch of the fetch in the order of the log; whether the batch is of an aborted transaction. */
  hold(batch: BatchHeader, set: Uint8Array, view: DataView): boolean
}

const abortMarker = 0

export function openAbortedTransactions(aborted: readonly AbortedTransaction[]): AbortedTransactions {
  const waiting = aborted.toSorted((left, right) => right.firstOffset - left.firstOffset)
  const open = new Set<number>()
  return {
    hold(batch, set, view) {
      for (let next = waiting.at(-1); next !== undefined && next.firstOffset <= batch.lastOffset; next = waiting.at(-1)) {
        open.add(next.producerId)
        waiting.pop()
      }
      if (open.size === 0) return false
      if (!batch.control) return batch.transactional && open.has(batch.producerId)
      if (markerType(batch, set, view) === abortMarker) open.delete(batch.producerId)
      return false
    },
  }
}

/** The type of a control batch; undefined where it cannot be read, as of one that is to come. */
function markerType({ start, end, count }: BatchHeader, set: Uint8Array, view: DataView): number | undefined {
  if (count === 0 || !stepRecord(set, start, end)) return undefined
  const at = readVarint(set, record.bodyAt)
  const length = (varint.value >>> 1) ^ -(varint.value & 1)
  return length >= 4 && at + 4 <= record.next ? view.getInt16(at + 2) : undefined
}
