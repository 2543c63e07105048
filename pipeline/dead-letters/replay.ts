// Replays dead letters: decodes each with the writer's current options, and stores it through the store's own sink at its original log position.
//
// It works in small batches: a batch is written and recorded as replayed in the store, its rows are counted there, and only then its letters are
// resolved. A job that is interrupted may leave letters open that are already stored; the next one finds that out and resolves them.

import { eachAtOnce } from '../../config/each-at-once.ts'
import type { AuditedLog, StoreAudit, Whereabouts } from '../../sinks/audit.ts'
import { type ErasedMessages, erasedMessages } from '../../sinks/erasure.ts'
import type { ReplaySink } from '../../sinks/replay.ts'
import type { Rejection } from '../../sinks/sink.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { Outcome, RecordBatch } from '../../transformers/record-batch.ts'
import { whereabouts } from '../audit/whereabouts.ts'
import type { Log, OutgoingMessage } from '../log.ts'
import { headerLimitRule } from '../source.ts'
import type { TopicReader } from '../topic-reader.ts'
import type { Decoder } from '../writer/decode.ts'
import { type DeadLetterFilter, deadLettersToResolve, type OnProgress } from './filter.ts'
import type { MessagePosition } from './headers.ts'
import { resolutionMessage } from './parse.ts'
import { type Found, idOf } from './summary.ts'

export interface ReplayParts {
  /** Reader of the dead-letter topic, with the encoding that the writer uses for its log. */
  readonly reader: TopicReader
  /** The log that `reader` reads. */
  readonly log: Log
  /** The same transformer, subjects and limits as the writer's. */
  readonly decoder: Decoder
  readonly audit: Pick<StoreAudit, 'logs' | 'rowsOf' | 'erasures'>
  /** Opens the store's sink for the log with this number. */
  readonly sinkOf: (logNumber: number) => Promise<ReplaySink>
  /** The topic that the writer reads, and the writer's name. */
  readonly topic: string
  readonly writer: string
  /** Milliseconds since 1970. */
  readonly clock?: () => number
}

export interface ReplayOptions {
  /** Decodes and reports what would stay open, but changes nothing. */
  readonly dryRun?: boolean
  readonly onProgress?: OnProgress
  readonly signal?: AbortSignal
}

/** Texts come from devices: escape them before printing them on a terminal. */
export interface ReplayReport {
  /** Number of letters stored and resolved; of a dry run, how many would be tried. */
  readonly replayed: number
  /** Number of letters that stay open. */
  readonly left: number
  /** Why, for the first of them. */
  readonly reasons: readonly { readonly id: string; readonly reason: string }[]
  /** Ids without a letter. */
  readonly missing: readonly string[]
}

/** Replays dead letters, in this or another process. */
export type Replay = (filter: DeadLetterFilter, options?: ReplayOptions) => Promise<ReplayReport>

/** Rows of a small batch, which is one transaction. Small compared with a writer's batch, so that the writer gets turns in between. A single message may exceed it. */
const pieceRowsMax = 500
const pieceBytesMax = 256 * 1024
const pieceDeadLettersMax = 100
/** Each is a round trip to the store. */
const countsAtOnce = 8
const reasonsMax = 100

const neverAborted = new AbortController().signal

/** A letter that can be stored. */
interface Candidate {
  readonly id: string
  readonly message: number
  readonly original: MessagePosition
  readonly partial: boolean
  readonly rows: number
  readonly where: Whereabouts
  readonly resolution: OutgoingMessage
}

interface Piece {
  readonly log: number
  /** Read for each piece: an erasure may begin meanwhile. */
  readonly erased: ErasedMessages
  readonly batch: RecordBatch
  readonly candidates: Candidate[]
  deadLetters: number
  bytes: number
}

/**
 * @throws SystemicError for a log that the store does not know or that belongs to another writer, and for an id that matches letters of several logs
 * @throws LogUnavailableError, RangeError for an invalid id, SinkError, and errors of the store
 */
