// Which messages were stored by a replay: a point each in the registry, by log and partition, whose time is the offset in nanoseconds.

import { Outcome } from '../../transformers/record-batch.ts'
import { cell } from './annotated-csv.ts'
import type { Connection } from './connection.ts'
import { type EncodedBatch, placeOf } from './encoded-batch.ts'
import { fluxFrom, fluxWhere, nsOf } from './flux.ts'
import { writeRegistry } from './registry.ts'

const measurement = 'replayed'

/** Notes those of the batch's messages that were replayed and are stored now. */
export async function noteReplays(connection: Connection, encoded: EncodedBatch, signal: AbortSignal): Promise<void> {
  const { messages, originals, rejected } = encoded
  const lines: string[] = []
  for (const [message, { log, partition, offset }] of originals ?? []) {
    if (messages.outcome[message] !== Outcome.stored || rejected.has(message)) continue
    lines.push(`${measurement},log=${log},partition=${partition} stored=true ${offset}`)
  }
  if (lines.length > 0) await writeRegistry(connection, lines, signal)
}

/** Those of these messages that were stored by a replay, of this batch's place or of another's. */
export async function replayedAmong(
  connection: Connection,
  encoded: EncodedBatch,
  messages: ReadonlySet<number>,
  logNumber: number,
  signal?: AbortSignal,
): Promise<Set<number>> {
  const replayed = new Set<number>()
  const places = [...messages].map(message => ({ message, ...placeOf(encoded, logNumber, message) }))
  for (const some of Map.groupBy(places, ({ log, partition }) => `${log}/${partition}`).values()) {
    const { log, partition } = some[0]!
    const offsets = some.map(({ offset }) => offset)
    const stored = await replayedOffsets(connection, log, partition, Math.min(...offsets), Math.max(...offsets) + 1, signal)
    for (const { message, offset } of some) if (stored.has(offset)) replayed.add(message)
  }
  return replayed
}

/** The offsets in `[from, to)` of messages that were stored by a replay. */
export async function replayedOffsets(
  connection: Connection,
  log: number,
  partition: number,
  from: number,
  to: number,
  signal?: AbortSignal,
): Promise<Set<number>> {
  const offsets = new Set<number>()
  const source = fluxFrom(connection.registryBucket, { startNs: BigInt(from), stopNs: BigInt(to) })
  const where = fluxWhere({ _measurement: measurement, log: String(log), partition: String(partition) })
  for await (const rows of connection.query(source + where, signal)) for (const row of rows) offsets.add(Number(nsOf(cell(row, '_time')!)))
  return offsets
}
