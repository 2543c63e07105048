// Messages that were dead-lettered and replayed: each is stored once, however often it is replayed, and not at all where it is stored already.
//
// That it was replayed before is in sluice.replayed, by the position it had at first. That it was stored although it has a dead letter (the
// letter is durable before the batch is, and a crash may come between) is seen from its first row, which is found by channel and time.

import type { Transaction } from '../../config/postgres/database.ts'
import { Outcome, type RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import { positionHigh, positionLow, type Rejection } from '../sink.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import type { FormatTables } from './formats.ts'

/** A replayed message with rows. */
export interface Replay {
  readonly message: number
  readonly position: bigint
  readonly format: string
  readonly channel: string
  /** Of its first row: microseconds of a record, nanoseconds of a document. */
  readonly time: bigint
}

/** The replayed messages of a batch, in its order; undefined in the ordinary flow. */
export function replaysOf({ originals, messages, records, documents }: RecordBatch): Replay[] | undefined {
  if (originals === undefined) return undefined
  const replays = new Map<number, Replay>()
  const add = (message: number, format: string, time: () => bigint): void => {
    const original = originals.get(message)
    if (original === undefined || replays.has(message) || messages.outcome[message] !== Outcome.stored) return
    const { log, partition, offset } = original
    const position = (BigInt(positionHigh(log, partition, offset)) << 32n) | BigInt(positionLow(offset))
    replays.set(message, { message, position, format, channel: messages.channel[message]!, time: time() })
  }
  for (let at = 0; at < records.length; at++) add(records.message[at]!, senmlFormat, () => BigInt(records.timeUs[at]!))
  for (let at = 0; at < documents.length; at++) {
    add(
      documents.message[at]!,
      documents.format[at]!,
      () => BigInt(documents.createdUs[at]!) * 1000n + BigInt(documents.createdRestNs[at]!),
    )
  }
  return [...replays.values()].sort((one, other) => one.message - other.message)
}

/** What is known of a batch's replays before its rows are written. */
export interface KnownReplays {
  /** Messages that are in the store, or come again in this batch. */
  readonly duplicates: Set<number>
  /** By message that comes again, the one of the same position before it. */
  readonly twins: ReadonlyMap<number, number>
}

/**
 * Holds off every other writer of replays until the transaction ends: they are rare, and two must not store the same message.
 *
 * @param replays without those that were settled before this batch
 */
export async function knownReplays(transaction: Transaction, replays: readonly Replay[], tables: FormatTables): Promise<KnownReplays> {
  const duplicates = new Set<number>()
  const twins = new Map<number, number>()
  const firsts = new Map<bigint, Replay>()
  for (const replay of replays) {
    const first = firsts.get(replay.position)
    if (first === undefined) firsts.set(replay.position, replay)
    else {
      twins.set(replay.message, first.message)
      duplicates.add(replay.message)
    }
  }
  await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('sluice.replayed', 0))`)
  const before = await transaction.query<{ position: bigint }>('SELECT position FROM sluice.replayed WHERE position = ANY ($1::bigint[])', [
    [...firsts.keys()],
  ])
  for (const { position } of before) duplicates.add(firsts.get(position)!.message)
  // A channel with a NUL is in no row, and in no parameter.
  const open = [...firsts.values()].filter(({ message, channel }) => !duplicates.has(message) && !channel.includes('\0'))
  for (const [format, some] of Map.groupBy(open, replay => replay.format)) {
    const table = format === senmlFormat ? 'public.messages' : tables.names.get(format)
    if (table === undefined) continue
    for (const { position } of await storedAmong(transaction, table, format, some)) duplicates.add(firsts.get(position)!.message)
  }
  return { duplicates, twins }
}

function storedAmong(transaction: Transaction, table: string, format: string, replays: readonly Replay[]): Promise<{ position: bigint }[]> {
  const sameTime =
    format === senmlFormat ? `stored.time = timestamptz 'epoch' + replay.time * interval '1 microsecond'` : 'stored.created = replay.time'
  return transaction.query<{ position: bigint }>(
    `SELECT position FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS replay (channel, time, position)
     WHERE EXISTS (
       SELECT FROM ${table} AS stored WHERE stored.channel = replay.channel AND ${sameTime} AND stored.position = replay.position
     )`,
    [replays.map(({ channel }) => channel), replays.map(({ time }) => time), replays.map(({ position }) => position)],
  )
}

/**
 * What was refused goes with those that came again: then none of them is in the store. The others are stored, which is noted.
 *
 * @param replays those that `knownReplays` was asked for
 */
export async function settleReplays(
  transaction: Transaction,
  replays: readonly Replay[],
  rejected: EncodedBatch['rejected'],
  { duplicates, twins }: KnownReplays,
): Promise<void> {
  for (const [message, first] of twins) {
    const rejection: Rejection | undefined = rejected.get(first)
    if (rejection === undefined) continue
    rejected.set(message, { ...rejection, message })
    duplicates.delete(message)
  }
  const stored = replays.filter(({ message }) => !duplicates.has(message) && !rejected.has(message))
  if (stored.length === 0) return
  await transaction.query('INSERT INTO sluice.replayed (position) SELECT unnest($1::bigint[])', [stored.map(({ position }) => position)])
}
