// The audit of the example store: its rows are not ordered by position, so they are counted by a scan.

import type { StoreAudit } from '../../sinks/audit.ts'
import { storedPayload, textOf } from '../../sinks/contents.ts'
import { currentFirst } from '../../sinks/logs.ts'
import { openScanAudit } from '../../sinks/scan-audit.ts'
import { packedPosition } from '../../sinks/sink.ts'
import type { FileRow, FileStore } from './file.ts'

export function openAudit(file: FileStore): StoreAudit {
  return openScanAudit<FileRow>({
    logs: async () => currentFirst([...file.logs.values()]),
    erasures: async () => [...file.erasures.values()],
    async scan(add) {
      for (const row of file.rows.values()) add(BigInt(row.position), row.index, row)
    },
    textOf: row =>
      textOf(row.format, {
        ...row,
        time: row.timeUs,
        string_value: row.stringValue,
        bool_value: row.boolValue,
        data_value: row.dataValue === undefined ? undefined : Buffer.from(row.dataValue, 'base64'),
        update_time: row.updateTime,
        created: BigInt(row.timeUs) * 1000n + BigInt(row.restNs ?? 0),
        payload: row.payloadText === undefined ? undefined : storedPayload(row.payloadText),
      }),
    async replayed(log, partition, from, to) {
      const first = packedPosition(log, partition, 0)
      const offsets = Array.from(file.replayed, position => Number(BigInt(position) - first))
      return new Set(offsets.filter(offset => offset >= from && offset < to))
    },
    async rowsOf(log, partition, offset, { format }) {
      const position = String(packedPosition(log, partition, offset))
      return [...file.rows.values()].filter(row => row.format === format && row.position === position).length
    },
  })
}
