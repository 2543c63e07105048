// An audit of the fake store. It passes test/conformance/audit.ts.

import type { AuditedLog, AuditedMessage, AuditedPartition, StoreAudit } from '../../sinks/audit.ts'
import { addDigests, digestOf, textOf } from '../../sinks/contents.ts'
import { erasuresIn } from '../../sinks/erasure.ts'
import { currentFirst } from '../../sinks/logs.ts'
import type { MessageCounts } from '../../sinks/sink.ts'
import { type Json, printJson } from '../../transformers/json/canonical.ts'
import type { StoredRow } from '../conformance/sink/fixture.ts'
import type { FakeStore } from './fake-sink.ts'

/** @param books by `<log>/<partition>`, what the store would keep beside its positions */
export function openFakeAudit(
  store: FakeStore,
  books: ReadonlyMap<string, MessageCounts & { copiedBelow?: number }> = new Map(),
): StoreAudit {
  const split = (position: bigint) => ({
    log: Number(position >> 56n),
    partition: Number((position >> 44n) & 0xfffn),
    offset: Number(position & 0xfff_ffff_ffffn),
  })
  return {
    async logs() {
      const logs = store.logs.map((known): AuditedLog => {
        const partitions = new Map<number, AuditedPartition>()
        for (const [key, nextOffset] of store.nextOffsets) {
          const [log, partition] = key.split('/').map(Number)
          const none = { received: 0, stored: 0, empty: 0, filtered: 0, skipped: 0, duplicate: 0, deadLettered: 0, lost: 0 }
          if (log === known.number) partitions.set(partition!, { nextOffset, ...none, ...books.get(key) })
        }
        return { ...known, partitions }
      })
      return currentFirst(logs)
    },

    erasures: async () => erasuresIn([...store.erasures.values()]),

    async *messages(log, partition, from, to, { contents = false } = {}) {
      const found = new Map<number, Map<number, number>>()
      const digests = new Map<number, number>()
      for (const row of store.rows) {
        const { position, index } = row
        const place = split(position)
        if (place.log !== log || place.partition !== partition || place.offset < from || place.offset >= to) continue
        const indexes = found.get(place.offset) ?? new Map<number, number>()
        found.set(place.offset, indexes.set(index, (indexes.get(index) ?? 0) + 1))
        if (contents) digests.set(place.offset, addDigests(digests.get(place.offset) ?? 0, digestOf(textOfRow(row))))
      }
      const position = (offset: number) => (BigInt(log) << 56n) | (BigInt(partition) << 44n) | BigInt(offset)
      for (const [offset, indexes] of [...found].sort(([one], [other]) => one - other)) {
        const rows = [...indexes.values()].reduce((sum, times) => sum + times, 0)
        const message = { offset, rows, doubled: rows - indexes.size, replayed: store.replayed.has(position(offset)) }
        const digest = digests.get(offset)
        yield (digest === undefined ? message : { ...message, digest }) satisfies AuditedMessage
      }
    },

    async rows(ranges, _contents, each) {
      for (const row of store.rows) {
        if (ranges.some(({ first, last }) => row.position >= first && row.position <= last))
          each(row.position, row.index, () => textOfRow(row))
      }
    },

    async replayed(log, partition, from, to) {
      const replayed = [...store.replayed].map(split).filter(one => one.log === log && one.partition === partition)
      return new Set(replayed.map(({ offset }) => offset).filter(offset => offset >= from && offset < to))
    },

    hasRows: async log => store.rows.some(({ position }) => split(position).log === log),

    async rowsOf(log, partition, offset) {
      return store.rows.filter(({ position }) => {
        const place = split(position)
        return place.log === log && place.partition === partition && place.offset === offset
      }).length
    },
  }
}

function textOfRow({ table, createdNs, payload, ...row }: StoredRow): string {
  return textOf(table, {
    ...row,
    time: row.timeUs,
    string_value: row.stringValue,
    bool_value: row.boolValue,
    data_value: row.dataValue,
    update_time: row.updateTime,
    created: createdNs,
    payload: payload === undefined ? undefined : printJson(payload as Json),
  })
}
