// Sends a load: as fast as it is acknowledged, or each message at its time. Nothing is sent again.

import { ToolError } from '../../../bin/streams.ts'
import { pause } from '../../../config/aborting.ts'
import type { LedgerFile } from './ledger.ts'
import { type LoadMessage, type LoadPlan, messagesOf } from './messages.ts'

/** Where a load goes. */
export interface Destination {
  /** As people know it. */
  readonly name: string
  /** How many messages one call takes. */
  readonly messagesMax: number
  /** How many calls run at once. */
  readonly sendsMax: number
  /**
   * Resolves when all messages are acknowledged.
   *
   * @throws what says why one is not; which of the others are is then unknown
   */
  send(messages: readonly LoadMessage[]): Promise<void>
  close(): Promise<void>
}

export interface LoadReport {
  readonly destination: string
  readonly sent: number
  readonly acknowledged: number
  /** Of the acknowledged messages. */
  readonly rows: number
  readonly payload_bytes: number
  readonly seconds: number
  readonly messages_per_second: number
  readonly rows_per_second: number
  /** By how much the latest message was sent after its time; absent without a rate. */
  readonly late_ms_max?: number
  /** The first one. */
  readonly failure?: string
}

export interface LoadParts {
  readonly plan: LoadPlan
  /** Messages per second; as fast as they are acknowledged if undefined. The plan's `stepUs` then fits it. */
  readonly rate: number | undefined
  readonly destination: Destination
  readonly ledger: LedgerFile
  readonly signal: AbortSignal
  readonly onProgress: (acknowledged: number, total: number) => void
}

const flushMs = 1000
/** After a failure, so that a destination that is away is not flooded with what it cannot take. */
const failurePauseMs = 100
/** Longer than a broker takes to restart. */
const unansweredMsMax = 30_000

/** Errors after which the load goes on. */
const passing: ReadonlySet<string> = new Set(['ToolError', 'LogUnavailableError', 'MessageRefusedError'])

/**
 * Ends when all messages were sent or `signal` aborts. After a failed call the load goes on.
 *
 * @throws ToolError if nothing is acknowledged for a long time, or the ledger cannot be written
 * @throws SystemicError if a person must act first
 */
export async function sendLoad({ plan, rate, destination, ledger, signal, onProgress }: LoadParts): Promise<LoadReport> {
  const messages = messagesOf(plan)
  const startedMs = performance.now()
  const counts = { sent: 0, acknowledged: 0, rows: 0, payloadBytes: 0 }
  let lateMsMax = 0
  let acknowledgedMs = startedMs
  let failure: Error | undefined
  let end: { readonly error: unknown } | undefined
  let turn: Promise<unknown> = Promise.resolve()
  let flushing = Promise.resolve()
  let flushedMs = startedMs

  /** The next messages, when the first of them is due; one caller at a time. */
  async function take(): Promise<{ readonly first: number; readonly taken: LoadMessage[] }> {
    const first = counts.sent
    let due = plan.messages
    if (rate !== undefined) {
      const dueMs = startedMs + (first * 1000) / rate
      const earlyMs = dueMs - performance.now()
      if (earlyMs > 0) await pause(earlyMs, signal)
      const nowMs = performance.now()
      lateMsMax = Math.max(lateMsMax, nowMs - dueMs)
      due = Math.max(first + 1, Math.ceil(((nowMs - startedMs) * rate) / 1000))
    }
    const taken: LoadMessage[] = []
    if (signal.aborted || end !== undefined) return { first, taken }
    while (taken.length < destination.messagesMax && first + taken.length < due) {
      const { value, done } = messages.next()
      if (done === true) break
      taken.push(value)
    }
    counts.sent += taken.length
    return { first, taken }
  }

  async function work(): Promise<void> {
    for (;;) {
      const taking = turn.then(take)
      turn = taking.catch(() => undefined)
      const { first, taken } = await taking
      if (taken.length === 0) return
      try {
        await destination.send(taken)
      } catch (error) {
        if (!(error instanceof Error) || !passing.has(error.name)) throw error
        failure ??= error
        if (performance.now() - acknowledgedMs > unansweredMsMax)
          throw new ToolError(`nothing was acknowledged for ${unansweredMsMax / 1000} s: ${error.message}`, { cause: error })
        await pause(failurePauseMs, signal)
        continue
      }
      acknowledgedMs = performance.now()
      counts.acknowledged += taken.length
      for (const { rows, payload } of taken) {
        counts.rows += rows
        counts.payloadBytes += payload.length
      }
      ledger.acknowledge(first, first + taken.length)
      onProgress(counts.acknowledged, plan.messages)
      if (acknowledgedMs - flushedMs > flushMs) {
        flushedMs = acknowledgedMs
        flushing = flushing.then(() => ledger.flush())
        await flushing
      }
    }
  }

  const stop = (error: unknown): void => void (end ??= { error })
  await Promise.all(Array.from({ length: destination.sendsMax }, () => work().catch(stop)))
  if (end !== undefined) throw end.error
  const seconds = Math.max(1, acknowledgedMs - startedMs) / 1000
  return {
    destination: destination.name,
    sent: counts.sent,
    acknowledged: counts.acknowledged,
    rows: counts.rows,
    payload_bytes: counts.payloadBytes,
    seconds,
    messages_per_second: Math.round(counts.acknowledged / seconds),
    rows_per_second: Math.round(counts.rows / seconds),
    ...(rate === undefined ? {} : { late_ms_max: Math.round(lateMsMax) }),
    ...(failure === undefined ? {} : { failure: failure.message }),
  }
}
