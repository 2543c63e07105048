// A store held against its log: each message is there exactly once, or it is a dead letter, or there is a reason why it is neither.

import type { AuditedLog, StoreAudit } from '../../sinks/audit.ts'
import type { Positions } from '../../sinks/sink.ts'
import type { Decoder } from '../decode.ts'
import { type LetterIndex, openLetterIndex } from '../letters/index-of-letters.ts'
import { replaysGroup } from '../replays.ts'
import { SystemicError } from '../systemic-error.ts'
import type { TopicBounds, TopicReader } from '../topic-reader.ts'
import { auditPartition, type PartitionReport, rangeOf } from './partition.ts'

/**
 * What a consumer group has committed of a topic: where a writer goes on whose store keeps no positions. Left out for a store that says
 * so itself.
 */
export type CommittedOf = (group: string, topic: Pick<TopicReader, 'name' | 'partitions'>) => Promise<Positions>

export interface VerifyParts {
  readonly reader: TopicReader
  readonly audit: StoreAudit
  /** As the writer's: its transformer, its subjects, its limits. */
  readonly decoder: Decoder
  /** The dead letters of the writer that the store belongs to; undefined where there is no such topic, so that there can be none. */
  readonly lettersOf: (writer: string) => Promise<TopicReader | undefined>
  /** Its replays, likewise. */
  readonly replaysOf: (writer: string) => Promise<TopicReader | undefined>
  readonly committed?: CommittedOf
  /** Offsets compared so far, and how many there are to compare. */
  readonly onProgress?: (done: number, total: number) => void
}

export interface VerifyReport {
  readonly topic: string
  readonly writer: string
  /** The number under which the store knows the log. */
  readonly log: number
  /** Where the topic of the dead letters begins, by partition, if it has lost its beginning: letters below are not known. */
  readonly letters_lost_below?: Readonly<Record<string, number>>
  readonly partitions: readonly PartitionReport[]
  readonly holds: boolean
}

/**
 * Compares everything that the log still holds below the positions of the store. The writer may run: its positions are read first, and
 * what lies above them is in flight.
 *
 * @throws SystemicError where the store does not know the log
 * @throws LogUnavailableError, and the errors of the store
 */
export async function verify({ reader, audit, decoder, lettersOf, replaysOf, committed, onProgress }: VerifyParts): Promise<VerifyReport> {
  const logs = await audit.logs()
  const known = knownLog(logs, reader)
  const positions = (await committed?.(known.writer, reader)) ?? positionsOf(known)
  // After the positions, so that every letter of a message below them is there, and the end is above them.
  const bounds = await reader.bounds()
  if (committed !== undefined) checkCommitted(positions, [...bounds.values()], known.writer, reader.name)
  const letters = await lettersOf(known.writer)
  const index = letters === undefined ? undefined : await openLetterIndex(letters)
  // After the letters, so that every message that one of them calls replayed is among the replays.
  const replaysPassed = await arePassed(
    await replaysOf(known.writer),
    logs,
    committed && (topic => committed(replaysGroup(known.writer), topic)),
  )
  const lost = lostBelow(index)
  const sorted = [...bounds].sort(([one], [other]) => one - other)
  const ranges = sorted.map(([partition, bound]) => rangeOf(partition, bound, positions.get(partition)))
  const total = ranges.reduce((sum, { from, to }) => sum + to - from, 0)
  let done = 0
  const partitions: PartitionReport[] = []
  for (const [nth, [partition, bound]] of sorted.entries()) {
    partitions.push(
      await auditPartition({
        reader,
        audit,
        decoder,
        letters: index?.of(known.number, partition) ?? new Map(),
        lettersComplete: lost === undefined,
        replaysPassed,
        log: known.number,
        partition,
        bounds: bound,
        next: positions.get(partition),
        ledger: known.partitions.get(partition),
        after: ranges.slice(nth + 1),
        onProgress: offsets => onProgress?.((done += offsets), total),
      }),
    )
  }
  return {
    topic: reader.name,
    writer: known.writer,
    log: known.number,
    ...(lost === undefined ? {} : { letters_lost_below: lost }),
    partitions,
    holds: partitions.every(({ holds }) => holds),
  }
}

/** @throws SystemicError */
export function knownLog(logs: readonly AuditedLog[], { name, id }: Pick<TopicReader, 'name' | 'id'>): AuditedLog {
  const named = logs.filter(log => log.name === name)
  const known = named.find(log => log.id === id)
  if (known !== undefined) return known
  throw new SystemicError(
    named.length === 0
      ? `the store knows nothing of the log "${name}": no writer has written to it from there yet`
      : `the log "${name}" is another one (id ${id}) than the store was written from (id ${named[0]!.id}): there is nothing to compare`,
  )
}

/** @throws SystemicError where nobody knows how far the store should be */
function checkCommitted(positions: Positions, bounds: readonly TopicBounds[], writer: string, topic: string): void {
  if (positions.size > 0 || bounds.every(({ start, end }) => start === end)) return
  throw new SystemicError(
    `the consumer group ${writer} has committed nothing of the topic ${topic}, so that nobody knows how far the store should be: its writer has not begun, or Kafka has forgotten the group, which it does when nobody works in it for a week (offsets.retention.minutes)`,
  )
}

/** Where the writer goes on in a log, by the store's own books. */
export function positionsOf(log: AuditedLog | undefined): Positions {
  return new Map([...(log?.partitions ?? [])].map(([partition, { nextOffset }]) => [partition, nextOffset]))
}

/**
 * Whether nothing waits in the topic: the writer, by positions that were read before, has passed all that there is now.
 *
 * @param committed for a store that keeps no positions
 */
async function arePassed(
  replays: TopicReader | undefined,
  logs: readonly AuditedLog[],
  committed: ((topic: TopicReader) => Promise<Positions>) | undefined,
): Promise<boolean> {
  if (replays === undefined) return true
  const known = logs.find(({ name, id }) => name === replays.name && id === replays.id)
  const positions = (await committed?.(replays)) ?? positionsOf(known)
  const bounds = await replays.bounds()
  return [...bounds].every(([partition, { end }]) => (positions.get(partition) ?? 0) >= end)
}

function lostBelow(index: LetterIndex | undefined): Record<string, number> | undefined {
  const lost = [...(index?.bounds ?? [])].filter(([, { start }]) => start > 0)
  return lost.length === 0 ? undefined : Object.fromEntries(lost.map(([partition, { start }]) => [String(partition), start]))
}
