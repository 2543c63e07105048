// How long the bucket keeps points, and messages that are older than that.

import type { Rejection } from '../sink.ts'
import type { EncodedBatch } from './encoded-batch.ts'

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
 * Rejects the messages that hold a row which the bucket would drop, as it would have deleted it by now.
 *
 * @param keptSeconds 0 keeps all
 */
export function rejectBeyond({ lines, rejected }: EncodedBatch, keptSeconds: number, nowMs: number): void {
  if (keptSeconds === 0) return
  const earliestUs = (nowMs - keptSeconds * 1000) * 1000
  for (let line = 0; line < lines.length; line++) {
    if (lines.timeUs[line]! >= earliestUs) continue
    const message = lines.message[line]!
    if (!rejected.has(message)) rejected.set(message, { message, record: lines.record[line]!, ...beyondRetention(keptSeconds) })
  }
}

/** Of a message that the bucket drops; its clock may not be ours. */
export function beyondRetention(keptSeconds: number): Pick<Rejection, 'rule' | 'reason' | 'hint'> {
  const kept = keptSeconds === 0 ? 'the bucket keeps' : `the ${keptSeconds / daySeconds} days that the bucket keeps`
  return {
    rule: 'beyond-retention',
    reason: `a time of the message is older than ${kept}`,
    hint: 'nothing is wrong with it; keep messages for longer (store.retention_days) before it is replayed, if it is wanted',
  }
}
