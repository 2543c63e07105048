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
import type { PositionRange } from '../../../sinks/audit.ts'
import { digestOf, textsOf, withoutCreated } from '../../../sinks/contents.ts'
import { packedPosition } from '../../../sinks/sink.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch } from '../../../transformers/record-batch.ts'
import type { Target } from '../target/target.ts'
import type { Ledger } from './ledger.ts'
import { type LoadMessage, type LoadPlan, messagesOf } from './messages.ts'

export interface CheckReport {
  readonly messages: {
    readonly planned: number
    readonly acknowledged: number
    /** Acknowledged, with all their rows. */
    readonly stored: number
    /** Acknowledged and dead-lettered: those that no writer can decode, and others. */
    readonly rejected_invalid: number
    readonly rejected_valid: number
    /** Acknowledged, and neither stored nor dead-lettered. */
    readonly lost: number
    /** With rows that are in the store more than once. */
    readonly doubled: number
    /** Not acknowledged, but stored. */
    readonly unacknowledged: number
  }
  readonly rows: {
    /** Of the acknowledged messages that are not dead letters, and of others that are stored. */
    readonly expected: number
    /** Of the load, in the store. */
    readonly stored: number
    readonly distinct: number
    readonly lost: number
    readonly doubled: number
    /** In the store, but not of the load. */
    readonly other: number
  }
  /** Messages of the log that the writer has still to store. */
  readonly in_flight: number
  /** The first faults. */
  readonly first: readonly string[]
  readonly holds: boolean
}

export type CheckTarget = Pick<Target, 'topics' | 'openTopic' | 'openDeadLettersTopic' | 'openAudit' | 'decoder' | 'writer' | 'committed'>

const firstMax = 10
const batchMessages = 1000

/**
 * @param onProgress called with the number of rows that were read, and how many the load has
 * @throws ToolError if the load does not decode to its rows, because the options are not the writer's
 * @throws SystemicError, LogUnavailableError, and errors of the store
 */
export async function checkLoad(
  ledger: Ledger,
  target: CheckTarget,
  onProgress: (done: number, total: number) => void,
): Promise<CheckReport> {
  const wanted = sorted(rowDigests(ledger, target.decoder()))
  return judged(ledger, target.decoder(), await readStore(target, wanted, onProgress))
}

/** What the store and the dead letters have of a load. */
interface Found {
  /** How often a row is stored. */
  readonly times: (digest: number) => number
  readonly otherRows: number
  /** Names of payloads. */
  readonly deadLetters: ReadonlySet<string>
  readonly inFlight: number
}

async function readStore(target: CheckTarget, wanted: Float64Array, onProgress: (done: number, total: number) => void): Promise<Found> {
  const times = new Uint8Array(wanted.length)
  const deadLetters = new Set<string>()
  let [rows, otherRows, inFlight] = [0, 0, 0]

  function countRow(text: string): void {
    onProgress(++rows, wanted.length)
    const at = indexIn(wanted, digestOf(withoutCreated(text)))
    if (at < 0) otherRows++
    else if (times[at]! < 255) times[at]!++
  }

  const audit = await target.openAudit()
  const known = await audit.logs()
  const logs = new Set<number>()
  const ranges: PositionRange[] = []
  for (const topic of await target.topics()) {
    const reader = await target.openTopic(topic)
    const log = knownLog(known, reader, target.writer)
    const next = (await target.committed?.(log.writer, reader))?.offsets ?? positionsOf(log)
    logs.add(log.number)
    for (const [partition, { end }] of await reader.bounds()) {
      inFlight += Math.max(0, end - (next.get(partition) ?? 0))
      const last = Math.max(0, end - 1)
      ranges.push({ first: packedPosition(log.number, partition, 0), last: packedPosition(log.number, partition, last) })
    }
    const deadLettersReader = await target.openDeadLettersTopic(topic, log.writer)
    if (deadLettersReader !== undefined) for await (const payload of payloadsOf(deadLettersReader)) deadLetters.add(nameOf(payload))
  }
  await audit.rows(ranges, true, (position, _index, text) => {
    // Some stores return the rows of all logs.
    if (logs.has(Number(position >> 56n))) countRow(text())
  })
  return { times: digest => times[indexIn(wanted, digest)]!, otherRows, deadLetters, inFlight }
}

