// Erases messages from a store: their rows, and their dead letters, which a replay could store. Says what logs still have of them.
//
// The note of the erasure is written first, so that from then on no replay stores what is erased, and `verify` does not call it missing. It ends with
// the offsets that the erasure reached: later messages are not affected. An erasure that was killed stays without an end, and the next one with the same
// conditions goes on with it.

import { randomUUID } from 'node:crypto'
import type { AuditedLog, StoreAudit } from '../../sinks/audit.ts'
import type { ErasedLog, ErasedOffsets, ErasureFilter, StoreErasure } from '../../sinks/erasure.ts'
import { type CommittedOf, positionsOf } from '../audit/verify.ts'
import { selectDeadLetters } from '../dead-letters/filter.ts'
import { resolutionMessage } from '../dead-letters/parse.ts'
import { appendGrouped } from '../dead-letters/queue.ts'
import type { Found } from '../dead-letters/summary.ts'
import type { Log, LogRetention, OutgoingMessage, PartitionOffsets } from '../log.ts'
import type { RawMessage } from '../source.ts'
import type { TopicBounds, TopicReader } from '../topic-reader.ts'

/** The topic of a log, and that of its dead letters. */
export interface ErasedTopic {
  readonly topic: Pick<TopicReader, 'name' | 'partitions' | 'bounds'>
  /** Undefined if it is not known. */
  readonly retention: LogRetention | undefined
  /** Undefined if there is no such topic. */
  readonly deadLetters: { readonly reader: TopicReader; readonly log: Log; readonly retention: LogRetention | undefined } | undefined
}

export interface EraseParts {
  readonly store: StoreErasure
  readonly audit: Pick<StoreAudit, 'logs' | 'erasures'>
  /** Opens the topic of a log; undefined if it is not there. */
  readonly topicOf: (log: AuditedLog) => Promise<ErasedTopic | undefined>
  /** For a store that keeps no positions. */
  readonly committed?: CommittedOf
  /** Milliseconds since 1970. */
  readonly clock?: () => number
}

export interface EraseOptions {
  /** Counts, and changes nothing. */
  readonly dryRun?: boolean
  /** Called with the number of rows deleted so far, and the total. */
  readonly onProgress?: (done: number, total: number) => void
  readonly signal?: AbortSignal
}

/** What a log still has, from which single messages cannot be deleted. */
export interface HeldTopic {
  readonly topic: string
  /** How many messages it has, of all channels and publishers. */
  readonly messages: number
  readonly kept_ms?: number
  readonly kept_bytes?: number
  readonly compacted?: true
  /** Its retention is not known. */
  readonly unknown?: true
  /** How many of them the writer has not stored yet; those that meet the conditions are stored after this. */
  readonly not_stored?: number
}

export interface EraseReport {
  readonly erased: boolean
  /** Of the note; undefined if nothing was erased. */
  readonly id?: string
  /** By format, before it was erased. */
  readonly found: Readonly<Record<string, number>>
  /** Number of rows deleted; dead letters also by runs that were killed. */
  readonly rows: number
  readonly dead_letters: number
  readonly held: readonly HeldTopic[]
  /** Logs of the store whose topics are not there: their dead letters are not erased, and `verify` knows nothing of the erasure of their rows. */
  readonly absent: readonly string[]
}

/** Erases, in this or another process. */
export type Erase = (filter: ErasureFilter, options?: EraseOptions) => Promise<EraseReport>

interface LogToErase {
  readonly log: AuditedLog
  readonly erased: ErasedTopic
  /** Messages below are in the store, so this run deletes their rows. */
  readonly stored: PartitionOffsets
}

const neverAborted = new AbortController().signal

