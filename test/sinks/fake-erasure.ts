// Erases rows of the fake store, one at a step.

import { type ErasureFilter, erasureText, type StoreErasure } from '../../sinks/erasure.ts'
import type { StoredRow } from '../conformance/sink/fixture.ts'
import type { FakeStore } from './fake-sink.ts'

export function openFakeErasure(store: FakeStore): StoreErasure {
  return {
    async count(filter) {
      const counts = new Map<string, number>()
      for (const row of store.rows) if (isMeant(row, filter)) counts.set(row.table, (counts.get(row.table) ?? 0) + 1)
      return counts
    },
    async erase(filter, signal, onErased) {
      let erased = 0
      for (let at = store.rows.length - 1; at >= 0; at--) {
        if (!isMeant(store.rows[at]!, filter)) continue
        signal.throwIfAborted()
        store.rows.splice(at, 1)
        erased++
        await onErased(1)
      }
      return erased
    },
    async note(erasure) {
      store.erasures.set(erasure.id, erasureText(erasure))
    },
    close: async () => undefined,
  }
}

function isMeant({ table, channel, publisher, timeUs, createdNs }: StoredRow, filter: ErasureFilter): boolean {
  const us = createdNs === undefined ? timeUs! : Number(createdNs / 1000n)
  return (
    (filter.channel === undefined || filter.channel === channel) &&
    (filter.publisher === undefined || filter.publisher === publisher) &&
    (filter.format === undefined || filter.format === table) &&
    (filter.beforeMs === undefined || us < filter.beforeMs * 1000)
  )
}
