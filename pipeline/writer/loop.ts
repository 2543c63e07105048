// The path of a batch, from the log to the store. Longer than most files: every promise of the pipeline has its line here, in order.

import { pause } from '../../config/aborting.ts'
import type { ErrorClass, MessageCounts, Positions, Rejection, Sink } from '../../sinks/sink.ts'
import { logOf, partitionName } from '../../transformers/log-partition.ts'
import { Outcome, type RecordBatch } from '../../transformers/record-batch.ts'
import { LogUnavailableError } from '../log.ts'
import type { BatchOptions } from '../options.ts'
import type { OnShare, OnStart, Source } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import { batches, type PendingBatch, type Spares, spare } from './batch.ts'
import { type DeadLetterStage, type DeadLetters, deadLettersOf } from './dead-letters.ts'
import type { Decoder } from './decode.ts'
import { readAhead } from './read-ahead.ts'
import { type BackOff, retry, waitBefore } from './retry.ts'

/** The components of one worker, and the observer of its events. */
export interface Parts<Encoded> {
  readonly source: Source
  readonly decoder: Decoder
  readonly sink: Sink<Encoded>
  readonly deadLetters: DeadLetters
  readonly batch: BatchOptions
  readonly backOff: BackOff
  readonly watch: Watch
}

/** Events; called once for a batch or failure, never for each message. */
export interface Watch {
  /** The worker resumes, in a share of the log: see `OnStart`. */
  started(...of: Parameters<OnStart>): void
  /** It has a share, and asks the store where to resume: see `OnShare`. */
  assigned(...of: Parameters<OnShare>): void
  taken(pending: PendingBatch): void
  settled(pending: PendingBatch, counts: readonly MessageCounts[]): void
  /** Everything taken and not settled was dropped, and will be taken again. */
  dropped(): void
  deadLettered(rejections: readonly Rejection[], stage: DeadLetterStage): void
  /** Something failed that will be retried after `waitMs`. */
  failed(error: unknown, what: 'log' | 'store' | 'dead letters' | 'fenced' | 'stale', failures: number, waitMs: number): void
  /** What failed works again: `all`, or, at the beginning of a share, the `log`, since the store may only have reported its positions. */
  recovered(what: 'log' | 'all'): void
  /** The source has resumed at the store's positions, which the log has; called each time. */
  began(): void
}

/** How often in a row a store may be ahead of this writer before another writer is assumed to work on it. */
const fencesMax = 8

/** The dead letters could not be written, so the batch that needs them must not become final. */
class DeadLettersError extends Error {
  override readonly name = 'DeadLettersError'
}

/** Consecutive failures since something last succeeded. */
interface Failures {
  starts: number
  fences: number
  /** Batches in a row whose numbers of series were no longer those of the store. */
  stales: number
}

/** The share that a flow works on. When it is revoked, what is in flight belongs to other workers. */
interface Share {
  revoked: AbortSignal | undefined
}

/**
 * Runs one worker. Ends when `signal` has aborted and what was taken by then is stored, or when `abort` aborts: the rest stays in the log.
 *
 * While the store is down it retries forever, without reading the log. A fenced or stale batch is dropped with everything in flight, and the store is
 * asked for its positions again; the same happens when the share of the log is revoked, which is not a failure.
 *
 * @throws SystemicError if retrying cannot help; nothing of the batch is committed then
 */
export async function run<Encoded>(parts: Parts<Encoded>, signal: AbortSignal, abort: AbortSignal): Promise<void> {
  const failures: Failures = { starts: 0, fences: 0, stales: 0 }
  while (!signal.aborted && !abort.aborted) {
    const share: Share = { revoked: undefined }
    try {
      await flow(parts, failures, share, signal, abort)
      if (share.revoked?.aborted !== true) return // the chunks ended: by the signal, or because the source was closed
    } catch (error) {
      parts.watch.dropped()
      if (abort.aborted) return
      const isLogAway = share.revoked?.reason instanceof LogUnavailableError // the share was lost because the group cannot be reached
      if (share.revoked?.aborted === true && !isLogAway) {
        failures.starts = Math.max(failures.starts, 1) // a retry that ended with its share is over when the next share begins
        continue
      }
      await beforeNextFlow(parts, failures, isLogAway ? share.revoked?.reason : error, signal)
    }
  }
}

