// Erases messages from a store: their rows, and their dead letters, which a replay could store. Says what logs still have of them.
//
// The note of the erasure is written first, so that from then on no replay stores what is erased, and `verify` does not call it missing. It ends with
// the offsets that the erasure reached: later messages are not affected. An erasure that was interrupted stays without an end, and the next one with the
// same conditions goes on with it.

import { randomUUID } from 'node:crypto'
import type { AuditedLog, StoreAudit } from '../../sinks/audit.ts'
import type { ErasedLog, ErasedOffsets, Erasure, ErasureFilter, StoreErasure } from '../../sinks/erasure.ts'
import { type CommittedOf, positionsOf } from '../audit/verify.ts'
import { selectDeadLetters } from '../dead-letters/filter.ts'
import { resolutionMessage } from '../dead-letters/parse.ts'
import { appendGrouped } from '../dead-letters/queue.ts'
import type { Found } from '../dead-letters/summary.ts'
import type { Log, LogRetention, OutgoingMessage, PartitionOffsets } from '../log.ts'
import type { RawMessage } from '../source.ts'
import type { TopicReader } from '../topic-reader.ts'

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
}

export interface EraseReport {
  readonly erased: boolean
  /** Of the note; undefined if nothing was erased. */
  readonly id?: string
  /** By format, before it was erased. */
  readonly found: Readonly<Record<string, number>>
  /** Number of rows deleted, also by runs that were interrupted. */
  readonly rows: number
  readonly dead_letters: number
  readonly held: readonly HeldTopic[]
  /** Logs of the store whose topics are not there: their dead letters are not erased, and `verify` knows nothing of the erasure of their rows. */
  readonly absent: readonly string[]
}

/** Erases, in this or another process. */
export type Erase = (filter: ErasureFilter, options?: EraseOptions) => Promise<EraseReport>

const neverAborted = new AbortController().signal
/** How often the number of rows is noted. */
const noteEveryMs = 5_000

/** @throws LogUnavailableError, SystemicError, SinkError, errors of the store */
export async function erase(parts: EraseParts, filter: ErasureFilter, options: EraseOptions = {}): Promise<EraseReport> {
  const { store, audit, committed, clock = Date.now } = parts
  const { dryRun = false, onProgress, signal = neverAborted } = options
  const logs = await audit.logs()
  const topics: { log: AuditedLog; erased: ErasedTopic }[] = []
  const absent: string[] = []
  for (const log of logs) {
    const erased = await parts.topicOf(log)
    if (erased === undefined) absent.push(`${log.name} (id ${log.id})`)
    else topics.push({ log, erased })
  }
  const found = await store.count(filter, signal)
  const total = [...found.values()].reduce((sum, rows) => sum + rows, 0)
  const report = { found: Object.fromEntries(found), held: await heldBy(topics.map(({ erased }) => erased)), absent }
  if (dryRun) {
    let deadLetters = 0
    for (const { erased } of topics) for await (const _ of lettersOf(erased, filter)) deadLetters++
    return { erased: false, ...report, rows: total, dead_letters: deadLetters }
  }

  // Messages below these positions are in the store, so this run deletes their rows.
  const storedBelow = new Map<AuditedLog, PartitionOffsets>()
  for (const { log, erased } of topics) {
    storedBelow.set(log, committed === undefined ? positionsOf(log) : (await committed(log.writer, erased.topic)).offsets)
  }
  let erasure = (await audit.erasures()).findLast(known => known.endedMs === undefined && isSame(known, filter)) ?? {
    id: randomUUID(),
    ...filter,
    startedMs: clock(),
    rows: 0,
    deadLetters: 0,
    logs: [],
  }
  await note({})
  // First, since a dead letter that is open could be replayed.
  for (const { erased } of topics) {
    if (erased.deadLetters === undefined) continue
    const resolved = await appendGrouped(erased.deadLetters.log, resolutionsOf(lettersOf(erased, filter), clock() * 1000))
    if (resolved > 0) await note({ deadLetters: erasure.deadLetters + resolved })
  }
  let done = 0
  let notedMs = performance.now()
  await store.erase(filter, signal, async rows => {
    done += rows
    erasure = { ...erasure, rows: erasure.rows + rows }
    onProgress?.(done, total)
    if (performance.now() - notedMs < noteEveryMs) return
    notedMs = performance.now()
    await note({})
  })
  await note({ endedMs: clock(), logs: await reached() })
  return { erased: true, id: erasure.id, ...report, rows: erasure.rows, dead_letters: erasure.deadLetters }

  async function note(more: Partial<Erasure>): Promise<void> {
    erasure = { ...erasure, ...more }
    await store.note(erasure)
  }

  /** What a store without positions had when it ended is not known: its writer may have written whatever the log has. */
  async function reached(): Promise<ErasedLog[]> {
    const now = await audit.logs()
    const erasedLogs: ErasedLog[] = []
    for (const { log, erased } of topics) {
      const ends =
        committed === undefined
          ? positionsOf(now.find(({ number, id }) => number === log.number && id === log.id))
          : new Map([...(await erased.topic.bounds())].map(([partition, { end }]) => [partition, end]))
      const partitions: Record<string, ErasedOffsets> = {}
      for (const [partition, end] of ends) partitions[partition] = { stored: storedBelow.get(log)!.get(partition) ?? 0, reached: end }
      erasedLogs.push({ number: log.number, id: log.id, partitions })
    }
    return erasedLogs
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

async function heldBy(topics: readonly ErasedTopic[]): Promise<HeldTopic[]> {
  const held = new Map<string, HeldTopic>()
  for (const { topic, retention, deadLetters } of topics) {
    held.set(topic.name, await heldTopic(topic, retention))
    if (deadLetters !== undefined) held.set(deadLetters.reader.name, await heldTopic(deadLetters.reader, deadLetters.retention))
  }
  return [...held.values()]
}

async function heldTopic(topic: Pick<TopicReader, 'name' | 'bounds'>, retention: LogRetention | undefined): Promise<HeldTopic> {
  let messages = 0
  for (const { start, end } of (await topic.bounds()).values()) messages += end - start
  return {
    topic: topic.name,
    messages,
    ...(retention?.keptMs === undefined ? {} : { kept_ms: retention.keptMs }),
    ...(retention?.keptBytes === undefined ? {} : { kept_bytes: retention.keptBytes }),
    ...(retention?.isCompacted === true ? { compacted: true } : {}),
    ...(retention === undefined ? { unknown: true } : {}),
  }
}
