// Audits one partition: compares the log, the store and the dead letters message by message, in offset order.
//
//   in the log (decoded as by the writer)   in the store     dead letter   verdict
//   n rows                                  n rows           any           stored
//   n rows                                  none             yes           dead-lettered (the store rejected it)
//   n rows                                  none             no            missing
//   n rows, all of them erased              none             no            erased
//   n rows, of which m are erased           n - m            any           stored (n rows: not erased, unless the erasure runs or ran beside the writer)
//   n rows                                  fewer / more     any           rows missing / surplus rows
//   n rows                                  n other rows     any           contents differ (only if they are compared)
//   anything                                fewer            partial       dead-lettered (the store rejected a row of it, and kept these)
//   a dead letter                           none             yes           dead-lettered
//   a dead letter                           none             no            missing dead letter
//   empty, filtered                         none             no            empty, filtered
//   n rows                                  n, replayed      any           dead-lettered, and stored since
//   n rows                                  fewer / more     any           the same, and rows missing / surplus rows
//   a dead letter, empty, filtered          rows, replayed   any           dead-lettered, and stored since (with other options)
//   n rows, a dead letter                   none             replayed      dead-lettered, and replay missing
//   a dead letter, empty, filtered, nothing rows             any           surplus rows
//   anything                                a row twice      any           doubled
//   anything                                a hidden row     any           hidden rows, which count as not stored otherwise
//   deleted (compacted)                     rows or none     any           cannot be compared

import type { AuditedMessage, AuditedPartition, AuditedRange, StoreAudit } from '../../sinks/audit.ts'
import type { ErasedMessages } from '../../sinks/erasure.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { Outcome, RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'
import type { DeadLettered } from '../dead-letters/state-index.ts'
import type { OffsetRange } from '../source.ts'
import type { TopicBounds, TopicReader } from '../topic-reader.ts'
import type { Decoder } from '../writer/decode.ts'
import { type ExpectedRows, expectedRows } from './expected-rows.ts'

export interface PartitionParts {
  readonly reader: TopicReader
  readonly audit: Pick<StoreAudit, 'messages'>
  /** The same transformer, subjects and limits as the writer's. */
  readonly decoder: Decoder
  readonly deadLetters: ReadonlyMap<number, DeadLettered>
  /** The start of the dead-letter topic was not deleted, so a letter that is not there was never written. */
  readonly deadLettersComplete: boolean
  /** What was erased of the log, also by retentions. */
  readonly erased: ErasedMessages
  /** The log's number in the store. */
  readonly log: number
  readonly partition: number
  readonly bounds: TopicBounds
  /** The writer's position: every message below is stored or dead-lettered; undefined if there is none. */
  readonly next: number | undefined
  /** The store's ledger of this partition; undefined if it has none. */
  readonly ledger: AuditedPartition | undefined
  /** The ranges that are compared after this partition. */
  readonly after: readonly AuditedRange[]
  /** Compares all columns of the rows, not only their number. */
  readonly contents: boolean
  /** Called with the number of offsets processed since the last call. */
  readonly onProgress?: (offsets: number) => void
}

export type FaultKind =
  | 'missing'
  | 'rows missing'
  | 'surplus rows'
  | 'doubled'
  | 'hidden rows'
  | 'not erased'
  | 'contents differ'
  | 'missing dead letter'
  | 'replay missing'
  | 'ledger'
  | 'log'

export interface PartitionFault {
  readonly kind: FaultKind
  /** `<log>-<partition>-<offset>`, or `<log>-<partition>` for a fault of the whole partition. */
  readonly id: string
  /** Of the message; absent for a fault of the whole partition. */
  readonly offset?: number
  readonly detail: string
}

/** Message counts: received = stored + erased + empty + filtered + dead_lettered + missing ones. */
export interface Recount {
  received: number
  stored: number
  /** They were stored, and an erasure or a retention has deleted all their rows. */
  erased: number
  empty: number
  filtered: number
  dead_lettered: number
  /** Offsets that never had a message: transaction markers, and messages of aborted transactions. */
  skipped: number
  /** Offsets at which the log no longer has a message, because it is compacted. They cannot be compared. */
  deleted: number
  /** Of these, the ones that the store has rows of. */
  deleted_stored: number
  /** Dead-lettered messages with an open letter, which waits to be replayed or dropped. */
  open: number
  /** Dead-lettered messages that were replayed and are stored. */
  replayed: number
  /** Dead-lettered messages of which the store has some rows, which it accepted before it rejected another. */
  partial: number
}