export async function replay(parts: ReplayParts, filter: DeadLetterFilter, options: ReplayOptions = {}): Promise<ReplayReport> {
  const { reader, decoder, clock = Date.now } = parts
  const { dryRun = false, onProgress, signal = neverAborted } = options
  const sinks = new Map<number, ReplaySink>()
  const known = new Map<number, AuditedLog | undefined>()
  const reasons: { id: string; reason: string }[] = []
  let [replayed, left] = [0, 0]

  function leave(id: string, reason: string): void {
    left++
    if (reasons.length < reasonsMax) reasons.push({ id, reason })
  }

  async function sinkOf(log: number): Promise<ReplaySink> {
    let sink = sinks.get(log)
    if (sink === undefined) sinks.set(log, (sink = await parts.sinkOf(log)))
    return sink
  }

  async function store({ log, batch, candidates }: Piece): Promise<void> {
    if (candidates.length === 0) return
    if (dryRun) {
      replayed += candidates.length
      return
    }
    const partial = new Set(candidates.filter(one => one.partial).map(({ message }) => message))
    const { refused, notPassed } = await (await sinkOf(log)).write(batch, partial, signal)
    // A letter is resolved only if its rows can be counted in the store, whatever the write reported.
    const counts = new Map<number, number>()
    const written = candidates.filter(({ message }) => !notPassed.has(message) && !refused.has(message))
    await eachAtOnce(written, countsAtOnce, async ({ message, original, where }) => {
      counts.set(message, await parts.audit.rowsOf(log, original.partition, original.offset, where))
    })
    const stored: OutgoingMessage[] = []
    for (const { id, message, rows, resolution } of candidates) {
      const rejection = refused.get(message)
      if (notPassed.has(message)) leave(id, 'the writer has not processed this message yet and may still store it: replay it later')
      else if (rejection !== undefined) leave(id, reasonOf(rejection))
      else {
        const found = counts.get(message)
        if (found === rows) stored.push(resolution)
        else leave(id, `the store has ${found} of its ${rows} rows after the write`)
      }
    }
    if (stored.length > 0) await parts.log.append(stored)
    replayed += stored.length
  }

  /** Adds the letter to the batch, or leaves it open. */
  function decode(piece: Piece, found: Found): void {
    const { deadLetter, cursor } = found
    const { original } = deadLetter
    const id = idOf(deadLetter)
    // Without its headers a message would be decoded as another one.
    if (deadLetter.shortenedBytes !== undefined || deadLetter.rule === headerLimitRule) {
      leave(id, 'its dead letter does not contain the whole message, which was too large: read it from its topic at this position')
      return
    }
    if (found.state === 'erased') {
      leave(id, 'it was erased: drop it')
      return
    }
    const erasedAt = erasureOf(piece.erased, found)
    if (erasedAt !== undefined) {
      leave(id, `rows of its channel or publisher were erased on ${erasedAt}, and it has some of that time: drop it`)
      return
    }
    const { batch } = piece
    const rowsBefore = batch.rowCount
    const rejection = decoder.decode({ ...cursor.message, offset: original.offset }, logPartition(0, original.partition), batch)
    const message = batch.messages.length - 1
    const outcome = batch.messages.outcome[message]
    piece.deadLetters++
    piece.bytes += cursor.message.payload.byteLength
    if (rejection !== undefined) leave(id, reasonOf(rejection))
    else if (outcome === Outcome.filtered) leave(id, 'the filters of the writer exclude its subject or its content type')
    else if (outcome === Outcome.empty) leave(id, 'it contains no records, so there is nothing to store')
    else {
      const resolution = resolutionMessage(found, 'replayed', clock() * 1000)
      const rows = batch.rowCount - rowsBefore
      piece.candidates.push({ id, message, original, partial: found.partial, rows, where: whereabouts(batch, message)!, resolution })
    }
  }

  /** When rows were erased of which it would store some; undefined if they were not. */
  function erasureOf(erased: ErasedMessages, { deadLetter: { original }, cursor: { message } }: Found): string | undefined {
    const times = erased.of(message, original.partition, original.offset, undefined)
    if (times === undefined) return undefined
    const batch = new RecordBatch()
    decoder.decode({ ...message, offset: original.offset }, logPartition(0, original.partition), batch)
    const earliestUs = whereabouts(batch, 0)?.earliestUs ?? message.createdUs
    return earliestUs < times.missingBelowUs ? new Date(times.erasure.startedMs).toISOString() : undefined
  }

  const { deadLetters, missing } = await deadLettersToResolve(reader, filter, onProgress)
  let piece: Piece | undefined
  for await (const found of deadLetters) {
    signal.throwIfAborted()
    const { log } = found.deadLetter.original
    if (piece !== undefined && (piece.log !== log || isFull(piece))) {
      await store(piece)
      piece = undefined
    }
    if (!known.has(log))
      known.set(
        log,
        (await parts.audit.logs()).find(({ number }) => number === log),
      )
    const { logId } = found.deadLetter
    const own = known.get(log)
    if (own === undefined || !isOwn(own, logId, parts)) {
      leave(
        idOf(found.deadLetter),
        `the store has no log ${log} of the topic ${parts.topic} with the id ${logId} and the writer ${parts.writer}: its number was freed, or the dead letter belongs to another store; check --writer, select the store with --store or --config, or drop the dead letter`,
      )
      continue
    }
    piece ??= {
      log,
      // Not a retention: what is replayed is kept as long as the options say now.
      erased: erasedMessages(
        (await parts.audit.erasures()).filter(({ retention }) => retention !== true),
        own,
      ),
      batch: new RecordBatch(pieceRowsMax),
      candidates: [],
      deadLetters: 0,
      bytes: 0,
    }
    decode(piece, found)
  }
  if (piece !== undefined) await store(piece)
  return { replayed, left, reasons, missing: missing() }
}

function isFull({ batch, deadLetters, bytes }: Piece): boolean {
  return batch.rowCount >= pieceRowsMax || bytes >= pieceBytesMax || deadLetters >= pieceDeadLettersMax
}

function isOwn(known: AuditedLog, logId: string, { topic, writer }: ReplayParts): boolean {
  return known.name === topic && known.id === logId && known.writer === writer
}

function reasonOf({ rule, reason, hint }: Rejection): string {
  return hint === undefined ? `${rule}: ${reason}` : `${rule}: ${reason} (${hint})`
}
