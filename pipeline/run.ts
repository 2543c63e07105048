// The way of a batch, from the log to the store. Longer than most files: every promise of the pipeline has its line here, in order.

import { setTimeout as wait } from 'node:timers/promises'
import type { ErrorClass, MessageCounts, Positions, Rejection, Sink } from '../sinks/sink.ts'
import type { RecordBatch } from '../transformers/record-batch.ts'
import { batches, type PendingBatch, type Spares, spare } from './batch.ts'
import { type DeadLetterStage, type DeadLetters, deadLettersOf } from './dead-letters.ts'
import type { Decoder } from './decode.ts'
import { LogUnavailableError, MessageRefusedError } from './log.ts'
import type { BatchOptions } from './options.ts'
import { readAhead } from './read-ahead.ts'
import { type BackOff, retry, waitBefore } from './retry.ts'
import type { OnShare, OnStart, Source } from './source.ts'
import { SystemicError } from './systemic-error.ts'

/** What one worker is made of, and who watches it. */
export interface Parts<Encoded> {
  readonly source: Source
  readonly decoder: Decoder
  readonly sink: Sink<Encoded>
  readonly deadLetters: DeadLetters
  readonly batch: BatchOptions
  readonly backOff: BackOff
  readonly watch: Watch
}

/** What happens on the way; called once per batch or failure, never per message. */
export interface Watch {
  /** The worker goes on, in a share of the log: see `OnStart`. */
  started(...of: Parameters<OnStart>): void
  /** It has a share, and asks the store where to go on: see `OnShare`. */
  assigned(...of: Parameters<OnShare>): void
  taken(pending: PendingBatch): void
  settled(pending: PendingBatch, counts: readonly MessageCounts[]): void
  /** Everything taken and not settled was dropped, and will be taken again. */
  dropped(): void
  deadLettered(rejections: readonly Rejection[], stage: DeadLetterStage): void
  /** Something failed that will be tried again after `waitMs`. */
  failed(error: unknown, what: 'log' | 'store' | 'dead letters' | 'fenced', failures: number, waitMs: number): void
  /** What failed works again: `all`, or at the beginning of a share the `log`, and the store only where it said where to go on. */
  recovered(what: 'log' | 'all'): void
  /** The source goes on where the store says, and the log holds that; each time that it begins. */
  began(): void
}

/** So often in a row, and no more, a store may say that it has gone on without us before we believe that another writer works on it. */
const fencesMax = 8

/** The dead letters failed, so the batch that needs them must not become final. */
class DeadLettersError extends Error {
  override readonly name = 'DeadLettersError'
}

/** Failures in a row, since something last succeeded. */
interface Failures {
  starts: number
  fences: number
}

/** What a flow works on: until it is revoked, and what is in flight then is others'. */
interface Share {
  revoked: AbortSignal | undefined
}

/**
 * One worker. Ends when `signal` has aborted and what was taken by then is stored, or when `abandon` aborts: the rest stays in the log.
 *
 * A store that is away is asked again for ever, and the log not at all meanwhile. A fenced batch is dropped with all that is in
 * flight, and the store is asked for its positions again; so it is when the share of the log is revoked, which is no failure.
 *
 * @throws SystemicError what no retry can mend; nothing of the batch is committed then
 */
export async function run<Encoded>(parts: Parts<Encoded>, signal: AbortSignal, abandon: AbortSignal): Promise<void> {
  const failures: Failures = { starts: 0, fences: 0 }
  while (!signal.aborted && !abandon.aborted) {
    const share: Share = { revoked: undefined }
    try {
      await flow(parts, failures, share, signal, abandon)
      if (share.revoked?.aborted !== true) return // the runs ended: by the signal, or because the source was closed
    } catch (error) {
      parts.watch.dropped()
      if (abandon.aborted) return
      const isLogAway = share.revoked?.reason instanceof LogUnavailableError // the share was lost because the group cannot be reached
      if (share.revoked?.aborted === true && !isLogAway) {
        failures.starts = Math.max(failures.starts, 1) // a retry that ended with its share is over when the next share begins
        continue
      }
      await beforeNextFlow(parts, failures, isLogAway ? share.revoked?.reason : error, signal)
    }
  }
}

