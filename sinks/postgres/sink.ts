// The PostgreSQL sink: writes rows and offsets in one transaction, by the protocol in README.md.

import { type Database, DatabaseError, queryCanceled, type Step, type Transaction } from '../../database/database.ts'
import { partitionOf } from '../../transformers/log-partition.ts'
import { Outcome, type Range, type RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import { countMessages } from '../counts.ts'
import { openFormats } from '../formats.ts'
import { checkNumbers, openLogs, type SinkLogs } from '../logs.ts'
import { acknowledge, resolveFormats } from '../rejections.ts'
import type { ReplayOutcome, ReplaySink } from '../replay.ts'
import { type MessageCounts, type Positions, packedPosition, type Reject, type Sink } from '../sink.ts'
import { abortable, connectionNames, replayName, replayPrefix } from './connection.ts'
import { copyTable } from './copy.ts'
import { addRecords, type EncodedBatch, encode } from './encode.ts'
import { classify, isAnswer, isDataError, lockTimeout, missingTable } from './errors.ts'
import { type Offsets, openOffsets } from './offsets.ts'
import type { SinkOptions } from './options.ts'
import { formatAdder, noteReplays, openLogRegistry, readLogs, tableOf, targetOf } from './registry.ts'
import { checkStore, migrateStore, shortcomings } from './schema.ts'
import { openSeriesNumbers } from './series/numbers.ts'
import { checkState, seriesStore } from './series/store.ts'

export { classify } from './errors.ts'

export interface PostgresSinkOptions extends SinkLogs {
  /**
   * The caller opens it, and closes it after the sink. A server needs two connections or more, since an aborted write is terminated from another one,
   * and a statement timeout, without which a half-open connection blocks it for a quarter of an hour.
   */
  readonly database: Database
  readonly options: SinkOptions
  /** Called with a sentence for each month that cannot be created and each permission that the role lacks, with what to do; the sink works all the same. */
  readonly onNotice?: (sentence: string) => void
}

/**
 * Opens a sink: migrates the schema to this version, creates the missing months if it can, and checks the logs.
 *
 * @throws SinkError (systemic) if the store belongs to another writer or to another log of this name
 * @throws DatabaseError; `classify` says what it means
 */
export async function openSink({ database, options, onNotice, logs }: PostgresSinkOptions): Promise<Sink<EncodedBatch>> {
  await migrateStore(database)
  for (const sentence of await shortcomings(database, options.retentionMonths)) onNotice?.(sentence)
  const opened = await openLogs(logs, openLogRegistry(database))
  const { logNumbers, takeNumbers } = opened
  const { writer } = logs[0]!
  const logNames = logs.map(({ logName }) => logName)
  const formats = openFormats(formatAdder(database, options))
  const names = connectionNames(writer)
  const offsets = openOffsets(database, { writer, logNumbers, logNames, names, lockTimeoutMs: options.lockTimeoutMs })
  const series = openSeriesNumbers(seriesStore(database, { ...options, applicationName: names.sink }), options.seriesCacheBytes)
  let underWay: Promise<unknown> = Promise.resolve()
  let unnumbered = 0
  let closed = false

  /**
   * A connection whose client is gone may hold the partitions for hours: this terminates such connections of the same writer. In the middle of a COPY
   * the server waits for the client's next data, and cancels nothing until they come.
   */
  async function unheld(ranges: readonly Range[], cause: DatabaseError): Promise<DatabaseError> {
    const ended = database.kind === 'server' ? await offsets.endHolders(ranges) : 0
    return new DatabaseError(
      `the batch waited for too long (${cause.message}); terminated ${ended} of this writer's own connections, which held the batch's partitions for more than ${options.lockTimeoutMs} ms`,
      { sqlState: cause.sqlState, cause },
    )
  }

  async function write(encoded: EncodedBatch, reject: Reject, signal: AbortSignal, abort: AbortSignal): Promise<MessageCounts[]> {
    const { pending } = encoded
    if (pending !== undefined) addRecords(encoded, pending, await series.resolved(pending, encoded.rejected, abort), logNumbers)
    for (let attempt = 1; ; attempt++) {
      const refused = await resolveFormats(formats, encoded, formatsOf(encoded), abort)
      // A log may get its number between two attempts.
      const kept = offsets.kept(encoded.ranges)
      if (kept.length === 0) return passed(encoded, kept, countMessages(encoded.messages, encoded.ranges, encoded.rejected))
      try {
        await offsets.prepare(kept, abort)
        const counts = await storeBatch(database, offsets, { encoded, kept, refused, reject, signal, abort })
        unnumbered += encoded.unnumbered
        return passed(encoded, kept, counts)
      } catch (error) {
        // The failure may come from stale cached formats. Partitions stay cached: a missing row of theirs has to fence the batch, not to be added again.
        formats.forget()
        if (isAnswer(error, lockTimeout) || isAnswer(error, queryCanceled)) throw await unheld(kept, error)
        if (attempt > 1 || encoded.tables.every(({ format }) => format === senmlFormat) || !isAnswer(error, missingTable)) throw error
      }
    }
  }

  /** Remembers the counts of the ranges that are not kept. */
  function passed({ ranges }: EncodedBatch, kept: readonly Range[], counts: MessageCounts[]): MessageCounts[] {
    if (kept.length < ranges.length)
      for (const [nth, range] of ranges.entries()) if (!kept.includes(range)) offsets.pass(range, counts[nth]!)
    return counts
  }

  return {
    logNumbers,
    takeNumbers,
    async positions(of) {
      // Another worker of this writer may have taken a number, and stored offsets of partitions that are this sink's now; or an operator has freed one.
      opened.lookUp(await readLogs(database))
      series.forget()
      return await offsets.positions(of)
    },
    encode(batch: RecordBatch) {
      checkNumbers(logNumbers, batch)
      const encoded = encode(batch, logNumbers)
      const numbers = encoded.pending === undefined ? undefined : series.known(batch, encoded.rejected)
      if (numbers !== undefined) addRecords(encoded, batch, numbers, logNumbers)
      return encoded
    },
    async write(encoded, reject, signal) {
      if (closed) throw new Error('the sink is closed')
      const writing = abortable(database, names.sink, signal, abort => write(encoded, reject, signal, abort))
      underWay = writing.catch(() => undefined)
      return await writing
    },
    beginCounts: () => offsets.beginCounts(),
    unnumbered() {
      const since = unnumbered
      unnumbered = 0
      return since
    },
    classify,
    async close() {
      closed = true
      await underWay
    },
  }
}

interface BatchParts {
  readonly encoded: EncodedBatch
  /** The ranges of logs with a number; the others have neither rows nor offsets. */
  readonly kept: readonly Range[]
  /** Formats without a table: all their messages are rejected. */
  readonly refused: { has(format: string): boolean }
  readonly reject: Reject
  /** Aborts when the caller no longer waits for the batch. */
  readonly signal: AbortSignal
  /** Aborts when the connection has to be closed. */
  readonly abort: AbortSignal
}

/**
 * Runs the transaction of a batch: in one exchange if nothing is expected to go wrong, else step by step. Unless it resolves, the outcome is unknown.
 *
 * In one exchange the server locks the partitions, compares and advances their offsets, COPYs and commits without waiting for the client, which
 * decodes the next batch meanwhile. It fails as a whole if the store's offsets differ or it refuses a row; nothing is stored then, and the
 * step-by-step way finds the cause.
 */
async function storeBatch(database: Database, offsets: Offsets, parts: BatchParts): Promise<MessageCounts[]> {
  if (isPlain(parts.encoded)) {
    try {
      return await storeAtOnce(database, offsets, parts)
    } catch (error) {
      if (!isDataError(error)) throw error
    }
  }
  return await database.transaction(transaction => storeStepwise(transaction, offsets, parts), parts.abort)
}

/** The formats of the batch, which may need a table. */
function formatsOf({ tables }: EncodedBatch) {
  return tables.map(({ format, channels, unitMessage }) => ({ format, channels, messages: unitMessage }))
}

/** True if no step of the batch has to wait for an answer, of the store or of the dead letters. */
function isPlain({ rejected }: EncodedBatch): boolean {
  return rejected.size === 0
}

async function storeAtOnce(database: Database, offsets: Offsets, { encoded, kept, refused, abort }: BatchParts): Promise<MessageCounts[]> {
  const counts = countMessages(encoded.messages, encoded.ranges, encoded.rejected)
  const steps: Step[] = offsets.steps(kept, countsOf(kept, encoded, counts), encoded.state)
  for (const table of encoded.tables) steps.push({ target: targetOf(table.format, refused)!, binary: table.bytes })
  await database.run(steps, abort)
  return counts
}

async function storeStepwise(transaction: Transaction, offsets: Offsets, parts: BatchParts): Promise<MessageCounts[]> {
  const { encoded, kept, refused } = parts
  const { messages, ranges, rejected } = encoded
  const next = await offsets.lock(transaction, kept, encoded.state)
  const settled = settledMessages(encoded, next)
  const leftOut = new Set([...settled, ...rejected.keys()])
  for (const table of encoded.tables) {
    const target = targetOf(table.format, refused)
    if (target === undefined) continue
    for (const rejection of await copyTable(transaction, target, table, leftOut)) rejected.set(rejection.message, rejection)
  }
  const isSettled = (message: number): boolean => messages.offset[message]! < (next.get(messages.at[message]!) ?? 0)
  await acknowledge(encoded, parts.reject, parts.signal, isSettled)
  const counts = countMessages(messages, ranges, rejected, next)
  await offsets.advance(transaction, kept, countsOf(kept, encoded, counts))
  return counts
}

/** The counts of some ranges of a batch. */
function countsOf(some: readonly Range[], { ranges }: EncodedBatch, counts: readonly MessageCounts[]): readonly MessageCounts[] {
  return some.length === ranges.length ? counts : some.map(range => counts[ranges.indexOf(range)]!)
}

/** The messages that were stored or dead-lettered before, by their index. */
function settledMessages({ messages, ranges }: EncodedBatch, next: Positions): Set<number> {
  const settled = new Set<number>()
  if (ranges.every(({ at, from }) => from === next.get(at))) return settled
  for (let message = 0; message < messages.length; message++) {
    if (messages.offset[message]! < (next.get(messages.at[message]!) ?? 0)) settled.add(message)
  }
  return settled
}

/** A message to store. */
interface Replay {
  readonly message: number
  readonly position: bigint
  readonly format: string
  readonly channel: string
  /** The time of its first row: microseconds for a record, nanoseconds for a document. */
  readonly time: bigint
}

interface PostgresReplayOptions {
  /** The caller opens and closes it. */
  readonly database: Database
  readonly options: SinkOptions
  readonly writer: string
  readonly logNumber: number
}

/** For a lock that another replay or a schema change holds. A person waits for the replay, and can start it again. */
const replayLockTimeoutMs = 10_000
const replayLock = 'sluice.replayed'
/** How often in a row the numbers of series may have become stale since they were looked up. */
const staleMax = 8

/**
 * Opens a sink for replays, which creates and registers nothing. Each message is stored once, in a transaction of the replay's own, however often it
 * is replayed, and not at all if it is stored already. `sluice.replayed` holds the positions that were replayed before. A message may also have been
 * stored although it has a dead letter (the letter is durable before the batch is, and a crash may come in between): that shows in its first row,
 * which is found by channel and time.
 *
 * @throws SinkError (systemic) if the schema does not have this version
 * @throws DatabaseError
 */
export async function openReplaySink({ database, options, writer, logNumber }: PostgresReplayOptions): Promise<ReplaySink> {
  await checkStore(database)
  const formats = openFormats(formatAdder(database, options))
  const name = replayName(writer)
  const find = seriesStore(database, { ...options, lockTimeoutMs: replayLockTimeoutMs, applicationName: name })
  const series = openSeriesNumbers(find, options.seriesCacheBytes)

  return {
    note: positions => noteReplays(database, [...positions]),
    write: (batch, _partial, signal) =>
      abortable(database, name, signal, async abort => {
        const encoded = encode(batch, [logNumber])
        const refusedFormats = await resolveFormats(formats, encoded, formatsOf(encoded), abort)
        const replays = replaysOf(batch, logNumber)
        const { rejected } = encoded
        const documents = [...encoded.tables]

        const storeOnce = async (transaction: Transaction): Promise<ReplayOutcome> => {
          await beginReplay(transaction, name)
          await checkState(transaction, encoded.state)
          // Must come first: every later statement then sees what the writer has stored below its offset.
          const notPassed = await notPassedBy(transaction, batch, writer, logNumber)
          const open = replays.filter(({ message }) => !notPassed.has(message) && !rejected.has(message))
          const stored = await storedBefore(transaction, open, refusedFormats)
          const leftOut = new Set([...notPassed, ...rejected.keys(), ...stored])
          for (const table of encoded.tables) {
            const target = targetOf(table.format, refusedFormats)
            if (target === undefined) continue
            for (const rejection of await copyTable(transaction, target, table, leftOut)) rejected.set(rejection.message, rejection)
          }
          const added = open.filter(({ message }) => !stored.has(message) && !rejected.has(message))
          await noteReplays(
            transaction,
            added.map(({ position }) => position),
          )
          return { refused: rejected, notPassed }
        }
        let stale = 0
        for (;;) {
          try {
            encoded.tables.splice(0, encoded.tables.length, ...documents)
            if (batch.records.length > 0) addRecords(encoded, batch, await series.resolved(batch, rejected, abort), [logNumber])
            return await database.transaction(storeOnce, abort)
          } catch (error) {
            series.forget()
            if (classify(error) === 'stale' && ++stale <= staleMax) continue
            if (!isAnswer(error, lockTimeout) && !isAnswer(error, queryCanceled)) throw error
            if ((await endLostReplays(database)) === 0) throw error
          }
        }
      }),
  }
}

/**
 * Terminates replays whose client is gone: they have been in a statement, a COPY, for longer than any may take, and would keep others from replaying for
 * hours. Returns how many.
 */
async function endLostReplays(database: Database): Promise<number> {
  if (database.kind === 'embedded') return 0
  const ended = await database.query(
    `SELECT pg_terminate_backend(activity.pid)
     FROM pg_locks AS held JOIN pg_stat_activity AS activity ON activity.pid = held.pid
     WHERE held.locktype = 'advisory' AND held.granted AND activity.datname = current_database()
       AND (held.classid::bigint << 32 | held.objid::bigint) = hashtextextended('${replayLock}', 0)
       AND starts_with(activity.application_name, '${replayPrefix}') AND activity.state = 'active' AND current_setting('statement_timeout') <> '0'
       AND activity.query_start < clock_timestamp() - current_setting('statement_timeout')::interval`,
  )
  return ended.length
}

/** Waits for other replays to end: they are rare, and two must not store the same message. */
async function beginReplay(transaction: Transaction, name: string): Promise<void> {
  // With a number of its own, for which maintenance waits before it removes a series.
  const settings = `SELECT set_config('lock_timeout', $1, true), set_config('application_name', $2, true), pg_current_xact_id()`
  await transaction.query(settings, [String(replayLockTimeoutMs), name])
  await transaction.query(`SELECT pg_advisory_xact_lock(hashtextextended('${replayLock}', 0))`)
}

/**
 * The messages at or above the writer's next offset. A writer that crashed between a dead letter and its commit reads the message again, and may then
 * find it valid and store it a second time. It never reads below its offset again, so no lock is needed.
 */
async function notPassedBy(transaction: Transaction, { messages }: RecordBatch, writer: string, log: number): Promise<Set<number>> {
  const partitions = Array.from({ length: messages.length }, (_, message) => partitionOf(messages.at[message]!))
  const rows = await transaction.query<{ partition: number; next_offset: bigint }>(
    'SELECT partition, next_offset FROM sluice.offsets WHERE writer = $1 AND log = $2 AND partition = ANY ($3::int[])',
    [writer, log, [...new Set(partitions)]],
  )
  const next = new Map(rows.map(row => [row.partition, Number(row.next_offset)]))
  const notPassed = new Set<number>()
  for (let message = 0; message < messages.length; message++) {
    if (messages.offset[message]! >= (next.get(partitions[message]!) ?? 0)) notPassed.add(message)
  }
  return notPassed
}

function replaysOf({ messages, records, documents }: RecordBatch, log: number): Replay[] {
  const replays = new Map<number, Replay>()
  const add = (message: number, format: string, time: () => bigint): void => {
    if (replays.has(message) || messages.outcome[message] !== Outcome.stored) return
    const position = packedPosition(log, partitionOf(messages.at[message]!), messages.offset[message]!)
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
  return [...replays.values()]
}

/** The messages that were stored before: by a replay, or by the writer after their dead letter. */
async function storedBefore(
  transaction: Transaction,
  replays: readonly Replay[],
  refused: { has(format: string): boolean },
): Promise<Set<number>> {
  const stored = new Set<number>()
  const byPosition = new Map(replays.map(replay => [replay.position, replay]))
  const before = await transaction.query<{ position: bigint }>('SELECT position FROM sluice.replayed WHERE position = ANY ($1::bigint[])', [
    [...byPosition.keys()],
  ])
  for (const { position } of before) stored.add(byPosition.get(position)!.message)
  const open = replays.filter(({ message }) => !stored.has(message))
  for (const [format, some] of Map.groupBy(open, replay => replay.format)) {
    const table = format === senmlFormat ? 'sluice.records' : refused.has(format) ? undefined : tableOf(format)
    if (table === undefined) continue
    for (const { position } of await storedAmong(transaction, table, format, some)) stored.add(byPosition.get(position)!.message)
  }
  return stored
}

function storedAmong(transaction: Transaction, table: string, format: string, replays: readonly Replay[]): Promise<{ position: bigint }[]> {
  const [channel, sameTime] =
    format === senmlFormat
      ? [
          '(SELECT id FROM sluice.channels WHERE channels.channel = replay.channel)',
          `stored.time = timestamptz 'epoch' + replay.time * interval '1 microsecond'`,
        ]
      : ['replay.channel', 'stored.created = replay.time']
  return transaction.query<{ position: bigint }>(
    `SELECT position FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS replay (channel, time, position)
     WHERE EXISTS (
       SELECT FROM ${table} AS stored WHERE stored.channel = ${channel} AND ${sameTime} AND stored.position = replay.position
     )`,
    [replays.map(({ channel }) => channel), replays.map(({ time }) => time), replays.map(({ position }) => position)],
  )
}
