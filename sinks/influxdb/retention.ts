// How long the bucket keeps points, and messages that are older than that.

import type { EncodedBatch } from './encoded-batch.ts'
import type { Fault } from './faults.ts'
import { rejectFor } from './rejected-messages.ts'

const daySeconds = 86_400
/** Few large shards: a query opens each that it touches, and old times that come late fill none with a handful of points. */
const shardDaysMax = 28

/**
 * How long a shard lasts: 28 days, and no more than a quarter of the retention, since a shard is deleted when its last point may be: so at
 * most a quarter more is kept than was asked for.
 */
export function shardGroupSeconds(retentionDays: number): number {
  if (retentionDays === 0) return shardDaysMax * daySeconds
  return Math.max(1, Math.min(shardDaysMax, Math.floor(retentionDays / 4))) * daySeconds
}

export function retentionRulesOf(retentionDays: number): object[] {
  return [{ type: 'expire', everySeconds: retentionDays * daySeconds, shardGroupDurationSeconds: shardGroupSeconds(retentionDays) }]
}

/**
 * The lines, of messages that are not rejected, which the bucket would drop, as it would have deleted them by now. Without those that it is known
 * to hold still.
 *
 * @param keptSeconds 0 keeps all
 */
export function agedLines({ lines, rejected, stored }: EncodedBatch, keptSeconds: number, nowMs: number): number[] {
  const aged: number[] = []
  if (keptSeconds === 0) return aged
  const earliestUs = (nowMs - keptSeconds * 1000) * 1000
  for (let line = 0; line < lines.length; line++) {
    if (lines.timeUs[line]! < earliestUs && !rejected.has(lines.message[line]!) && !stored.has(line)) aged.push(line)
  }
  return aged
}

/** Rejects the messages of these lines, none of which is in the bucket. */
export function rejectAged(encoded: EncodedBatch, aged: readonly number[], keptSeconds: number): void {
  const absent = new Set(aged)
  for (const line of aged) rejectFor(encoded, line, absent, beyondRetention(keptSeconds))
}

/** Of a message that the bucket drops; its clock may not be ours. */
export function beyondRetention(keptSeconds: number): Fault {
  const kept = keptSeconds === 0 ? 'the bucket keeps' : `the ${keptSeconds / daySeconds} days that the bucket keeps`
  return {
    rule: 'beyond-retention',
    reason: `a time of the message is older than ${kept}`,
    hint: 'nothing is wrong with it; keep messages for longer (store.retention_days) before it is replayed, if it is wanted',
  }
}