/** Batch after batch until the signal aborts, the share is revoked, or something fails that needs the positions anew. */
async function flow<Encoded>(
  parts: Parts<Encoded>,
  failures: Failures,
  share: Share,
  signal: AbortSignal,
  abandon: AbortSignal,
): Promise<void> {
  const { source, decoder, sink, watch } = parts
  const ending = new AbortController()
  let giveUp = abandon
  const begin: OnStart = (positions, revoked, ends) => {
    share.revoked = revoked
    giveUp = AbortSignal.any([abandon, revoked])
    watch.started(positions, revoked, ends)
    if (failures.starts > 0) watch.recovered('log')
    failures.starts = 0
    watch.began()
  }
  const runs = source.runs(AbortSignal.any([signal, abandon, ending.signal]), begin, (...of) => watch.assigned(...of))
  const spares: Spares = []
  const ready = readAhead(batches(runs, decoder, parts.batch, spares), pending => {
    watch.taken(pending)
    return endingOnError(ending, () => ({ pending, encoded: encode(sink, pending) })) // while the batch before is being written
  })
  for await (const { pending, encoded } of ready) {
    await endingOnError(ending, async () => {
      const counts = await store(parts, pending, encoded, giveUp) // durable, and its dead letters before it
      watch.settled(pending, counts)
      await commit(parts, positionsOf(pending.batch), giveUp) // last: everything below is stored or dead-lettered
    })
    sink.release?.(encoded)
    spare(spares, pending, parts.batch)
    failures.fences = 0
  }
}

/** On a failure the runs end before anything waits for their end: a log without new messages would keep it waiting. */
function endingOnError<Result>(ending: AbortController, work: () => Result): Result {
  try {
    const result = work()
    if (result instanceof Promise) result.catch(() => ending.abort())
    return result
  } catch (error) {
    ending.abort()
    throw error
  }
}

/** Writes until it succeeds. Each message is put to the dead letters once, however often the batch is tried. */
function store<Encoded>(
  parts: Parts<Encoded>,
  pending: PendingBatch,
  encoded: Encoded,
  giveUp: AbortSignal,
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
      // A sink may wrap what it catches, so that it is remembered here what went wrong.
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
      return await sink.write(encoded, rejections => reject(rejections, 'store'), giveUp)
    } catch (error) {
      throw failure ?? error
    }
  }

  return retry(attempt, retrying(parts), giveUp)
}

function commit<Encoded>(parts: Parts<Encoded>, positions: Positions, giveUp: AbortSignal): Promise<void> {
  return retry(() => parts.source.commit(positions), retrying(parts), giveUp)
}

function retrying<Encoded>(parts: Parts<Encoded>): Parameters<typeof retry>[1] {
  return {
    backOff: parts.backOff,
    classify: error => classify(parts.sink, error),
    onFailure: (error, failures, waitMs) => parts.watch.failed(error, whatFailed(error), failures, waitMs),
    onRecovery: () => parts.watch.recovered('all'),
  }
}

/** Waits before the positions are asked again; throws where that cannot help. */
async function beforeNextFlow<Encoded>(parts: Parts<Encoded>, failures: Failures, error: unknown, signal: AbortSignal): Promise<void> {
  const kind = classify(parts.sink, error)
  if (kind === 'systemic') throw asSystemic(error)
  failures.starts++
  if (kind === 'fenced') failures.fences++
  if (failures.fences > fencesMax) {
    throw new SystemicError(
      `the store has gone on without this writer ${failures.fences} times in a row (${messageOf(error)}): stop the other writer that works under the same name`,
      { cause: error },
    )
  }
  const count = Math.max(failures.starts, failures.fences)
  const waitMs = waitBefore(count, parts.backOff)
  parts.watch.failed(error, kind === 'fenced' ? 'fenced' : whatFailed(error), count, waitMs)
  // An abort ends the wait, and then the loop: nothing is in flight.
  await wait(waitMs, undefined, { signal }).catch(() => undefined)
}

function classify<Encoded>(sink: Sink<Encoded>, error: unknown): ErrorClass {
  if (error instanceof SystemicError) return 'systemic'
  if (error instanceof LogUnavailableError) return 'transient'
  if (error instanceof DeadLettersError) return isFinal(error.cause) ? 'systemic' : 'transient'
  return sink.classify(error)
}

/** A dead letter that its log can never take: without it the batch cannot become final. */
function isFinal(error: unknown): boolean {
  return error instanceof SystemicError || error instanceof MessageRefusedError
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
    // Encoding reads nothing but the batch: it would fail the same way every time.
    const range = batch.ranges[0]
    throw new SystemicError(
      `a batch from partition ${range?.partition} offset ${range?.from} cannot be encoded for the store (${messageOf(error)}): this is a fault of the program, report it`,
      { cause: error },
    )
  }
}

function positionsOf(batch: RecordBatch): Positions {
  return new Map(batch.ranges.map(({ partition, to }) => [partition, to]))
}
