// The PostgreSQL sink: rows and offsets in one transaction, by the protocol in README.md.

import type { Database, Transaction } from '../../config/postgres/database.ts'
import { DatabaseError } from '../../config/postgres/database.ts'
import { type RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import { countMessages } from '../counts.ts'
import type { ErrorClass, MessageCounts, Positions, Reject, Rejection, Sink } from '../sink.ts'
import { SinkError } from '../sink-error.ts'
import { documentColumns, encode, recordColumns } from './encode.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import { type FormatTables, openFormats } from './formats.ts'
import { copyTable } from './isolation.ts'
import { type LogIdentity, registerLog } from './logs.ts'
import { isLockTimeout, openOffsets } from './offsets.ts'
import type { SinkOptions } from './options.ts'
import { openPublisherDays, writeDays } from './publisher-days.ts'
import { maintain, migrateStore } from './schema.ts'

export interface PostgresSinkOptions extends LogIdentity {
  /** Opened by the caller, who closes it after the sink. A server's application name is to be this writer's and nobody else's. */
  readonly database: Database
  readonly options: SinkOptions
}

/**
 * Opens a sink: brings the schema to this version, makes the months that are missing, and registers the log.
 *
 * @throws SinkError (systemic) where the store belongs to another writer or to another log of this name
 * @throws DatabaseError; `classify` says what it means
 */
export async function openSink({ database, options, ...identity }: PostgresSinkOptions): Promise<Sink<EncodedBatch>> {
  await migrateStore(database)
  await maintain(database)
  const logNumber = await registerLog(database, identity)
  const formats = openFormats(database, options)
  const offsets = openOffsets(database, identity.writer, logNumber, options.lockTimeoutMs)
  const publisherDays = openPublisherDays()
  let underWay: Promise<unknown> = Promise.resolve()
  let closed = false

  /** One transaction. Nothing of it is known to be stored unless it resolves. */
  async function store(encoded: EncodedBatch, tables: FormatTables, reject: Reject): Promise<MessageCounts[]> {
    const { messages, ranges } = encoded
    let locking = true
    try {
      return await database.transaction(async transaction => {
        const next = await offsets.lock(transaction, ranges)
        locking = false
        const leftOut = settledMessages(encoded, next)
        for (const message of encoded.rejected.keys()) leftOut.add(message)
        await copyRows(transaction, encoded, tables, leftOut)
        await acknowledge(encoded, next, reject)
        await writeDays(transaction, encoded.days)
        const counts = countMessages(messages, ranges, encoded.rejected, next)
        await offsets.advance(transaction, ranges, counts)
        return counts
      })
    } catch (error) {
      if (!locking || !isLockTimeout(error)) throw error
      throw await unheld(encoded, error)
    }
  }

  /** A connection that nobody reads any more may hold the partitions for hours: one of this writer's own is ended. */
  async function unheld({ ranges }: EncodedBatch, cause: DatabaseError): Promise<DatabaseError> {
    const ended = database.kind === 'server' ? await offsets.endHolders(ranges) : 0
    return new DatabaseError(
      `another connection held the batch's partitions for ${options.lockTimeoutMs} ms; of this writer's own, ${ended} were ended`,
      { sqlState: cause.sqlState, cause },
    )
  }

  async function write(encoded: EncodedBatch, reject: Reject, signal: AbortSignal): Promise<MessageCounts[]> {
    signal.throwIfAborted()
    for (let attempt = 1; ; attempt++) {
      const tables = await resolveTables(encoded)
      try {
        await offsets.prepare(encoded.ranges)
        const counts = await store(encoded, tables, reject)
        publisherDays.remember(encoded.days)
        return counts
      } catch (error) {
        // Whatever was taken for known may be what failed.
        offsets.forget()
        formats.forget()
        if (attempt > 1 || tables.names.size === 0 || !isMissingTable(error)) throw error
      }
    }
  }

  /** The tables of the batch's formats. Messages whose format gets none are rejected. */
  async function resolveTables(encoded: EncodedBatch): Promise<FormatTables> {
    const tables = await formats.resolve(encoded.tables.filter(({ format }) => format !== senmlFormat))
    for (const { format, unitMessage } of encoded.tables) {
      const refusal = tables.refused.get(format)
      if (refusal === undefined) continue
      for (const message of unitMessage) encoded.rejected.set(message, { message, ...refusal })
    }
    return tables
  }

  return {
    logNumber,
    positions: partitions => offsets.positions(partitions),
    encode: (batch: RecordBatch) => encode(batch, logNumber, publisherDays),
    async write(encoded, reject, signal) {
      if (closed) throw new Error('the sink is closed')
      const writing = write(encoded, reject, signal)
      underWay = writing.catch(() => undefined)
      return await writing
    },
    classify,
    async close() {
      closed = true
      await underWay
    },
  }
}

/** What an error of `openSink` and of `write` means. */
export function classify(error: unknown): ErrorClass {
  if (error instanceof SinkError) return error.errorClass
  if (error instanceof DatabaseError) return error.transient ? 'transient' : 'systemic'
  // Ended by the caller's signal: nothing is wrong with the store.
  if (error instanceof Error && error.name === 'AbortError') return 'transient'
  return 'systemic'
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

/** Writes what is not left out. What the store refuses joins the batch's rejections. */
async function copyRows(
  transaction: Transaction,
  encoded: EncodedBatch,
  { names }: FormatTables,
  leftOut: ReadonlySet<number>,
): Promise<void> {
  for (const table of encoded.tables) {
    const name = table.format === senmlFormat ? 'public.messages' : names.get(table.format)
    if (name === undefined) continue
    const target = `${name} ${table.format === senmlFormat ? recordColumns : documentColumns}`
    for (const rejection of await copyTable(transaction, target, table, leftOut)) encoded.rejected.set(rejection.message, rejection)
  }
}

/** Has the dead letters made durable that are not yet; those of messages settled before are. */
async function acknowledge({ messages, rejected, acknowledged }: EncodedBatch, next: Positions, reject: Reject): Promise<void> {
  const rejections: Rejection[] = []
  for (const [message, rejection] of rejected) {
    const settled = messages.offset[message]! < (next.get(messages.partition[message]!) ?? 0)
    if (!settled && !acknowledged.has(message)) rejections.push(rejection)
  }
  if (rejections.length === 0) return
  rejections.sort((one, other) => one.message - other.message)
  await reject(rejections)
  for (const { message } of rejections) acknowledged.add(message)
}

function isMissingTable(error: unknown): boolean {
  return error instanceof DatabaseError && error.sqlState === '42P01'
}