/** Batch after batch until the signal aborts, the share is revoked, or a failure requires asking for the positions again. */
async function flow<Encoded>(
  parts: Parts<Encoded>,
  failures: Failures,
  share: Share,
  signal: AbortSignal,
  abort: AbortSignal,
): Promise<void> {
  const { source, decoder, sink, watch } = parts
  const stop = new AbortController()
  let dropped = abort
  const begin: OnStart = (positions, revoked, ends) => {
    share.revoked = revoked
    dropped = AbortSignal.any([abort, revoked])
    watch.started(positions, revoked, ends)
    if (failures.starts > 0) watch.recovered('log')
    failures.starts = 0
    watch.began()
  }
  const chunks = source.chunks(AbortSignal.any([signal, abort, stop.signal]), begin, (...of) => watch.assigned(...of))
  const spares: Spares = []
  const ready = readAhead(batches(chunks, decoder, parts.batch, spares), pending => {
    watch.taken(pending)
    // While the batch before is being written.
    return stopOnError(stop, async () => {
      await takeNumbers(parts, pending, dropped)
      return { pending, encoded: encode(sink, pending) }
    })
  })
  for await (const { pending, encoded } of ready) {
    await stopOnError(stop, async () => {
      const counts = await store(parts, pending, encoded, dropped) // durable, and its dead letters before it
      watch.settled(pending, counts)
      await commit(parts, positionsOf(pending.batch, sink), dropped) // last: everything below is stored or dead-lettered
    })
    sink.release?.(encoded)
    spare(spares, pending, parts.batch)
    failures.fences = 0
    failures.stales = 0
  }
}

/** On a failure the chunks end before anything waits for their end: a log without new messages would delay it. */
async function stopOnError<Result>(stop: AbortController, work: () => Promise<Result>): Promise<Result> {
  try {
    return await work()
  } catch (error) {
    stop.abort()
    throw error
  }
}

/** Each log of which the batch has something to store or to dead-letter needs a number, which it has after the first such batch. */
async function takeNumbers<Encoded>(parts: Parts<Encoded>, { batch }: PendingBatch, dropped: AbortSignal): Promise<void> {
  const { sink } = parts
  const wanted = new Set<number>()
  for (const { at } of batch.ranges) if (sink.logNumbers[logOf(at)] === undefined) wanted.add(logOf(at))
  if (wanted.size === 0) return
  const needed = new Set<number>()
  const { length, at, outcome } = batch.messages
  for (let message = 0; message < length; message++) {
    if (outcome[message] === Outcome.stored || outcome[message] === Outcome.deadLettered) needed.add(logOf(at[message]!))
  }
  const logs = [...wanted].filter(log => needed.has(log))
  if (logs.length > 0) await retry(() => sink.takeNumbers(logs), retrying(parts), dropped)
}

/** Writes until it succeeds. Each message gets one dead letter, however often the batch is retried. */
function store<Encoded>(
  parts: Parts<Encoded>,
  pending: PendingBatch,
  encoded: Encoded,
  dropped: AbortSignal,
): Promise<readonly MessageCounts[]> {
  const { sink, deadLetters, watch } = parts
  const put = new Set<number>()
  let failure: DeadLettersError | undefined

  async function reject(rejections: readonly Rejection[], stage: DeadLetterStage): Promise<void> {
    const fresh = rejections.filter(({ message }) => !put.has(message))
    if (fresh.length === 0) return
    try {
      await deadLetters.put(deadLettersOf(pending, fresh, stage))
    } catch (error) {
      // Kept here, since a sink may wrap the error.
      failure = new DeadLettersError('the dead letters cannot be written', { cause: error })
      throw failure
    }
    for (const { message } of fresh) put.add(message)
    watch.deadLettered(fresh, stage)
  }

  async function attempt(): Promise<readonly MessageCounts[]> {
    failure = undefined
    await reject(pending.rejections, 'decode')
    try {
      return await sink.write(encoded, rejections => reject(rejections, 'store'), dropped)
    } catch (error) {
      throw failure ?? error
    }
  }

  return retry(attempt, retrying(parts), dropped)
}