/** @throws LogUnavailableError, SystemicError, SinkError, errors of the store */
export async function erase(parts: EraseParts, filter: ErasureFilter, options: EraseOptions = {}): Promise<EraseReport> {
  const { store, audit, committed, clock = Date.now } = parts
  const { dryRun = false, onProgress, signal = neverAborted } = options
  const logs = await audit.logs()
  const topics: LogToErase[] = []
  const absent: string[] = []
  for (const log of logs) {
    const erased = await parts.topicOf(log)
    if (erased === undefined) absent.push(`${log.name} (id ${log.id})`)
    else {
      const stored = committed === undefined ? positionsOf(log) : (await committed(log.writer, erased.topic)).offsets
      topics.push({ log, erased, stored })
    }
  }
  const found = await store.count(filter, signal)
  const total = [...found.values()].reduce((sum, rows) => sum + rows, 0)
  const report = { found: Object.fromEntries(found), held: await heldBy(topics), absent }
  if (dryRun) {
    let deadLetters = 0
    for (const { erased } of topics) for await (const _ of lettersOf(erased, filter)) deadLetters++
    return { erased: false, ...report, rows: total, dead_letters: deadLetters }
  }

  let erasure = (await audit.erasures()).findLast(known => known.endedMs === undefined && isSame(known, filter)) ?? {
    id: randomUUID(),
    ...filter,
    startedMs: clock(),
    rows: 0,
    deadLetters: 0,
    logs: [],
  }
  await store.note(erasure)
  try {
    // First, since a dead letter that is open could be replayed.
    for (const { erased } of topics) {
      if (erased.deadLetters === undefined) continue
      const resolved = await appendGrouped(erased.deadLetters.log, resolutionsOf(lettersOf(erased, filter), clock() * 1000))
      erasure = { ...erasure, deadLetters: erasure.deadLetters + resolved }
      if (resolved > 0) await store.note(erasure)
    }
    let done = 0
    await store.erase(filter, signal, async rows => {
      done += rows
      erasure = { ...erasure, rows: erasure.rows + rows }
      onProgress?.(done, total)
    })
  } catch (error) {
    // If this fails too, it stays without an end, as after a kill.
    await end(false).catch(() => undefined)
    throw error
  }
  await end(true)
  return { erased: true, id: erasure.id, ...report, rows: erasure.rows, dead_letters: erasure.deadLetters }

  /**
   * What a store without positions had when it ended is not known: its writer may have written whatever the log has.
   *
   * @param isDone whether no row is left of messages that were stored before
   */
  async function end(isDone: boolean): Promise<void> {
    const now = await audit.logs()
    const erasedLogs: ErasedLog[] = []
    for (const { log, erased, stored } of topics) {
      const ends =
        committed === undefined
          ? positionsOf(now.find(({ number, id }) => number === log.number && id === log.id))
          : new Map([...(await erased.topic.bounds())].map(([partition, { end }]) => [partition, end]))
      const partitions: Record<string, ErasedOffsets> = {}
      for (const [partition, reached] of ends) partitions[partition] = { stored: isDone ? (stored.get(partition) ?? 0) : 0, reached }
      erasedLogs.push({ number: log.number, id: log.id, partitions })
    }
    erasure = { ...erasure, endedMs: clock(), logs: erasedLogs }
    await store.note(erasure)
  }
}

/** Letters that meet the conditions and are not erased yet, each with its cursor, which is valid until the next one is requested. */
async function* lettersOf({ deadLetters }: ErasedTopic, filter: ErasureFilter): AsyncGenerator<Found> {
  if (deadLetters === undefined) return
  for await (const found of selectDeadLetters(deadLetters.reader, { all: true })) {
    if (found.state !== 'erased' && isMeant(found.cursor.message, filter)) yield found
  }
}

/** The rows of a dead letter are not known, so its time of receipt counts; one without has none before anything. */
function isMeant({ channel, publisher, createdUs }: RawMessage, filter: ErasureFilter): boolean {
  return (
    (filter.channel === undefined || filter.channel === channel) &&
    (filter.publisher === undefined || filter.publisher === publisher) &&
    (filter.beforeMs === undefined || (createdUs > 0 && createdUs < filter.beforeMs * 1000))
  )
}

async function* resolutionsOf(letters: AsyncIterable<Found>, nowUs: number): AsyncGenerator<OutgoingMessage> {
  for await (const found of letters) yield resolutionMessage(found, 'erased', nowUs)
}

function isSame(one: ErasureFilter, other: ErasureFilter): boolean {
  return one.channel === other.channel && one.publisher === other.publisher && one.beforeMs === other.beforeMs
}

async function heldBy(topics: readonly LogToErase[]): Promise<HeldTopic[]> {
  const held = new Map<string, HeldTopic>()
  for (const { erased, stored } of topics) {
    const { topic, retention, deadLetters } = erased
    const bounds = await topic.bounds()
    let notStored = held.get(topic.name)?.not_stored ?? 0
    for (const [partition, { start, end }] of bounds) notStored += end - Math.max(start, stored.get(partition) ?? start)
    held.set(topic.name, { ...heldTopic(topic.name, bounds, retention), ...(notStored > 0 ? { not_stored: notStored } : {}) })
    const reader = deadLetters?.reader
    if (reader !== undefined) held.set(reader.name, heldTopic(reader.name, await reader.bounds(), deadLetters?.retention))
  }
  return [...held.values()]
}

function heldTopic(topic: string, bounds: ReadonlyMap<number, TopicBounds>, retention: LogRetention | undefined): HeldTopic {
  return {
    topic,
    messages: [...bounds.values()].reduce((sum, { start, end }) => sum + end - start, 0),
    ...(retention?.keptMs === undefined ? {} : { kept_ms: retention.keptMs }),
    ...(retention?.keptBytes === undefined ? {} : { kept_bytes: retention.keptBytes }),
    ...(retention?.isCompacted === true ? { compacted: true } : {}),
    ...(retention === undefined ? { unknown: true } : {}),
  }
}
