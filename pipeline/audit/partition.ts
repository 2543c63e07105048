// One partition, recounted: the log, the store and the dead letters are walked side by side, message by message, in the order of offsets.
//
//   log says (decoded as the writer does)   store has        dead letter   verdict
//   n rows                                  n rows           any           stored
//   n rows                                  none             yes           dead-lettered (the store refused it)
//   n rows                                  none             no            missing
//   n rows                                  fewer / more     any           rows missing / surplus rows
//   a dead letter                           none             yes           dead-lettered
//   a dead letter                           none             no            missing dead letter
//   empty, filtered                         none             no            empty, filtered
//   n rows                                  n, replayed      any           dead-lettered, and stored since
//   n rows                                  fewer / more     any           the same, and rows missing / surplus rows
//   a dead letter, empty, filtered          rows, replayed   any           dead-lettered, and stored since (by other options)
//   n rows, a dead letter                   none             replayed      dead-lettered, and replay missing if none waits
//   a dead letter, empty, filtered, nothing rows             any           surplus rows
//   anything                                a row twice      any           doubled

import type { AuditedMessage, AuditedPartition, AuditedRange, StoreAudit } from '../../sinks/audit.ts'
import { Outcome, RecordBatch } from '../../transformers/record-batch.ts'
import type { Decoder } from '../decode.ts'
import type { LetterState } from '../letters/index-of-letters.ts'
import type { TopicBounds, TopicReader } from '../topic-reader.ts'
import { openStoredMessages } from './stored-messages.ts'

export interface PartitionParts {
  readonly reader: TopicReader
  readonly audit: Pick<StoreAudit, 'messages'>
  /** As the writer's: its transformer, its subjects, its limits. */
  readonly decoder: Decoder
  readonly letters: ReadonlyMap<number, LetterState>
  /** The topic of the dead letters still has its beginning, so that one that is not there was never written. */
  readonly lettersComplete: boolean
  /** No replay waits: a letter that says `replayed` was followed by rows, or by another letter. */
  readonly replaysPassed: boolean
  /** The number under which the store knows the log. */
  readonly log: number
  readonly partition: number
  readonly bounds: TopicBounds
  /** Below it everything is stored or a dead letter; undefined where nothing is. */
  readonly next: number | undefined
  /** What the store's own books say; undefined where it has none of this partition. */
  readonly ledger: AuditedPartition | undefined
  /** What is compared after this partition. */
  readonly after: readonly AuditedRange[]
  /** Told of offsets that were passed since it was told last. */
  readonly onProgress?: (offsets: number) => void
}

export type FaultKind =
  | 'missing'
  | 'rows missing'
  | 'surplus rows'
  | 'doubled'
  | 'missing dead letter'
  | 'replay missing'
  | 'ledger'
  | 'log'

export interface PartitionFault {
  readonly kind: FaultKind
  /** `<log>-<partition>-<offset>`; of a whole partition `<log>-<partition>`. */
  readonly id: string
  readonly detail: string
}

/** Messages: received = stored + empty + filtered + dead_lettered + what is missing. Skipped are offsets without a message. */
export interface Recount {
  received: number
  stored: number
  empty: number
  filtered: number
  dead_lettered: number
  skipped: number
  /** Of the dead-lettered: replayed, and stored since. */
  replayed: number
}

export interface PartitionReport {
  readonly partition: number
  /** The offsets that were compared: `[from, to)`. Below `from` the log holds nothing any more. */
  readonly checked: { readonly from: number; readonly to: number }
  /** Offsets within that range that the log deleted while it was read. */
  readonly unchecked: number
  readonly recount: Readonly<Recount>
  readonly ledger: AuditedPartition | undefined
  /** The books reach back to before the range that was compared, so that they cannot be held against it. */
  readonly ledger_covers_more: boolean
  readonly in_flight: number
  /** By kind, how many there are. */
  readonly faults: Readonly<Partial<Record<FaultKind, number>>>
  /** The first of them. */
  readonly first: readonly PartitionFault[]
  readonly holds: boolean
}

const firstMax = 10

/**
 * What is compared of a partition: what the log has of it, up to where the writer goes on.
 *
 * @param next undefined where nothing is stored
 */
export function rangeOf(partition: number, { start, end }: TopicBounds, next = start): AuditedRange {
  const to = Math.min(next, end)
  return { partition, from: Math.min(start, to), to }
}