export interface PartitionReport {
  readonly partition: number
  /** The compared offsets: `[from, to)`. The log no longer has messages below `from`. */
  readonly checked: { readonly from: number; readonly to: number }
  /** Offsets in that range that the log deleted during the audit. */
  readonly unchecked: number
  readonly recount: Readonly<Recount>
  readonly ledger: AuditedPartition | undefined
  /** The ledger includes messages that the log has deleted, so its counts are only checked not to be smaller than those here. */
  readonly ledger_covers_more: boolean
  readonly in_flight: number
  /** Number of faults by kind. */
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>
  /** The first faults. */
  readonly first: readonly PartitionFault[]
  readonly holds: boolean
}

const firstMax = 10
const noMessages: Readonly<Recount> = {
  received: 0,
  stored: 0,
  erased: 0,
  empty: 0,
  filtered: 0,
  dead_lettered: 0,
  skipped: 0,
  deleted: 0,
  deleted_stored: 0,
  open: 0,
  replayed: 0,
  partial: 0,
}

/**
 * The range to compare in a partition: from the log's start to the writer's position.
 *
 * @param next the writer's position; undefined if nothing is stored
 */
export function rangeOf(partition: number, { start, end }: TopicBounds, next = start): AuditedRange {
  const to = Math.min(next, end)
  return { partition, from: Math.min(start, to), to }
}