function commit<Encoded>(parts: Parts<Encoded>, positions: Positions, dropped: AbortSignal): Promise<void> {
  return retry(() => parts.source.commit(positions), retrying(parts), dropped)
}

function retrying<Encoded>(parts: Parts<Encoded>): Parameters<typeof retry>[1] {
  return {
    backOff: parts.backOff,
    classify: error => classify(parts.sink, error),
    onFailure: (error, failures, waitMs) => parts.watch.failed(error, whatFailed(error), failures, waitMs),
    onRecovery: () => parts.watch.recovered('all'),
  }
}

/** Waits before the positions are requested again; throws if that cannot help. */
async function beforeNextFlow<Encoded>(parts: Parts<Encoded>, failures: Failures, error: unknown, signal: AbortSignal): Promise<void> {
  const kind = classify(parts.sink, error)
  if (kind === 'systemic') throw asSystemic(error)
  failures.starts++
  if (kind === 'fenced') failures.fences++
  if (kind === 'stale') failures.stales++
  if (failures.fences > fencesMax) {
    throw new SystemicError(
      `the store was advanced by another writer ${failures.fences} times in a row (${messageOf(error)}): stop the other writer of the same name`,
      { cause: error },
    )
  }
  const count = Math.max(failures.starts, failures.fences, failures.stales)
  const waitMs = waitBefore(count, parts.backOff)
  parts.watch.failed(error, kind === 'transient' ? whatFailed(error) : kind, count, waitMs)
  // An abort ends the wait, and then the loop: nothing is in flight.
  await pause(waitMs, signal)
}

function classify<Encoded>(sink: Sink<Encoded>, error: unknown): ErrorClass {
  if (error instanceof SystemicError) return 'systemic'
  if (error instanceof LogUnavailableError) return 'transient'
  // Nothing else passes by itself. Without its dead letters the batch cannot become final.
  if (error instanceof DeadLettersError) return error.cause instanceof LogUnavailableError ? 'transient' : 'systemic'
  return sink.classify(error)
}

function whatFailed(error: unknown): 'log' | 'store' | 'dead letters' {
  if (error instanceof DeadLettersError) return 'dead letters'
  return error instanceof LogUnavailableError ? 'log' : 'store'
}

function asSystemic(error: unknown): SystemicError {
  const reason = error instanceof DeadLettersError ? error.cause : error
  return reason instanceof SystemicError ? reason : new SystemicError(messageOf(reason), { cause: reason })
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}

function encode<Encoded>(sink: Sink<Encoded>, { batch }: PendingBatch): Encoded {
  try {
    return sink.encode(batch)
  } catch (error) {
    // Encoding reads only the batch, so it would fail the same way every time.
    const range = batch.ranges[0]
    const where = range === undefined ? 'without messages' : `from ${partitionName(range.at)} offset ${range.from}`
    throw new SystemicError(`a batch ${where} cannot be encoded for the store (${messageOf(error)}): this is a bug in sluice, report it`, {
      cause: error,
    })
  }
}

/**
 * Without the logs that have no number, if the sink resumes at what is committed: a start would find commits of a log that the store does not know, as
 * if its messages had gone to another store.
 */
function positionsOf<Encoded>({ ranges }: RecordBatch, sink: Sink<Encoded>): Positions {
  const settled = sink.positions !== undefined ? ranges : ranges.filter(({ at }) => sink.logNumbers[logOf(at)] !== undefined)
  return new Map(settled.map(({ at, to }) => [at, to]))
}
