// Compares a store with the ledger of a load, by the content of the messages: what was acknowledged must be in the store once, or be a dead letter.
//
// The load is made a first time, for the digests of its rows; each row of the store is looked up among them; then the load is made again, to say of each
// message what became of it. A row takes nine bytes of memory.

import { hash } from 'node:crypto'
import { ToolError } from '../../../bin/streams.ts'
import { knownLog, positionsOf } from '../../../pipeline/audit/verify.ts'
import { parseAt } from '../../../pipeline/dead-letters/parse.ts'
import { emptyMessage } from '../../../pipeline/source.ts'
import type { TopicReader } from '../../../pipeline/topic-reader.ts'
import type { Decoder } from '../../../pipeline/writer/decode.ts'
import { digestOf, textsOf, withoutCreated } from '../../../sinks/contents.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import type { Target } from '../target/target.ts'
import type { Ledger } from './ledger.ts'
import { type LoadMessage, messagesOf } from './messages.ts'

export interface CheckReport {
  readonly messages: {
    readonly planned: number
    readonly acknowledged: number
    /** Acknowledged, with all their rows. */
    stored: number
    /** Acknowledged and dead-lettered: those that no writer can decode, and others. */
    rejected_invalid: number
    rejected_valid: number
    /** Acknowledged, and neither stored nor dead-lettered. */
    lost: number
    /** With rows that are in the store more than once. */
    doubled: number
    /** Not acknowledged, but stored. */
    unacknowledged: number
  }
  readonly rows: {
    /** Of the acknowledged messages that are not dead letters. */
    expected: number
    /** Of the load, in the store. */
    stored: number
    distinct: number
    lost: number
    doubled: number
    /** In the store, but not of the load. */
    other: number
  }
  /** Messages of the log that the writer has still to store. */
  in_flight: number
  /** The first faults. */
  readonly first: string[]
  readonly holds: boolean
}

export type CheckTarget = Pick<Target, 'topics' | 'openTopic' | 'openDeadLettersTopic' | 'openAudit' | 'decoder' | 'writer' | 'committed'>

const firstMax = 10

/**
 * @param onProgress called with the number of messages of the store that were read, and about how many there are
 * @throws ToolError if the load does not decode to its rows, because the options are not the writer's
 * @throws SystemicError, LogUnavailableError, and errors of the store
 */
