// Compares a store with its log: each message must be stored exactly once, be a dead letter, or need no storing.

import { named } from '../../config/options/variable.ts'
import type { AuditedLog, StoreAudit } from '../../sinks/audit.ts'
import { type Erasure, erasedMessages } from '../../sinks/erasure.ts'
import { type DeadLetterIndex, openDeadLetterIndex } from '../dead-letters/state-index.ts'
import type { PartitionOffsets } from '../log.ts'
import { SystemicError } from '../systemic-error.ts'
import type { TopicBounds, TopicReader } from '../topic-reader.ts'
import type { Decoder } from '../writer/decode.ts'
import { withDifferences } from './differences.ts'
import { auditPartition, type PartitionReport, rangeOf } from './partition.ts'

/** What a consumer group has committed for a topic. */
export interface GroupOffsets {
  readonly group: string
  readonly offsets: PartitionOffsets
}

/**
 * The offsets that the consumer group of a writer has committed for a topic: the position of a writer whose store keeps no positions. Left out for a store
 * that keeps them.
 */
export type CommittedOf = (writer: string, topic: Pick<TopicReader, 'name' | 'partitions'>) => Promise<GroupOffsets>

export interface VerifyParts {
  readonly reader: TopicReader
  readonly audit: StoreAudit
  /** The writer's name, which counts if the store has rows of several writers of this topic. */
  readonly writer: string
  /** The same transformer, subjects and limits as the writer's. */
  readonly decoder: Decoder
  /** The dead letters of the writer that owns the store; undefined if there is no such topic, and so no letters. */
  readonly deadLettersOf: (writer: string) => Promise<TopicReader | undefined>
  readonly committed?: CommittedOf
  /** Compares every column of every row with what its message decodes to, and not only the number of rows. */
  readonly contents?: boolean
  /** Called with the number of offsets compared so far, and the total. */
  readonly onProgress?: (done: number, total: number) => void
}

export interface VerifyReport {
  readonly topic: string
  readonly writer: string
  /** The log's number in the store. */
  readonly log: number
  /** Whether the columns of the rows were compared, and not only their number. */
  readonly contents: boolean
  /** Start offset of the dead-letter topic by partition, if its start was deleted: earlier letters are unknown. */
  readonly letters_lost_below?: Readonly<Record<string, number>>
  /** Number of erasures that run or were killed: until they have ended, no row that they reach counts as missing, so that nothing is known to hold. */
  readonly erasures_unfinished?: number
  readonly partitions: readonly PartitionReport[]
  readonly holds: boolean
}

/**
 * Compares every message that the log still has below the writer's positions. The writer may be running: its positions are read first, and
 * later messages count as in flight.
 *
 * @throws SystemicError if the store does not know the log
 * @throws LogUnavailableError, and errors of the store
 */
export async function verify(parts: VerifyParts): Promise<VerifyReport> {
  const { reader, audit, writer, decoder, deadLettersOf, committed, contents = false, onProgress } = parts
  const known = knownLog(await audit.logs(), reader, writer)
  const group = await committed?.(known.writer, reader)
  const positions = group?.offsets ?? positionsOf(known)
  // Read after the positions, so that all letters of messages below them exist, and the end is above them.
  const bounds = await reader.bounds()
  if (group !== undefined) checkCommitted(group, [...bounds.values()], known.writer, reader.name)
  const deadLetters = await deadLettersOf(known.writer)
  const index = deadLetters && openDeadLetterIndex(deadLetters, known.id)
  await index?.readOn()
  const lost = lostBelow(index)
  const erasures = await audit.erasures()
  const erased = erasedMessages(erasures, known)
  const unfinished = erasures.filter(({ endedMs }) => endedMs === undefined).length
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
        deadLetters: index?.of(known.number, partition) ?? new Map(),
        deadLettersComplete: lost === undefined,
        erased,
        log: known.number,
        partition,
        bounds: bound,
        next: positions.get(partition),
        ledger: known.partitions.get(partition),
        after: ranges.slice(nth + 1),
        contents,
        onProgress: offsets => onProgress?.((done += offsets), total),
      }),
    )
  }
  const isRight = partitions.every(({ holds }) => holds)
  const isNew = (erasure: Erasure): boolean => !erasures.some(({ id, beforeMs }) => id === erasure.id && beforeMs === erasure.beforeMs)
  if (!isRight && (await audit.erasures()).some(isNew)) {
    throw new SystemicError('messages were erased while they were compared: verify again')
  }
  return {
    topic: reader.name,
    writer: known.writer,
    log: known.number,
    contents,
    ...(lost === undefined ? {} : { letters_lost_below: lost }),
    ...(unfinished === 0 ? {} : { erasures_unfinished: unfinished }),
    partitions: await withDifferences(partitions, { reader, audit, decoder, log: known.number }),
    holds: unfinished === 0 && isRight,
  }
}

/**
 * @param writer counts if several writers write the topic
 * @throws SystemicError
 */
export function knownLog(logs: readonly AuditedLog[], { name, id }: Pick<TopicReader, 'name' | 'id'>, writer: string): AuditedLog {
  const logsOfName = logs.filter(log => log.name === name)
  const topicLogs = logsOfName.filter(log => log.id === id)
  const own = topicLogs.find(log => log.writer === writer)
  // The only writer of a topic may have any name, unless it leaves messages to others.
  const known = own ?? (topicLogs.length === 1 && topicLogs[0]!.contentTypes === undefined ? topicLogs[0] : undefined)
  if (known !== undefined) return known
  if (topicLogs.length > 0) {
    const writers = topicLogs
      .map(log => log.writer)
      .sort()
      .join(', ')
    throw new SystemicError(
      `the store has no messages of the log "${name}" from the writer ${writer}: choose another with --writer (${writers})`,
    )
  }
  throw new SystemicError(
    logsOfName.length === 0
      ? `the store does not know the log "${name}": no writer has stored messages from it yet`
      : `the log "${name}" (id ${id}) is not the one that the store was filled from (id ${logsOfName[0]!.id}): they cannot be compared`,
  )
}

/** @throws SystemicError if the writer's position is unknown */
function checkCommitted({ group, offsets }: GroupOffsets, bounds: readonly TopicBounds[], writer: string, topic: string): void {
  if (offsets.size > 0 || bounds.every(({ start, end }) => start === end)) return
  throw unknownPosition(group, writer, topic)
}

/** The error for a writer of a store that keeps no positions, whose group has committed none. */
export function unknownPosition(group: string, writer: string, topic: string): SystemicError {
  return new SystemicError(
    `the consumer group ${group} of the writer ${writer} has no committed offsets for the topic ${topic}, so the writer's position is unknown: the writer has not started, its group is another (set ${named('log.group')} as the writer has it, or not at all), or Kafka has deleted the offsets, as it does after a week without members (offsets.retention.minutes)`,
  )
}

/** The writer's positions in a log, from the store's ledger. */
export function positionsOf(log: AuditedLog | undefined): PartitionOffsets {
  return new Map([...(log?.partitions ?? [])].map(([partition, { nextOffset }]) => [partition, nextOffset]))
}

function lostBelow(index: DeadLetterIndex | undefined): Record<string, number> | undefined {
  const lost = [...(index?.bounds() ?? [])].filter(([, { start }]) => start > 0)
  return lost.length === 0 ? undefined : Object.fromEntries(lost.map(([partition, { start }]) => [String(partition), start]))
}
