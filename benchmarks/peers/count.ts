// What a table has of a load: each row is found among the messages of the ledger by its time, which no other message has, and must have its value.
//
// The server notes when each transaction was committed (track_commit_timestamp), so the store also says when a message arrived, to the microsecond and
// whatever the peer does. The time is that of the commit record, which is on disk, and readable, a few milliseconds later.

import type { Ledger } from '../../roles/tools/bench/ledger.ts'
import { messagesOf } from '../../roles/tools/bench/messages.ts'

/** What `sluice bench load --mix record-json` sends. */
export interface Reading {
  readonly device: string
  readonly sent_us: number
  readonly temperature: number
}

export function* readingsOf(plan: Ledger['plan']): Generator<Reading> {
  for (const { payload } of messagesOf(plan)) yield JSON.parse(Buffer.from(payload).toString()) as Reading
}

export interface Counts {
  readonly acknowledged: number
  readonly rows: number
  /** Messages that have a row. */
  readonly distinct: number
  /** Acknowledged messages without a row. */
  readonly lost: number
  /** Rows beyond the first of a message. */
  readonly doubled: number
  /** Rows that are of no message of the load, or have another value. */
  readonly other: number
}

export interface Counted {
  readonly counts: Counts
  /** By the number of the message, when its first row was committed: milliseconds since 1970, 0 if it has none. */
  readonly storedMs: Float64Array
}

/** @param rows lines of sent_us, temperature and the time of the commit in µs; those from before the load are skipped */
export function count({ plan, acknowledged }: Ledger, rows: readonly string[]): Counted {
  const values = Float64Array.from(readingsOf(plan), ({ temperature }) => temperature)
  const storedMs = new Float64Array(plan.messages)
  const found = new Uint16Array(plan.messages)
  const counts = { acknowledged: 0, rows: 0, distinct: 0, lost: 0, doubled: 0, other: 0 }
  for (const row of rows) {
    const [sentUs = 0, value, committedUs = 0] = row.split('\t').map(Number)
    if (sentUs < plan.startUs) continue
    counts.rows++
    const number = Math.round((sentUs - plan.startUs) / plan.stepUs)
    if (values[number] !== value || sentUs !== plan.startUs + Math.round(number * plan.stepUs)) {
      counts.other++
      continue
    }
    const atMs = committedUs / 1000
    if (found[number]!++ === 0 || atMs < storedMs[number]!) storedMs[number] = atMs
  }
  for (const [number, times] of found.entries()) {
    counts.acknowledged += acknowledged[number]!
    counts.distinct += Math.min(1, times)
    counts.doubled += Math.max(0, times - 1)
    if (times === 0) counts.lost += acknowledged[number]!
  }
  return { counts, storedMs }
}

/** From when a share of the messages is stored, the warm-up, until the last one is. @throws Error if that was one commit */
export function stretchOf(storedMs: Float64Array, warmUpShare: number): { fromMs: number; toMs: number; messages: number } {
  const sorted = storedMs.filter(ms => ms > 0).sort()
  const fromMs = sorted[Math.floor(sorted.length * warmUpShare)] ?? 0
  const toMs = sorted.at(-1) ?? 0
  if (toMs === fromMs) throw new Error('the messages were stored in one commit, whose duration is not known: give more --messages')
  return { fromMs, toMs, messages: sorted.filter(ms => ms > fromMs).length }
}

/** When each message was to be sent: milliseconds since 1970. */
function sentMsOf({ plan: { startUs, stepUs } }: Ledger, number: number): number {
  return (startUs + Math.round(number * stepUs)) / 1000
}

export type Waits = Readonly<Record<'p50' | 'p99' | 'p999', number>>

/** Milliseconds from the intended sending to the commit, of the messages that were stored; after those of the warm-up. */
export function waitsOf(ledger: Ledger, storedMs: Float64Array, warmUp: number): Waits {
  const waits = storedMs.map((ms, number) => (ms === 0 || number < warmUp ? Number.NaN : ms - sentMsOf(ledger, number)))
  const sorted = waits.filter(ms => !Number.isNaN(ms)).sort()
  const at = (share: number): number => sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN
  return { p50: at(0.5), p99: at(0.99), p999: at(0.999) }
}

/** After each fault, the seconds until no message was late that should have been stored before the next one; 0 if none was. */
export function lagsOf(ledger: Ledger, storedMs: Float64Array, faultsMs: readonly number[], lateMs: number): number[] {
  return faultsMs.map((faultMs, at) => {
    const nextMs = faultsMs[at + 1] ?? Number.POSITIVE_INFINITY
    const goneMs = storedMs.reduce((latest, ms, number) => {
      const sentMs = sentMsOf(ledger, number)
      return sentMs + lateMs < nextMs && ms - sentMs > lateMs ? Math.max(latest, ms) : latest
    }, faultMs)
    return (goneMs - faultMs) / 1000
  })
}
