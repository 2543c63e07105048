// Finds the batches of aborted transactions, which a reader of committed messages must skip.
//
// With each fetch a broker sends the aborted transactions in its range: the producer, and the offset at which its
// transaction started. From there on the producer's transactional batches are skipped, until the control batch "aborted".
//
//   control batch   one record, its key: version int16 · type int16 (0 aborted, 1 committed)

import type { BatchHeader } from './batch-header.ts'
import { record, stepRecord } from './record-steps.ts'
import { readVarint, varint } from './varint.ts'

/** As in the fetch response, for one partition. */
export interface AbortedTransaction {
  readonly producerId: number
  readonly firstOffset: number
}

export interface AbortedTransactions {
  /** Whether the batch belongs to an aborted transaction. Call it for every batch of the fetch, in log order. */
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

/** The type of a control batch; undefined if it is unreadable, for example of a future version. */
function markerType({ start, end, count }: BatchHeader, set: Uint8Array, view: DataView): number | undefined {
  if (count === 0 || !stepRecord(set, start, end)) return undefined
  const at = readVarint(set, record.bodyAt)
  const length = (varint.value >>> 1) ^ -(varint.value & 1)
  return length >= 4 && at + 4 <= record.next ? view.getInt16(at + 2) : undefined
}
