// Writes copied messages through a sink, in batches like those of a writer.

import { type ContentsRow, ForeignRowError, rowOf } from '../../sinks/contents.ts'
import type { Sink } from '../../sinks/sink.ts'
import { DecodeError } from '../../transformers/decode-error.ts'
import { logPartition, partitionOf } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import type { PartitionOffsets } from '../log.ts'
import { type BackOff, retry } from '../writer/retry.ts'
import type { SpooledMessage } from './spool.ts'
import { offsetIn, partitionIn } from './sums.ts'

export interface BatchSizes {
  readonly rows: number
  readonly bytes: number
}

/** A message that the target does not have. */
export interface NotCopied {
  /** `<log>-<partition>-<offset>` */
  readonly id: string
  readonly rule: string
  readonly reason: string
}

export interface CopyWriterParts {
  readonly sink: Sink
  /** The number of the log in both stores. */
  readonly log: number
  readonly batch: BatchSizes
  /** The text of a row as the target stores it; undefined for one that is nothing there. */
  readonly reshape: (text: string) => string | undefined
  /** Whether the target stores JSON documents flattened. */
  readonly isFlat: boolean
  /** Where a target with positions stands, by partition; undefined for others. */
  readonly next: ReadonlyMap<number, number> | undefined
  /** Called with each row that is not in the target. */
  readonly onNotCopied: (position: bigint, index: number, text: string) => void
  readonly onFailure?: (error: unknown) => void
  readonly backOff: BackOff
  readonly signal: AbortSignal
}

const firstMax = 10

export function openCopyWriter(parts: CopyWriterParts) {
  const { sink, log, reshape, next, onNotCopied, signal } = parts
  const batch = new RecordBatch()
  /** The messages of the batch. */
  let messages: SpooledMessage[] = []
  let bytes = 0
  /** Where the next batch of a partition begins. */
  const covered = new Map(next)
  let [written, dropped, notCopied] = [0, 0, 0]
  const first: NotCopied[] = []

  function leaveOut({ position, texts }: SpooledMessage, rule: string, reason: string): void {
    notCopied++
    if (first.length < firstMax) first.push({ id: `${log}-${partitionIn(position)}-${offsetIn(position)}`, rule, reason })
    for (const text of texts) onNotCopied(position, indexIn(text), text)
  }

  /** The rows of a message, as a transformer gives them: ordered by time. A document that is nothing in the target has none. */
  function rowsOf({ position, texts }: SpooledMessage): Map<string, ContentsRow> {
    const rows = new Map<string, ContentsRow>()
    const empty: string[] = []
    for (const text of texts) {
      const reshaped = reshape(text)
      if (reshaped === undefined) empty.push(text)
      else rows.set(text, rowOf(reshaped, parts.isFlat))
    }
    const [first, ...others] = rows.values()
    for (const column of ['format', 'channel', 'subtopic', 'publisher', 'protocol'] as const) {
      if (others.some(row => row[column] !== first![column])) throw new ForeignRowError(column)
    }
    for (const text of empty) onNotCopied(position, indexIn(text), text)
    dropped += empty.length
    return rows
  }

  /** @throws what no retry can mend */
  async function write(): Promise<void> {
    const encoded = sink.encode(batch)
    const refused = new Map<number, { rule: string; reason: string }>()
    const attempt = () =>
      sink.write(encoded, async some => some.forEach(rejection => void refused.set(rejection.message, rejection)), signal)
    const retrying = {
      backOff: parts.backOff,
      classify: (error: unknown) => sink.classify(error),
      onFailure: (error: unknown) => parts.onFailure?.(error),
      onRecovery: () => undefined,
    }
    await retry(attempt, retrying, signal)
    sink.release?.(encoded)
    for (const { at, to } of batch.ranges) covered.set(partitionOf(at), to)
    for (const [message, { rule, reason }] of refused) leaveOut(messages[message]!, rule, reason)
    written += messages.reduce((sum, { texts }, message) => sum + (refused.has(message) ? 0 : texts.length), 0)
    batch.clear()
    messages = []
    bytes = 0
  }

  async function flush(): Promise<void> {
    if (messages.length === 0) return
    const partition = partitionIn(messages[0]!.position)
    // A store without positions does not ask where the batch before ended.
    const from = next === undefined ? offsetIn(messages[0]!.position) : (covered.get(partition) ?? 0)
    batch.cover(logPartition(0, partition), from, offsetIn(messages.at(-1)!.position) + 1)
    await write()
  }

  return {
    /** False for a position that the target has passed. */
    isWanted: (position: bigint) => offsetIn(position) >= (next?.get(partitionIn(position)) ?? 0),

    /**
     * Adds the next message of a partition.
     *
     * @returns whether a batch was written
     */
    async add(message: SpooledMessage): Promise<boolean> {
      const { position, texts } = message
      const partition = partitionIn(position)
      const isBegun = messages.length > 0 && partitionIn(messages[0]!.position) !== partition
      if (isBegun) await flush()
      let rows: Map<string, ContentsRow>
      try {
        rows = rowsOf(message)
      } catch (error) {
        if (!(error instanceof DecodeError || error instanceof ForeignRowError)) throw error
        leaveOut(message, error instanceof DecodeError ? error.rule : 'foreign-row', error.message)
        return isBegun
      }
      const [origin] = rows.values()
      if (origin === undefined) return isBegun
      const { channel, subtopic, publisher, protocol } = origin
      batch.beginMessage({ at: logPartition(0, partition), offset: offsetIn(position), channel, subtopic, publisher, protocol })
      const inOrder = [...rows.values()].sort((one, other) => one.timeUs - other.timeUs || one.index - other.index)
      for (const row of inOrder) row.append(batch)
      batch.endMessage()
      messages.push({ position, texts: [...rows.keys()] })
      bytes += texts.reduce((sum, text) => sum + text.length, 0)
      if (batch.rowCount < parts.batch.rows && bytes < parts.batch.bytes) return isBegun
      await flush()
      return true
    },

    flush,

    /** Lets a target with positions stand where the source does, also behind its last rows. */
    async finish(positions: PartitionOffsets = new Map()): Promise<void> {
      if (next === undefined) return
      for (const [partition, position] of positions) {
        const from = covered.get(partition) ?? 0
        if (from < position) batch.cover(logPartition(0, partition), from, position)
      }
      if (batch.ranges.length > 0) await write()
    },

    outcome: () => ({ written, dropped, not_copied: notCopied, first }),
  }
}

/** The index follows the format. */
function indexIn(text: string): number {
  return Number(text.split('\0', 2)[1])
}
