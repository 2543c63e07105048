// A sink in memory that keeps no positions: its rows have keys, so that what is written again is written over. As the stores without
// transactions do, it writes row by row, and what it had written when it fails stays.

import { countMessages } from '../../sinks/counts.ts'
import type { Rejection, Sink } from '../../sinks/sink.ts'
import type { StoredRow } from '../conformance/sink/index.ts'
import { createFakeStore, type FakeEncoded, type FakeSinkOptions, failed, refusalOf, register, rowsOf, sinkOf } from './fake-sink.ts'

export async function openFakeKeyedSink(options: FakeSinkOptions = {}): Promise<Sink<FakeEncoded>> {
  const { store = createFakeStore() } = options
  const logNumber = register(store, options)

  async function write({ batch, rejected, acknowledged }: FakeEncoded, reject: (some: readonly Rejection[]) => Promise<void>) {
    store.writes++
    await store.gate
    const rows = [...rowsOf(batch, logNumber)]
    for (const [message, row] of rows) {
      const refusal = rejected.has(message) ? undefined : refusalOf(store, row)
      if (refusal !== undefined) rejected.set(message, { message, record: row.index, ...refusal })
    }
    const fresh = [...rejected.values()].filter(({ message }) => !acknowledged.has(message))
    if (fresh.length > 0) await reject(fresh)
    for (const { message } of fresh) acknowledged.add(message)
    for (const [nth, [message, row]] of rows.entries()) {
      if (store.cut && nth >= rows.length / 2) {
        store.cut = false
        throw failed({ errorClass: 'transient' })
      }
      if (!rejected.has(message)) put(store.rows, row)
    }
    return countMessages(batch.messages, batch.ranges, rejected)
  }

  return sinkOf(logNumber, write)
}

function put(rows: StoredRow[], row: StoredRow): void {
  const at = rows.findIndex(({ table, position, index }) => table === row.table && position === row.position && index === row.index)
  if (at < 0) rows.push(row)
  else rows[at] = row
}
