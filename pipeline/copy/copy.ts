// Copies the rows of a store to another one, where they keep their identity: log, position and index.
//
// Both stores are read once for sums of their rows by blocks of offsets, and what differs is read again, put into the order of the log and written
// through the sink of the target. So a copy that was interrupted goes on where it stood: a store with positions has them in the transaction of the
// rows, and in the others rows that are written again overwrite themselves. The sums also show, at the end, that the target has what the source has.

import type { AuditedLog, PositionRange, StoreAudit } from '../../sinks/audit.ts'
import { withPayload } from '../../sinks/contents.ts'
import type { StoreErasure } from '../../sinks/erasure.ts'
import type { LogIdentity } from '../../sinks/logs.ts'
import type { ReplaySink } from '../../sinks/replay.ts'
import { limits, packedPosition, type Sink } from '../../sinks/sink.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { flatObject } from '../../transformers/flattening.ts'
import { type FieldValue, flatten } from '../../transformers/json/flatten.ts'
import { unflatten } from '../../transformers/json/unflatten.ts'
import { logPartition, partitionOf } from '../../transformers/log-partition.ts'
import type { JsonObject } from '../../transformers/record-batch.ts'
import type { PartitionOffsets } from '../log.ts'
import { SystemicError } from '../systemic-error.ts'
import { type BackOff, defaultBackOff } from '../writer/retry.ts'
import { openSpool } from './spool.ts'
import { blockOf, blockOffsets, firstPosition, offsetIn, partitionIn, RowSums } from './sums.ts'
import { type BatchSizes, type NotCopied, openCopyWriter } from './write.ts'

type CopyAudit = Pick<StoreAudit, 'logs' | 'erasures' | 'rows' | 'replayed'>

export interface CopySource {
  readonly audit: CopyAudit
  /** Whether it stores JSON documents flattened. */
  readonly isFlat: boolean
  /**
   * By partition, where the writer goes on, below which rows are copied; undefined for a log that is not written any more, of which all are.
   *
   * @throws SystemicError while a process of the writer runs
   */
  positionsOf(log: AuditedLog): Promise<PartitionOffsets | undefined>
}

export interface CopyTarget {
  readonly audit: CopyAudit
  readonly isFlat: boolean
  /** By partition, where the writer of a store whose sink has no `positions` goes on. @param positions of the source */
  positionsOf(log: AuditedLog, positions: PartitionOffsets): Promise<PartitionOffsets>
  /** Opens a sink for one log. */
  openSink(log: LogIdentity): Promise<Sink>
  openReplays(logNumber: number): Promise<ReplaySink>
  /** Called when its schema is there. */
  openErasure(): Promise<Pick<StoreErasure, 'note'>>
}

export interface CopyParts {
  readonly source: CopySource
  readonly target: CopyTarget
  readonly batch: BatchSizes
  /** Compares all columns of the rows, and not only their positions and indexes. */
  readonly contents?: boolean
  /** Called with the number of rows written so far, and how many there are to write of the log. */
  readonly onProgress?: (done: number, total: number) => void
  /** Called with a failure that is retried. */
  readonly onFailure?: (error: unknown) => void
  readonly backOff?: BackOff
  readonly signal: AbortSignal
  /** How much is put into order at once. */
  readonly spool?: { readonly rows: number; readonly bytes: number }
}

export interface PartitionCopy {
  readonly partition: number
  /** Where the writer of the source stands; undefined for a log that is not written any more. */
  readonly position: number | undefined
  /** Rows of the source that the target has to have. */
  readonly rows: number
  /** Rows of the target. */
  readonly target_rows: number
  /** Ranges of offsets `[from, to)` in which the target has not the rows of the source. */
  readonly differing: readonly { readonly from: number; readonly to: number }[]
}