export async function checkLoad(
  { plan, acknowledged }: Ledger,
  target: CheckTarget,
  onProgress: (done: number, total: number) => void,
): Promise<CheckReport> {
  const known = digestsOf(rowDigests())
  const times = new Uint8Array(known.length)
  const messages = {
    planned: plan.messages,
    acknowledged: 0,
    stored: 0,
    rejected_invalid: 0,
    rejected_valid: 0,
    lost: 0,
    doubled: 0,
    unacknowledged: 0,
  }
  const rows = { expected: 0, stored: 0, distinct: 0, lost: 0, doubled: 0, other: 0 }
  const first: string[] = []
  const deadLetters = new Set<string>()
  let inFlight = 0

  function* rowDigests(): Generator<number> {
    for (const { digests } of decoded(messagesOf(plan), target.decoder())) yield* digests
  }

  function countRow(text: string): void {
    const at = indexIn(known, digestOf(withoutCreated(text)))
    if (at < 0) rows.other++
    else if (times[at]! < 255) times[at]!++
  }

  const audit = await target.openAudit()
  for (const topic of await target.topics()) {
    const reader = await target.openTopic(topic)
    const log = knownLog(await audit.logs(), reader, target.writer)
    const next = (await target.committed?.(log.writer, reader))?.offsets ?? positionsOf(log)
    const bounds = [...(await reader.bounds())].sort(([one], [other]) => one - other)
    const ranges = bounds.map(([partition, { end }]) => ({ partition, from: 0, to: end }))
    const total = ranges.reduce((sum, { to }) => sum + to, 0)
    let done = 0
    for (const [nth, { partition, to }] of ranges.entries()) {
      inFlight += Math.max(0, to - (next.get(partition) ?? 0))
      const found = audit.messages(log.number, partition, 0, to, { contents: true, after: ranges.slice(nth + 1), onRow: countRow })
      for await (const { offset } of found) onProgress(done + offset, total)
      done += to
    }
    const deadLettersReader = await target.openDeadLettersTopic(topic, log.writer)
    if (deadLettersReader !== undefined) for await (const payload of payloadsOf(deadLettersReader)) deadLetters.add(nameOf(payload))
  }

  function fault(number: number, { channel, createdUs }: LoadMessage, what: string): void {
    if (first.length < firstMax)
      first.push(`message ${number} of the load (channel ${channel}, ${new Date(createdUs / 1000).toISOString()}): ${what}`)
  }

  let number = -1
  for (const { message, digests } of decoded(messagesOf(plan), target.decoder())) {
    number++
    const isAcknowledged = acknowledged[number] === 1
    const found = digests.map(digest => times[indexIn(known, digest)]!)
    const missing = found.filter(count => count === 0).length
    const doubled = found.reduce((sum, count) => sum + Math.max(0, count - 1), 0)
    rows.distinct += found.length - missing
    rows.stored += found.length - missing + doubled
    rows.doubled += doubled
    if (isAcknowledged) messages.acknowledged++
    if (doubled > 0) {
      messages.doubled++
      fault(number, message, `${doubled} of its rows are stored more than once`)
    }
    const isStored = found.length > 0 && missing === 0
    if (!isStored && deadLetters.has(nameOf(message.payload))) {
      if (isAcknowledged) messages[message.rows === 0 ? 'rejected_invalid' : 'rejected_valid']++
      continue
    }
    if (!isAcknowledged && missing === found.length) continue
    rows.expected += found.length
    rows.lost += missing
    if (!isStored)
      fault(
        number,
        message,
        found.length === 0 ? 'it is invalid, and has no dead letter' : `${missing} of its ${found.length} rows are missing`,
      )
    if (!isAcknowledged) messages.unacknowledged++
    else messages[isStored ? 'stored' : 'lost']++
  }
  return { messages, rows, in_flight: inFlight, first, holds: first.length === 0 }
}

/** The messages of a load, each with the digests of the rows that a writer stores of it. */
function* decoded(
  messages: Iterable<LoadMessage>,
  decoder: Decoder,
): Generator<{ readonly message: LoadMessage; readonly digests: readonly number[] }> {
  for (const message of messages) {
    const batch = new RecordBatch(1)
    const rejection = decoder.decode({ ...emptyMessage(), ...message }, logPartition(0, 0), batch)
    if (batch.rowCount !== message.rows) {
      throw new ToolError(
        `a message of the load decodes to ${batch.rowCount} rows instead of ${message.rows}${rejection === undefined ? '' : ` (${rejection.reason})`}: give the options of the writer`,
      )
    }
    yield { message, digests: Array.from(textsOf(batch, 0, 0), text => digestOf(withoutCreated(text))) }
  }
}

/** Sorted. */
function digestsOf(digests: Iterable<number>): Float64Array {
  let all = new Float64Array(1024)
  let length = 0
  for (const digest of digests) {
    if (length === all.length) {
      const larger = new Float64Array(2 * length)
      larger.set(all)
      all = larger
    }
    all[length++] = digest
  }
  return all.slice(0, length).sort()
}

/** Negative if it is not there. */
function indexIn(sorted: Float64Array, digest: number): number {
  let [low, high] = [0, sorted.length - 1]
  while (low <= high) {
    const middle = (low + high) >>> 1
    if (sorted[middle]! < digest) low = middle + 1
    else if (sorted[middle]! > digest) high = middle - 1
    else return middle
  }
  return -1
}

async function* payloadsOf(reader: TopicReader): AsyncGenerator<Uint8Array> {
  for (const [partition, { start, end }] of await reader.bounds()) {
    for await (const chunk of reader.read(partition, start, end)) {
      const cursor = chunk.cursor()
      while (cursor.next()) if (parseAt(cursor)?.kind === 'letter') yield cursor.message.payload
    }
  }
}

function nameOf(payload: Uint8Array): string {
  return hash('sha256', payload, 'base64').slice(0, 16)
}
