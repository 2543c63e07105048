// The transaction of a batch: at once where nothing is expected to go wrong with it, else step by step.
//
// At once is one exchange with the server: it locks the partitions, compares, moves them on, COPYs and commits without waiting for us, while the
// next batch is being decoded. It fails as a whole where the store has gone on elsewhere or refuses a row; then nothing of it is
// there, and the steps find out which. Both are the protocol of README.md.

import { unlessAborted } from '../../config/aborting.ts'
import type { Database, Step, Transaction } from '../../config/postgres/database.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { countMessages } from '../counts.ts'
import type { MessageCounts, Positions, Reject, Rejection } from '../sink.ts'
import { documentColumns, recordColumns } from './encode.ts'
import type { EncodedBatch, EncodedTable } from './encoded-batch.ts'
import type { FormatTables } from './formats.ts'
import { copyTable, isDataError } from './isolation.ts'
import type { Offsets } from './offsets.ts'
import { knownReplays, settleReplays } from './replays.ts'

export interface BatchParts {
  readonly encoded: EncodedBatch
  readonly tables: FormatTables
  readonly reject: Reject
  /** Aborts when nobody waits for the batch any more. */
  readonly signal: AbortSignal
  /** Aborts when the connection is to be cut. */
  readonly cut: AbortSignal
}

/** Nothing of the batch is known to be stored unless it resolves. */
export async function storeBatch(database: Database, offsets: Offsets, parts: BatchParts): Promise<MessageCounts[]> {
  if (isPlain(parts.encoded)) {
    try {
      return await storeAtOnce(database, offsets, parts)
    } catch (error) {
      if (!isDataError(error)) throw error
    }
  }
  return await database.transaction(transaction => storeStepwise(transaction, offsets, parts), parts.cut)
}

/** Nothing of it waits for an answer, of the store or of the dead letters. */
function isPlain({ rejected, replays }: EncodedBatch): boolean {
  return rejected.size === 0 && replays === undefined
}

async function storeAtOnce(database: Database, offsets: Offsets, { encoded, tables, cut }: BatchParts): Promise<MessageCounts[]> {
  const { messages, ranges } = encoded
  const counts = countMessages(messages, ranges, encoded.rejected)
  const steps: Step[] = offsets.steps(ranges, counts)
  for (const table of encoded.tables) steps.push({ target: targetOf(table, tables)!, binary: table.bytes })
  await database.run(steps, cut)
  return counts
}

async function storeStepwise(transaction: Transaction, offsets: Offsets, parts: BatchParts): Promise<MessageCounts[]> {
  const { encoded, tables } = parts
  const { messages, ranges, rejected } = encoded
  const next = await offsets.lock(transaction, ranges)
  const settled = settledMessages(encoded, next)
  // What became of a settled one, stored or refused, is no matter of this batch: it neither stands for a later copy nor is noted.
  const replays = encoded.replays?.filter(({ message }) => !settled.has(message))
  const leftOut = new Set([...settled, ...rejected.keys()])
  const known = replays === undefined ? undefined : await knownReplays(transaction, replays, tables)
  if (known !== undefined) for (const message of known.duplicates) leftOut.add(message)
  for (const table of encoded.tables) {
    const target = targetOf(table, tables)
    if (target === undefined) continue
    for (const rejection of await copyTable(transaction, target, table, leftOut)) rejected.set(rejection.message, rejection)
  }
  if (replays !== undefined && known !== undefined) await settleReplays(transaction, replays, rejected, known)
  await acknowledge(parts, next)
  const counts = countMessages(messages, ranges, rejected, next, known?.duplicates)
  await offsets.advance(transaction, ranges, counts)
  return counts
}

/** Undefined where the format has no table: then all its messages are rejected. */
function targetOf({ format }: EncodedTable, { names }: FormatTables): string | undefined {
  if (format === senmlFormat) return `public.messages ${recordColumns}`
  const name = names.get(format)
  return name === undefined ? undefined : `${name} ${documentColumns}`
}

/** Messages that were stored or dead-lettered before, by their index. */
function settledMessages({ messages, ranges }: EncodedBatch, next: Positions): Set<number> {
  const settled = new Set<number>()
  if (ranges.every(({ partition, from }) => from === next.get(partition))) return settled
  for (let message = 0; message < messages.length; message++) {
    if (messages.offset[message]! < (next.get(messages.partition[message]!) ?? 0)) settled.add(message)
  }
  return settled
}

/** Has the dead letters made durable that are not yet; those of messages settled before are. */
async function acknowledge({ encoded, reject, signal }: BatchParts, next: Positions): Promise<void> {
  const { messages, rejected, acknowledged } = encoded
  const rejections: Rejection[] = []
  for (const [message, rejection] of rejected) {
    const settled = messages.offset[message]! < (next.get(messages.partition[message]!) ?? 0)
    if (!settled && !acknowledged.has(message)) rejections.push(rejection)
  }
  if (rejections.length === 0) return
  rejections.sort((one, other) => one.message - other.message)
  await unlessAborted(reject(rejections), signal)
  for (const { message } of rejections) acknowledged.add(message)
}