export interface LogCopy {
  /** The number of the log in both stores. */
  readonly log: number
  readonly name: string
  readonly id: string
  readonly writer: string
  readonly partitions: readonly PartitionCopy[]
  /** Rows that were written now; an earlier copy has written the others. */
  readonly written: number
  /** Documents that are nothing in a store of flattened documents: they have no fields. */
  readonly dropped: number
  /** Messages that the target does not have. */
  readonly not_copied: number
  /** The first of them. */
  readonly first: readonly NotCopied[]
}

/** What may be on the disk at once: about twice these bytes. */
const spoolLimits = { rows: 10_000_000, bytes: 4 * 1024 ** 3 }

/**
 * Copies the rows of all logs, one log after another, oldest first: the one of a name and writer that is written from now must be accepted last.
 *
 * @throws SystemicError if the source is still written, or the target has rows that are not of the source
 * @throws SinkError, and errors of the stores
 */
export async function copyStore(parts: CopyParts): Promise<LogCopy[]> {
  const { source } = parts
  const logs = (await source.audit.logs()).toReversed()
  if (logs.length === 0) throw new SystemicError('the source has no logs: no writer has stored messages in it yet')
  const positions = new Map<AuditedLog, PartitionOffsets | undefined>()
  for (const log of logs) positions.set(log, await source.positionsOf(log))
  const copies: LogCopy[] = []
  const erasures = await source.audit.erasures()
  for (const log of logs) copies.push(await copyLog(log, positions.get(log), parts))
  if (JSON.stringify(await source.audit.erasures()) !== JSON.stringify(erasures)) {
    throw new SystemicError('messages were erased from the source meanwhile: erase them from the target too, and copy again')
  }
  // Of the same numbers of logs, so they say of the target too what is not missing.
  if (erasures.length > 0) {
    const { note } = await parts.target.openErasure()
    for (const erasure of erasures) await note(erasure)
  }
  const now = await source.audit.logs()
  for (const log of logs) {
    const again = now.find(({ number }) => number === log.number)
    const moved = again === undefined ? undefined : await source.positionsOf(again)
    const before = positions.get(log)
    if (before !== undefined && [...before].some(([partition, offset]) => moved?.get(partition) !== offset)) {
      throw new SystemicError(
        `the writer "${log.writer}" has stored messages into the source meanwhile: stop all its processes, and copy again`,
      )
    }
  }
  return copies
}

async function copyLog(log: AuditedLog, positions: PartitionOffsets | undefined, parts: CopyParts): Promise<LogCopy> {
  const { source, target, contents = false } = parts
  const isCopied = (position: bigint): boolean =>
    logIn(position) === log.number && (positions === undefined || offsetIn(position) < (positions.get(partitionIn(position)) ?? 0))
  const sumsOf = async (audit: CopyAudit, ranges: readonly PositionRange[], textOf: (text: string) => string): Promise<RowSums> => {
    const sums = new RowSums()
    await audit.rows(ranges, contents, (position, index, text) => {
      if (isCopied(position)) sums.add(position, contents ? textOf(text()) : index)
    })
    return sums
  }
  const reshape = reshaping(source.isFlat, target.isFlat)
  // What becomes no text or cannot become one is compared as it is, until it is known not to be copied.
  const comparedText = (text: string): string => {
    try {
      return reshape(text) ?? text
    } catch {
      return text
    }
  }
  const replaysIn = async (audit: CopyAudit, partitions: Iterable<number>): Promise<Set<bigint>> =>
    new Set((await replaysOf(audit, log.number, partitions)).filter(isCopied))
  // Before the rows, so that those of each are read.
  const replayed = positions && (await replaysIn(source.audit, positions.keys()))
  const expected = await sumsOf(source.audit, rangesOf(log.number, positions), comparedText)
  const partitions = new Set([...(positions?.keys() ?? []), ...expected.blocks().map(partitionOfBlock)])
  const replays = replayed ?? (await replaysIn(source.audit, partitions))
  const ranges = positions === undefined ? rangesOfBlocks(expected.blocks()) : rangesOf(log.number, positions)
  const sink = await openSink(log, target)
  try {
    const known = await sink.positions?.(Array.from(partitions, partition => logPartition(0, partition)))
    const next = known && new Map([...known].map(([at, offset]) => [partitionOf(at), offset]))
    if (positions !== undefined) checkNotBeyond(next ?? (await target.positionsOf(log, positions)), positions)
    if (next !== undefined) checkReplays(replays, await replaysIn(target.audit, partitions), next)
    if (replays.size > 0) await (await target.openReplays(log.number)).note(replays, parts.signal)
    const writer = openCopyWriter({
      ...parts,
      backOff: parts.backOff ?? defaultBackOff,
      sink,
      log: log.number,
      reshape,
      isFlat: target.isFlat,
      next,
      onNotCopied: (position, index, text) => expected.remove(position, contents ? comparedText(text) : index),
    })
    const differing =
      sink.positions === undefined ? expected.differingFrom(await sumsOf(target.audit, ranges, text => text)) : expected.blocks()
    const blocks = differing.filter(block => expected.rowsIn(block) > 0 && writer.isWanted(lastPosition(block)))
    await writeBlocks(blocks, expected, writer, isCopied, parts)
    await writer.finish(positions)
    if ((await replaysIn(source.audit, partitions)).size > replays.size) {
      throw new SystemicError(`dead letters of the log "${log.name}" were replayed into the source meanwhile: copy again`)
    }
    await sink.beginCounts?.()
    const actual = await sumsOf(target.audit, ranges, text => text)
    const { number, name, id, writer: owner } = log
    return { log: number, name, id, writer: owner, partitions: partitionsOf(expected, actual, positions), ...writer.outcome() }
  } finally {
    await sink.close()
  }
}