function judged({ plan, acknowledged }: Ledger, decoder: Decoder, { times, otherRows, deadLetters, inFlight }: Found): CheckReport {
  const counts = { acknowledged: 0, stored: 0, rejected_invalid: 0, rejected_valid: 0, lost: 0, doubled: 0, unacknowledged: 0 }
  const rows = { expected: 0, stored: 0, distinct: 0, lost: 0, doubled: 0, other: otherRows }
  const first: string[] = []

  function fault(number: number, { channel, createdUs }: LoadMessage, what: string): void {
    if (first.length === firstMax) return
    first.push(`message ${number} of the load (channel ${channel}, ${new Date(createdUs / 1000).toISOString()}): ${what}`)
  }

  for (const { number, message, digests } of decoded(plan, decoder)) {
    const isAcknowledged = acknowledged[number] === 1
    const found = digests.map(times)
    const missing = found.filter(count => count === 0).length
    const doubled = found.reduce((sum, count) => sum + Math.max(0, count - 1), 0)
    const isStored = found.length > 0 && missing === 0
    rows.distinct += found.length - missing
    rows.stored += found.length - missing + doubled
    rows.doubled += doubled
    if (isAcknowledged) counts.acknowledged++
    if (doubled > 0) {
      counts.doubled++
      fault(number, message, `${doubled} of its rows are stored more than once`)
    }
    if (!isStored && deadLetters.has(nameOf(message.payload))) {
      if (isAcknowledged) counts[message.rows === 0 ? 'rejected_invalid' : 'rejected_valid']++
      continue
    }
    if (!isAcknowledged && missing === found.length) continue
    rows.expected += found.length
    rows.lost += missing
    if (!isAcknowledged) counts.unacknowledged++
    else counts[isStored ? 'stored' : 'lost']++
    if (isStored) continue
    fault(
      number,
      message,
      found.length === 0 ? 'it is invalid, and has no dead letter' : `${missing} of its ${found.length} rows are missing`,
    )
  }
  return { messages: { planned: plan.messages, ...counts }, rows, in_flight: inFlight, first, holds: first.length === 0 }
}

function* rowDigests({ plan }: Ledger, decoder: Decoder): Generator<number> {
  for (const { digests } of decoded(plan, decoder)) yield* digests
}

interface Decoded {
  readonly number: number
  readonly message: LoadMessage
  /** Of the rows that a writer stores of it. */
  readonly digests: readonly number[]
}

function* decoded(plan: LoadPlan, decoder: Decoder): Generator<Decoded> {
  let batch = new RecordBatch()
  let number = 0
  for (const message of messagesOf(plan)) {
    if (batch.messages.length === batchMessages) batch = new RecordBatch()
    const [firstRecord, firstDocument] = [batch.records.length, batch.documents.length]
    const rejection = decoder.decode({ ...emptyMessage(), ...message }, logPartition(0, 0), batch)
    const digests = Array.from(textsOf(batch, firstRecord, firstDocument), text => digestOf(withoutCreated(text)))
    if (digests.length !== message.rows) {
      const reason = rejection === undefined ? '' : ` (${rejection.reason})`
      throw new ToolError(
        `a message of the load decodes to ${digests.length} rows instead of ${message.rows}${reason}: give the options of the writer`,
      )
    }
    yield { number: number++, message, digests }
  }
}

function sorted(digests: Iterable<number>): Float64Array {
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
function indexIn(all: Float64Array, digest: number): number {
  let [low, high] = [0, all.length - 1]
  while (low <= high) {
    const middle = (low + high) >>> 1
    if (all[middle]! < digest) low = middle + 1
    else if (all[middle]! > digest) high = middle - 1
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
