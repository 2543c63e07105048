// Erases rows of the example store, one at a step.

import { type ErasureFilter, erasureText, type StoreErasure } from '../../sinks/erasure.ts'
import { type FileRow, type FileStore, rowKey } from './file.ts'

export function openErasure(file: FileStore): StoreErasure {
  const meant = (filter: ErasureFilter): FileRow[] => [...file.rows.values()].filter(row => isMeant(row, filter))
  return {
    async count(filter) {
      return new Map(
        Array.from(
          Map.groupBy(meant(filter), ({ format }) => format),
          ([format, rows]) => [format, rows.length],
        ),
      )
    },
    async erase(filter, signal, onErased) {
      const rows = meant(filter)
      for (const row of rows) {
        signal.throwIfAborted()
        await file.update(() => [JSON.stringify({ erased: rowKey(row) })])
        await onErased(1)
      }
      return rows.length
    },
    note: async erasure => void (await file.update(() => [JSON.stringify({ erasure: erasure.id, text: erasureText(erasure) })])),
    close: async () => undefined,
  }
}

function isMeant({ format, channel, publisher, timeUs }: FileRow, filter: ErasureFilter): boolean {
  return (
    (filter.channel === undefined || filter.channel === channel) &&
    (filter.publisher === undefined || filter.publisher === publisher) &&
    (filter.format === undefined || filter.format === format) &&
    (filter.beforeMs === undefined || timeUs < filter.beforeMs * 1000)
  )
}