export async function auditPartition(parts: PartitionParts): Promise<PartitionReport> {
  const { reader, audit, decoder, letters, log, partition, bounds, ledger, onProgress } = parts
  const next = parts.next ?? bounds.start
  const { from, to } = rangeOf(partition, bounds, next)
  const recount: Recount = { received: 0, stored: 0, empty: 0, filtered: 0, dead_lettered: 0, skipped: 0, replayed: 0 }
  const faults: Partial<Record<FaultKind, number>> = {}
  const first: PartitionFault[] = []
  let unchecked = 0

  function fault(kind: FaultKind, offset: number | undefined, detail: string): void {
    faults[kind] = (faults[kind] ?? 0) + 1
    const id = offset === undefined ? `${log}-${partition}` : `${log}-${partition}-${offset}`
    if (first.length < firstMax) first.push({ kind, id, detail })
  }

  /** Rows at an offset where the log has no message. */
  function unknownRows({ offset, rows }: AuditedMessage): void {
    fault('surplus rows', offset, `the store has ${rows} rows of an offset at which the log has no message`)
  }

  /** The rows of a message that is there must be as many as it has. */
  function countRows(offset: number, rows: number, expected: number): void {
    const letter = letters.has(offset) ? '; it has a dead letter' : ''
    if (rows < expected) fault('rows missing', offset, `it has ${expected} rows, and the store ${rows} of them${letter}`)
    if (rows > expected) fault('surplus rows', offset, `it has ${expected} rows, and the store ${rows}${letter}`)
  }

  function judge(offset: number, outcome: number, expected: number, rule: string | undefined, found: AuditedMessage | undefined): void {
    recount.received++
    const letter = letters.get(offset)
    if (found !== undefined && found.doubled > 0) fault('doubled', offset, `${found.doubled} of its ${found.rows} rows are there twice`)
    const rows = found === undefined ? 0 : found.rows - found.doubled
    if (found?.replayed === true) {
      recount.dead_lettered++
      recount.replayed++
      // Where it is none today, it was stored by other options.
      if (outcome === Outcome.stored) countRows(offset, rows, expected)
    } else if (rows > 0 && outcome === Outcome.stored) {
      recount.stored++
      countRows(offset, rows, expected)
    } else {
      if (rows > 0) fault('surplus rows', offset, `the store has ${rows} rows of a message that is ${wordsOf(outcome, rule)}`)
      if (letter !== undefined) {
        recount.dead_lettered++
        const isNothing = outcome === Outcome.empty || outcome === Outcome.filtered
        if (rows === 0 && letter === 'replayed' && parts.replaysPassed && !isNothing) {
          fault('replay missing', offset, 'it was replayed, and the writer has passed the replays without storing it or a dead letter')
        }
      } else if (outcome === Outcome.stored) fault('missing', offset, `none of its ${expected} rows is there, and no dead letter`)
      else if (outcome === Outcome.empty) recount.empty++
      else if (outcome === Outcome.filtered) recount.filtered++
      else if (parts.lettersComplete) fault('missing dead letter', offset, `it breaks the rule ${rule}, and has no dead letter`)
      else recount.dead_lettered++
    }
  }

  if (bounds.end < next) {
    fault(
      'log',
      undefined,
      `the log ends at offset ${bounds.end}, and the writer goes on at ${next}: the log has lost messages, or is another one`,
    )
  }
  if (from < to) {
    const stored = openStoredMessages(audit.messages(log, partition, from, to, parts.after))
    try {
      let at = from
      for await (const run of reader.read(partition, from, to)) {
        if (run.from > at) {
          unchecked += run.from - at
          await stored.below(run.from, () => undefined)
        }
        const batch = new RecordBatch()
        const cursor = run.cursor()
        let messages = 0
        let rowsBefore = 0
        while (cursor.next()) {
          const { offset } = cursor.message
          const rejection = decoder.decode(cursor.message, partition, batch)
          await stored.below(offset, unknownRows)
          judge(offset, batch.messages.outcome[messages++]!, batch.rowCount - rowsBefore, rejection?.rule, await stored.at(offset))
          rowsBefore = batch.rowCount
        }
        recount.skipped += run.to - run.from - messages
        onProgress?.(run.to - at)
        at = run.to
      }
      unchecked += to - at
      await stored.below(at, unknownRows)
    } finally {
      await stored.close()
    }
  }

  const begun = ledger === undefined ? undefined : next - (ledger.received - ledger.duplicate + ledger.skipped)
  const coversMore = begun !== undefined && (begun < from || unchecked > 0)
  if (ledger !== undefined && !coversMore) holdAgainst(ledger, recount, fault)
  if (ledger !== undefined && !addsUp(ledger)) fault('ledger', undefined, 'the books of the store do not add up in themselves')
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

/** What the books say of the same range must be what was counted. Messages that came twice are in the books only. */
function holdAgainst(
  ledger: AuditedPartition,
  recount: Recount,
  fault: (kind: FaultKind, offset: undefined, detail: string) => void,
): void {
  const pairs: readonly (readonly [string, number, number])[] = [
    ['received', ledger.received - ledger.duplicate, recount.received],
    ['stored', ledger.stored, recount.stored],
    ['empty', ledger.empty, recount.empty],
    ['filtered', ledger.filtered, recount.filtered],
    ['dead-lettered', ledger.deadLettered, recount.dead_lettered],
    ['skipped', ledger.skipped, recount.skipped],
  ]
  for (const [name, said, counted] of pairs) {
    if (said !== counted) fault('ledger', undefined, `the books of the store say ${said} ${name}, and ${counted} were counted`)
  }
}

function wordsOf(outcome: number, rule: string | undefined): string {
  if (outcome === Outcome.empty) return 'empty'
  if (outcome === Outcome.filtered) return 'filtered by the subjects of the writer'
  return `a dead letter by the rule ${rule}`
}