export async function auditPartition(parts: PartitionParts): Promise<PartitionReport> {
  const { reader, audit, decoder, deadLetters, erased, log, partition, bounds, ledger, onProgress } = parts
  const next = parts.next ?? bounds.start
  const { from, to } = rangeOf(partition, bounds, next)
  const recount = { ...noMessages }
  const faults: Partial<Record<FaultKind, number>> = {}
  const first: PartitionFault[] = []
  let unchecked = 0

  function fault(kind: FaultKind, offset: number | undefined, detail: string): void {
    faults[kind] = (faults[kind] ?? 0) + 1
    if (first.length === firstMax) return
    const id = `${log}-${partition}`
    first.push(offset === undefined ? { kind, id, detail } : { kind, id: `${id}-${offset}`, offset, detail })
  }

  function countFaulty({ offset, rows, doubled, hidden = 0 }: AuditedMessage): void {
    if (hidden > 0) fault('hidden rows', offset, `${hidden} of its rows are shown by no reader: the store lacks the series that they name`)
    if (doubled > 0) fault('doubled', offset, `${doubled} of its ${rows} rows are stored twice`)
  }

  /** For rows at offsets at which the log has no message: a marker never was one, any other was deleted. */
  function rowsOutside(markers: readonly OffsetRange[]): (message: AuditedMessage) => void {
    let next = 0
    return message => {
      countFaulty(message)
      const { offset, rows } = message
      if (rows === 0) return
      while (next < markers.length && markers[next]!.to <= offset) next++
      const isMarker = next < markers.length && markers[next]!.from <= offset
      if (isMarker) fault('surplus rows', offset, `the store has ${rows} rows for an offset at which the log never had a message`)
      else recount.deleted_stored++
    }
  }

  /** Checks the number of stored rows of a message. */
  function countRows(offset: number, rows: number, { rows: all, least, most }: ExpectedRows): void {
    const deadLetter = deadLetters.has(offset) ? '; it has a dead letter' : ''
    if (rows < least) fault('rows missing', offset, `the store has ${rows} of its ${least} rows${deadLetter}`)
    if (rows > all) fault('surplus rows', offset, `the store has ${rows} rows for its ${all}${deadLetter}`)
    else if (rows > most) fault('not erased', offset, `the store has ${rows - most} of its rows that were erased: erase them again`)
  }

  /** Checks the stored rows of a message: their number and, where that is right, their contents. */
  function checkRows(offset: number, found: AuditedMessage, expected: ExpectedRows): void {
    const rows = found.rows - found.doubled
    countRows(offset, rows, expected)
    const isPart = rows < expected.rows
    // Of an erasure beside the writer, any part of what it reached may be left.
    if (rows !== (isPart ? expected.least : expected.rows) || found.doubled > 0 || found.digest === undefined) return
    if (found.digest === expected.digest(isPart)) return
    fault('contents differ', offset, 'its rows in the store are not those that it decodes to')
  }

  function judge(
    offset: number,
    outcome: number,
    expected: ExpectedRows,
    rule: string | undefined,
    found: AuditedMessage | undefined,
    mayBeGone: boolean,
  ): void {
    recount.received++
    const deadLetter = deadLetters.get(offset)
    if (found !== undefined) countFaulty(found)
    const rows = found === undefined ? 0 : found.rows - found.doubled
    if (found?.replayed === true) {
      recount.dead_lettered++
      recount.replayed++
      // If it would not be stored now, it was stored with other options.
      if (outcome === Outcome.stored) checkRows(offset, found, expected)
    } else if (rows > 0 && rows < (outcome === Outcome.stored ? expected.rows : Number.POSITIVE_INFINITY) && deadLetter?.partial === true) {
      // With the current options the message may not be stored at all; then its number of rows is unknown.
      recount.dead_lettered++
      recount.partial++
      if (deadLetter.state === 'open') recount.open++
    } else if (rows > 0 && outcome === Outcome.stored) {
      recount.stored++
      checkRows(offset, found!, expected)
    } else {
      if (rows > 0) fault('surplus rows', offset, `the store has ${rows} rows for a message that is ${wordsOf(outcome, rule)}`)
      if (deadLetter !== undefined) {
        recount.dead_lettered++
        if (deadLetter.state === 'open') recount.open++
        const isNothing = outcome === Outcome.empty || outcome === Outcome.filtered
        if (rows === 0 && deadLetter.state === 'replayed' && !isNothing && !mayBeGone) {
          fault('replay missing', offset, 'its dead letter is marked as replayed, but the store has none of its rows')
        }
      } else if (outcome === Outcome.stored && mayBeGone) recount.erased++
      else if (outcome === Outcome.stored)
        fault('missing', offset, `none of its ${expected.rows} rows is stored, and it has no dead letter`)
      else if (outcome === Outcome.empty) recount.empty++
      else if (outcome === Outcome.filtered) recount.filtered++
      else if (parts.deadLettersComplete) fault('missing dead letter', offset, `it violates the rule ${rule}, but has no dead letter`)
      else recount.dead_lettered++
    }
  }

  if (bounds.end < next) {
    fault(
      'log',
      undefined,
      `the log ends at offset ${bounds.end}, but the writer is at ${next}: the log has lost messages, or is a different one`,
    )
  }
  if (from < to) {
    const stored = openStoredMessages(audit.messages(log, partition, from, to, { after: parts.after, contents: parts.contents }))
    try {
      let at = from
      for await (const chunk of reader.read(partition, from, to)) {
        if (chunk.from > at) {
          unchecked += chunk.from - at
          await stored.below(chunk.from, countFaulty)
        }
        const { markers = [] } = chunk
        const outside = rowsOutside(markers)
        const batch = new RecordBatch()
        const cursor = chunk.cursor()
        let messages = 0
        while (cursor.next()) {
          const { offset } = cursor.message
          const [records, documents] = [batch.records.length, batch.documents.length]
          const rejection = decoder.decode(cursor.message, logPartition(0, partition), batch)
          await stored.below(offset, outside)
          const format = records < batch.records.length ? senmlFormat : batch.documents.format[documents]
          const times = erased.of(cursor.message, partition, offset, format)
          const expected = expectedRows(batch, records, documents, times)
          // The rows of one that is not decoded are not known: its time of receipt counts.
          const mayBeGone = expected.rows > 0 ? expected.least === 0 : cursor.message.createdUs < (times?.missingBelowUs ?? 0)
          judge(offset, batch.messages.outcome[messages++]!, expected, rejection?.rule, await stored.at(offset), mayBeGone)
        }
        await stored.below(chunk.to, outside)
        const skipped = markers.reduce((sum, marker) => sum + marker.to - marker.from, 0)
        recount.skipped += skipped
        recount.deleted += chunk.to - chunk.from - messages - skipped
        onProgress?.(chunk.to - at)
        at = chunk.to
      }
      unchecked += to - at
      await stored.below(to, countFaulty)
    } finally {
      await stored.close()
    }
  }

  const begun = ledger === undefined ? undefined : next - (ledger.received - ledger.duplicate + ledger.skipped)
  const coversMore = begun !== undefined && (begun < from || unchecked > 0 || recount.deleted > 0)
  const { copiedBelow = 0 } = ledger ?? {}
  if (ledger !== undefined) holdAgainst(ledger, recount, { coversMore, coversLess: copiedBelow > from }, fault)
  if (ledger !== undefined && !(addsUp(ledger) && (copiedBelow === 0 || begun === copiedBelow))) {
    fault('ledger', undefined, "the store's ledger does not add up")
  }
  return {
    partition,
    checked: { from, to },
    unchecked,
    recount,
    ledger,
    ledger_covers_more: coversMore,
    in_flight: Math.max(0, bounds.end - Math.max(next, bounds.start)),
    faults,
    first,
    holds: first.length === 0,
  }
}