async function openSink({ number, name, id, writer, contentTypes }: AuditedLog, target: CopyTarget): Promise<Sink> {
  // Accepted, since the target may have an earlier log of this name.
  const opening = target.openSink({ logName: name, logId: id, writer, contentTypes, number, acceptNewLog: id })
  const sink = await opening.catch((error: unknown) => {
    if (!(error instanceof SinkError)) throw error
    throw new SystemicError(`the target cannot take the log "${name}" as number ${number}, which its rows keep: ${error.message}`, {
      cause: error,
    })
  })
  await sink.takeNumbers([0])
  return sink
}

/** @throws SystemicError if the target was written after the copy: its writer would go back to where the source stands */
function checkNotBeyond(next: PartitionOffsets, positions: PartitionOffsets): void {
  for (const [partition, offset] of next) {
    const position = positions.get(partition) ?? 0
    if (offset > position) {
      throw new SystemicError(
        `the target stands at offset ${offset} of partition ${partition}, and the source at ${position}: a writer has stored into the target since, so it is no longer copied to`,
      )
    }
  }
}

type CopyWriter = ReturnType<typeof openCopyWriter>

/** Reads the rows of as many blocks at once as the disk may hold. */
async function writeBlocks(
  blocks: readonly number[],
  expected: RowSums,
  writer: CopyWriter,
  isCopied: (position: bigint) => boolean,
  { source, onProgress, signal, spool: sizes = spoolLimits }: CopyParts,
): Promise<void> {
  const total = blocks.reduce((sum, block) => sum + expected.rowsIn(block), 0)
  onProgress?.(0, total)
  let rowsMax = sizes.rows
  for (let start = 0; start < blocks.length; ) {
    signal.throwIfAborted()
    let end = start + 1
    let rows = expected.rowsIn(blocks[start]!)
    while (end < blocks.length && rows + expected.rowsIn(blocks[end]!) <= rowsMax) rows += expected.rowsIn(blocks[end++]!)
    const some = new Set(blocks.slice(start, end))
    const spool = openSpool()
    try {
      const isFull = (): boolean => some.size > 1 && spool.bytes > sizes.bytes
      await source.audit.rows(rangesOfBlocks([...some]), true, (position, index, text) => {
        if (some.has(blockOf(position)) && isCopied(position) && writer.isWanted(position) && !isFull()) spool.add(position, index, text())
      })
      if (isFull()) {
        rowsMax = Math.floor(rows / 2)
        continue
      }
      for (const message of spool.messages()) if (await writer.add(message)) onProgress?.(writer.outcome().written, total)
      await writer.flush()
      start = end
    } finally {
      spool.close()
    }
  }
}

