// The PostgreSQL sink: rows and offsets in one transaction, by the protocol in README.md.

import { type Database, DatabaseError } from '../../config/postgres/database.ts'
import { type RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import type { LogIdentity } from '../log-registry.ts'
import type { ErrorClass, MessageCounts, Reject, Sink } from '../sink.ts'
import { SinkError } from '../sink-error.ts'
import { storeBatch } from './batch-transaction.ts'
import { abandonable, connectionNames } from './connections.ts'
import { encode } from './encode.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import { type FormatTables, openFormats } from './formats.ts'
import { registerLog } from './logs.ts'
import { isLockTimeout, openOffsets } from './offsets.ts'
import type { SinkOptions } from './options.ts'
import { shortcomings } from './rights.ts'
import { migrateStore } from './schema.ts'
import { meaningOf } from './sql-states.ts'

export interface PostgresSinkOptions extends LogIdentity {
  /**
   * Opened by the caller, who closes it after the sink. A server is to be opened with two connections or more, since a write that is given
   * up is ended from another one, and with a statement timeout, without which a half-open connection keeps it for a quarter of an hour.
   */
  readonly database: Database
  readonly options: SinkOptions
  /** Told which months cannot be made, what the role may not do, and what to do about it; the sink works without. */
  readonly onNotice?: (sentence: string) => void
}

/**
 * Opens a sink: brings the schema to this version, makes the months that are missing where it can, and registers the log.
 *
 * @throws SinkError (systemic) where the store belongs to another writer or to another log of this name
 * @throws DatabaseError; `classify` says what it means
 */
export async function openSink({ database, options, onNotice, ...identity }: PostgresSinkOptions): Promise<Sink<EncodedBatch>> {
  await migrateStore(database)
  for (const sentence of await shortcomings(database, options.retentionMonths)) onNotice?.(sentence)
  const logNumber = await registerLog(database, identity)
  const formats = openFormats(database, options)
  const names = connectionNames(identity.writer, logNumber)
  const offsets = openOffsets(database, { writer: identity.writer, log: logNumber, names, lockTimeoutMs: options.lockTimeoutMs })
  let underWay: Promise<unknown> = Promise.resolve()
  let closed = false

  /** A connection that nobody reads any more may hold the partitions for hours: one of this writer's own is ended. */
  async function unheld({ ranges }: EncodedBatch, cause: DatabaseError): Promise<DatabaseError> {
    const ended = database.kind === 'server' ? await offsets.endHolders(ranges) : 0
    return new DatabaseError(
      `a lock was not had within ${options.lockTimeoutMs} ms (${cause.message}); of this writer's own connections that held the batch's partitions, ${ended} were ended`,
      { sqlState: cause.sqlState, cause },
    )
  }

  async function write(encoded: EncodedBatch, reject: Reject, signal: AbortSignal, cut: AbortSignal): Promise<MessageCounts[]> {
    for (let attempt = 1; ; attempt++) {
      const tables = await resolveTables(encoded, cut)
      try {
        await offsets.prepare(encoded.ranges, cut)
        return await storeBatch(database, offsets, { encoded, tables, reject, signal, cut })
      } catch (error) {
        // Whatever was taken for known may be what failed. Not so the partitions: a row of theirs that is gone is fenced, not begun anew.
        formats.forget()
        if (isLockTimeout(error)) throw await unheld(encoded, error)
        if (attempt > 1 || tables.names.size === 0 || !isMissingTable(error)) throw error
      }
    }
  }

  /** The tables of the batch's formats. Messages whose format gets none are rejected. */
  async function resolveTables(encoded: EncodedBatch, cut: AbortSignal): Promise<FormatTables> {
    const tables = await formats.resolve(
      encoded.tables.filter(({ format }) => format !== senmlFormat),
      cut,
    )
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
    encode: (batch: RecordBatch) => encode(batch, logNumber),
    async write(encoded, reject, signal) {
      if (closed) throw new Error('the sink is closed')
      const writing = abandonable(database, names.sink, signal, cut => write(encoded, reject, signal, cut))
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
  if (error instanceof DatabaseError) return meaningOf(error.sqlState) === 'transient' ? 'transient' : 'systemic'
  // Ended by the caller's signal: nothing is wrong with the store.
  if (error instanceof Error && error.name === 'AbortError') return 'transient'
  return 'systemic'
}

function isMissingTable(error: unknown): boolean {
  return error instanceof DatabaseError && error.sqlState === '42P01'
}
