// Replays on the fake store, by the protocol of the relational store.

import type { ReplaySink } from '../../sinks/replay.ts'
import type { Rejection } from '../../sinks/sink.ts'
import { partitionOf } from '../../transformers/log-partition.ts'
import type { StoredRow } from '../conformance/sink/index.ts'
import { type FakeStore, failed, refusalOf, rowsOf } from './fake-sink.ts'

/** Fails by `store.failures` like a sink: before anything of the batch is stored, or with its rows ready. */
export function openFakeReplaySink(store: FakeStore, logNumber: number): ReplaySink {
  return {
    async note(positions) {
      for (const position of positions) store.replayed.add(position)
    },
    async write(batch) {
      const { messages } = batch
      const failure = store.failures.shift()
      if (failure !== undefined) throw failed(failure)
      const notPassed = new Set<number>()
      for (let message = 0; message < messages.length; message++) {
        if (messages.offset[message]! >= (store.nextOffsets.get(`${logNumber}/${partitionOf(messages.at[message]!)}`) ?? 0))
          notPassed.add(message)
      }
      const refused = new Map<number, Rejection>()
      const added: (readonly [message: number, row: StoredRow])[] = []
      const isStored = (position: bigint): boolean => store.replayed.has(position) || store.rows.some(row => row.position === position)
      for (const [message, row] of rowsOf(batch, [logNumber])) {
        if (notPassed.has(message) || isStored(row.position)) continue
        const refusal = refusalOf(store, row)
        if (refusal === undefined) added.push([message, row])
        else if (!refused.has(message)) refused.set(message, { message, record: row.index, ...refusal })
      }
      for (const [message, row] of added) {
        if (refused.has(message)) continue
        store.rows.push(row)
        store.replayed.add(row.position)
      }
      return { refused, notPassed }
    },
  }
}