function addsUp({ received, stored, empty, filtered, duplicate, deadLettered }: AuditedPartition): boolean {
  return received === stored + empty + filtered + duplicate + deadLettered
}

interface Coverage {
  /** The ledger also counts messages that the log has deleted, so its counts may be larger. */
  readonly coversMore: boolean
  /** It does not count messages whose rows were copied, so its counts may be smaller. */
  readonly coversLess: boolean
}

/** Compares the ledger with the counts. Messages delivered twice are in the ledger only. */
function holdAgainst(
  ledger: AuditedPartition,
  recount: Recount,
  { coversMore, coversLess }: Coverage,
  fault: (kind: FaultKind, offset: undefined, detail: string) => void,
): void {
  const pairs: readonly (readonly [string, number, number])[] = [
    ['received', ledger.received - ledger.duplicate, recount.received],
    ['stored', ledger.stored, recount.stored + recount.erased],
    ['empty', ledger.empty, recount.empty],
    ['filtered', ledger.filtered, recount.filtered],
    ['dead-lettered', ledger.deadLettered, recount.dead_lettered],
    ['skipped', ledger.skipped, recount.skipped],
  ]
  for (const [name, said, counted] of pairs) {
    if ((coversMore || said <= counted) && (coversLess || said >= counted)) continue
    fault('ledger', undefined, `the store's ledger says ${said} ${name}, but ${counted} were counted`)
  }
}

function wordsOf(outcome: number, rule: string | undefined): string {
  if (outcome === Outcome.empty) return 'empty'
  if (outcome === Outcome.filtered) return "filtered by the writer's subjects or content types"
  return `dead-lettered by the rule ${rule}`
}

/** The messages that a store has, taken in step with the log. */
interface StoredMessages {
  /** Takes those before an offset. */
  below(offset: number, each: (message: AuditedMessage) => void): Promise<void>
  /** Takes the one at an offset, where there is one; those before it were taken. */
  at(offset: number): Promise<AuditedMessage | undefined>
  close(): Promise<void>
}

/** @param messages in the order of their offsets */
function openStoredMessages(messages: AsyncIterable<AuditedMessage>): StoredMessages {
  const iterator = messages[Symbol.asyncIterator]()
  let head: AuditedMessage | undefined
  let ended = false

  async function peek(): Promise<AuditedMessage | undefined> {
    if (head === undefined && !ended) {
      const { value, done } = await iterator.next()
      if (done === true) ended = true
      else head = value
    }
    return head
  }

  return {
    async below(offset: number, each: (message: AuditedMessage) => void): Promise<void> {
      for (let found = await peek(); found !== undefined && found.offset < offset; found = await peek()) {
        each(found)
        head = undefined
      }
    },
    async at(offset: number): Promise<AuditedMessage | undefined> {
      const found = await peek()
      if (found?.offset !== offset) return undefined
      head = undefined
      return found
    },
    async close(): Promise<void> {
      await iterator.return?.()
    },
  }
}
