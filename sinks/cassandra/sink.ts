// The Cassandra sink: rows with keys made of their position, by the protocol in README.md.

import { setTimeout as wait } from 'node:timers/promises'
import { unlessAborted } from '../../config/aborting.ts'
import type { RecordBatch } from '../../transformers/record-batch.ts'
import type { LogIdentity } from '../log-registry.ts'
import type { MessageCounts, Reject, Sink } from '../sink.ts'
import { storeBatch } from './batch-write.ts'
import type { Connection } from './connection.ts'
import { openDays } from './days.ts'
import { type Encoding, encode } from './encode.ts'
import type { EncodedBatch } from './encoded-batch.ts'
import { classify, isSchemaFault } from './errors.ts'
import { openFormats } from './formats.ts'
import { Pace } from './in-flight.ts'
import { prepareIndexes } from './indexes.ts'
import { registerLog } from './logs.ts'
import type { SinkOptions } from './options.ts'
import { checkTables, prepareSchema } from './schema.ts'
import { rowBytesMax } from './server-limits.ts'
import { rowStatements } from './statements.ts'

export { classify } from './errors.ts'

export interface CassandraSinkOptions extends LogIdentity {
  /** Opened by the caller, who closes it after the sink. */
  readonly connection: Connection
  readonly options: SinkOptions
  /** Told what the role may not do, and what to do about it; the sink works without. */
  readonly onNotice?: (sentence: string) => void
}

/** Statements are kept for so many formats at most: a device that names new ones without end must not fill the memory. */
const statementsMax = 10_000

/**
 * A table that another process has made this instant is listed in system_schema before its node takes statements for it, and the other nodes of a
 * cluster have it later still: ten seconds are allowed for that.
 */
const settlingMs = 250
const settlingAttempts = 40

/**
 * Opens a sink: makes the keyspace and the tables that are missing, and registers the log.
 *
 * @throws SinkError (systemic) where the store belongs to another writer, to another log of this name, or is made otherwise
 * @throws the errors of the driver; `classify` says what they mean
 */
export async function openSink({ connection, options, onNotice, ...identity }: CassandraSinkOptions): Promise<Sink<EncodedBatch>> {
  const notice = noticeOnce(onNotice)
  const logNumber = await prepare(connection, options, identity, notice)
  const formats = openFormats(connection, options, notice)
  const days = openDays({ retentionDays: options.retentionDays, bucketDays: options.bucketDays })
  const pace = new Pace(options.requestsInFlightMax)
  const encoding: Encoding = {
    logNumber,
    bucketDays: options.bucketDays,
    days,
    insert: insertStatements(connection.keyspace),
    unset: connection.unset,
    rowBytesMax: await rowBytesMax(connection),
  }
  let underWay: Promise<unknown> = Promise.resolve()
  let closed = false
  let lastUs = 0

  async function write(encoded: EncodedBatch, reject: Reject, signal: AbortSignal): Promise<MessageCounts[]> {
    for (let attempt = 1; ; attempt++) {
      lastUs = Math.max(lastUs + 1, Date.now() * 1000)
      try {
        return await storeBatch({ connection, formats, days, pace, encoded, reject, signal, timestampUs: lastUs })
      } catch (error) {
        // Whatever was taken for known may be what failed.
        days.forget()
        formats.forget()
        signal.throwIfAborted()
        if (!isSchemaFault(error) || attempt > settlingAttempts) throw connection.explain(error)
        await unlessAborted(checkTables(connection), signal)
        // All of ours are there: it is the table of a format that is gone, and is made anew, or one that was made this instant.
        if (attempt > 1) await wait(settlingMs, undefined, { signal })
      }
    }
  }

  return {
    logNumber,
    encode: (batch: RecordBatch) => encode(batch, encoding),
    async write(encoded, reject, signal) {
      if (closed) throw new Error('the sink is closed')
      signal.throwIfAborted()
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

async function prepare(
  connection: Connection,
  options: SinkOptions,
  identity: LogIdentity,
  notice: (sentence: string) => void,
): Promise<number> {
  for (let attempt = 1; ; attempt++) {
    try {
      await prepareSchema(connection, options)
      const unindexed = options.publisherIndex ? await prepareIndexes(connection) : undefined
      if (unindexed !== undefined) notice(unindexed)
      return await registerLog(connection, identity)
    } catch (error) {
      if (!isSchemaFault(error) || attempt > settlingAttempts) throw connection.explain(error)
      await wait(settlingMs)
    }
  }
}

function insertStatements(keyspace: string): (format: string) => string {
  const known = new Map<string, string>()
  return format => {
    let insert = known.get(format)
    if (insert === undefined) {
      if (known.size >= statementsMax) known.clear()
      known.set(format, (insert = rowStatements(keyspace, format).insert))
    }
    return insert
  }
}

function noticeOnce(onNotice: ((sentence: string) => void) | undefined): (sentence: string) => void {
  const said = new Set<string>()
  return sentence => {
    if (said.has(sentence)) return
    said.add(sentence)
    onNotice?.(sentence)
  }
}