async function replaysOf(audit: CopyAudit, log: number, partitions: Iterable<number>): Promise<bigint[]> {
  const positions: bigint[] = []
  for (const partition of partitions) {
    for (const offset of await audit.replayed(log, partition, 0, limits.offset)) positions.push(packedPosition(log, partition, offset))
  }
  return positions
}

/** @throws SystemicError if the target has passed messages that were replayed into the source after an earlier copy */
function checkReplays(replays: ReadonlySet<bigint>, noted: ReadonlySet<bigint>, next: ReadonlyMap<number, number>): void {
  for (const position of replays) {
    if (noted.has(position) || offsetIn(position) >= (next.get(partitionIn(position)) ?? 0)) continue
    throw new SystemicError(
      `the dead letter of offset ${offsetIn(position)} of partition ${partitionIn(position)} was replayed into the source after an earlier copy, and the target has passed it: copy into an empty store`,
    )
  }
}

/** @returns the text of a row as the target stores it; undefined for a document that is nothing there. Throws DecodeError, ForeignRowError */
function reshaping(fromFlat: boolean, toFlat: boolean): (text: string) => string | undefined {
  if (fromFlat === toFlat) return text => text
  return text => withPayload(text, toFlat ? flattened : nested)
}

function flattened(payload: JsonObject): JsonObject | undefined {
  const fields = flatten(payload)
  return fields.keys.length === 0 ? undefined : flatObject(fields)
}

function nested(payload: JsonObject): JsonObject {
  return unflatten({ keys: Object.keys(payload), values: Object.values(payload) as FieldValue[] })
}

function partitionsOf(expected: RowSums, actual: RowSums, positions: PartitionOffsets | undefined): PartitionCopy[] {
  const differing = Map.groupBy(actual.differingFrom(expected), partitionOfBlock)
  const partitions = new Set([...(positions?.keys() ?? []), ...[...expected.blocks(), ...actual.blocks()].map(partitionOfBlock)])
  const rowsOf = (sums: RowSums, partition: number): number =>
    sums.blocks().reduce((rows, block) => rows + (partitionOfBlock(block) === partition ? sums.rowsIn(block) : 0), 0)
  return [...partitions]
    .sort((one, other) => one - other)
    .map(partition => ({
      partition,
      position: positions?.get(partition),
      rows: rowsOf(expected, partition),
      target_rows: rowsOf(actual, partition),
      differing: (differing.get(partition) ?? []).map(block => {
        const from = offsetIn(firstPosition(block))
        return { from, to: from + blockOffsets }
      }),
    }))
}

/** Everything below the positions of a log, or all of it. */
function rangesOf(log: number, positions: PartitionOffsets | undefined): PositionRange[] {
  if (positions === undefined) return [{ first: packedPosition(log, 0, 0), last: packedPosition(log, limits.partition, limits.offset) }]
  return [...positions]
    .filter(([, offset]) => offset > 0)
    .map(([partition, offset]) => ({ first: packedPosition(log, partition, 0), last: packedPosition(log, partition, offset - 1) }))
}

/** @param blocks in their order; neighbors become one range */
function rangesOfBlocks(blocks: readonly number[]): PositionRange[] {
  const ranges: { first: bigint; last: bigint }[] = []
  for (const block of blocks) {
    const before = ranges.at(-1)
    if (before !== undefined && before.last + 1n === firstPosition(block)) before.last = lastPosition(block)
    else ranges.push({ first: firstPosition(block), last: lastPosition(block) })
  }
  return ranges
}

function lastPosition(block: number): bigint {
  return firstPosition(block + 1) - 1n
}

function logIn(position: bigint): number {
  return Number(position >> 56n)
}

function partitionOfBlock(block: number): number {
  return partitionIn(firstPosition(block))
}
