// Counts what failed within a minute, for all instances of the control plane together: sign-ins, and keys that no thing has.
//
// Only a failure is written, and what succeeds costs one small query at most. A row is one key's count for the minute that began with its first
// failure, so at most twice the limit falls into any minute. Whoever counts bounds how many rows strangers can make.

import { createHmac } from 'node:crypto'
import type { Database } from '../config/postgres/database.ts'

/** So many failures may stand under a key within its minute. */
export const failuresMax = 20

export interface FailedAttempts {
  /** What is counted: `keyOf('sign-in', email, address)`. Tells nobody who reads the table what was tried. */
  keyOf(...parts: readonly string[]): string
  /** The failures under each key, in the order given. */
  count(keys: readonly string[]): Promise<number[]>
  /** One more failure under each key; how many they are now. */
  note(keys: readonly string[]): Promise<number[]>
  /** Milliseconds until a key with `failuresMax` failures begins a new minute, 0 for every other. As of the last `count` or `note` here, without a query. */
  limitedMs(key: string): number
}

/** Failures at an account, or at an external id, from whatever address, before the next attempt is delayed: a person mistypes a few times. */
const undelayedFailures = 5
const delayMsMin = 125
const delayMsMax = 2_000

/** 0 up to five failures, then 125 ms, doubled with each failure up to 2 s. */
export function delayMsOf(failures: number): number {
  return failures < undelayedFailures ? 0 : Math.min(delayMsMax, delayMsMin * 2 ** (failures - undelayedFailures))
}

/** Of keys over their limit; beyond it the oldest is forgotten, and read from the table again. */
const rememberedMax = 10_000
/** Rows are removed this long after they lost their meaning, so that nobody is about to write them. */
const sweepMs = 60_000

const remaining = 'greatest(0, ceil(extract(epoch FROM ends_at - now()) * 1000))::int4 AS remaining_ms'

const countSql = `SELECT key, failures, ${remaining} FROM control_plane.failed_attempts WHERE key = ANY($1::text[]) AND ends_at > now()`

// Sorted, so that two of them wait for each other in one order.
const noteSql = `
  INSERT INTO control_plane.failed_attempts AS known (key, failures, ends_at)
  SELECT key, 1, now() + interval '1 minute' FROM unnest($1::text[]) AS key ORDER BY key
  ON CONFLICT (key) DO UPDATE SET
    failures = CASE WHEN known.ends_at > now() THEN known.failures + 1 ELSE 1 END,
    ends_at = CASE WHEN known.ends_at > now() THEN known.ends_at ELSE excluded.ends_at END
  RETURNING key, failures, ${remaining}`

const sweepSql = `
  DELETE FROM control_plane.failed_attempts WHERE key IN (
    SELECT key FROM control_plane.failed_attempts WHERE ends_at < now() - interval '1 minute' FOR UPDATE SKIP LOCKED
  )`

interface FailureRow {
  readonly key: string
  readonly failures: number
  readonly remaining_ms: number
}

/** @param secret 32 bytes for this purpose alone */
export function openFailedAttempts(database: Database, secret: Uint8Array): FailedAttempts {
  const limited = new Map<string, number>()
  let sweptMs = performance.now()

  async function ask(sql: string, keys: readonly string[]): Promise<number[]> {
    const rows = await database.query<FailureRow & Record<string, string | number>>(sql, [keys])
    for (const { key, failures, remaining_ms: remainingMs } of rows) {
      if (failures >= failuresMax) remember(key, performance.now() + remainingMs)
    }
    return keys.map(key => rows.find(row => row.key === key)?.failures ?? 0)
  }

  function remember(key: string, endsMs: number): void {
    const oldest = limited.keys().next()
    if (limited.size >= rememberedMax && !oldest.done) limited.delete(oldest.value)
    limited.set(key, endsMs)
  }

  return {
    keyOf: (...parts) => createHmac('sha256', secret).update(JSON.stringify(parts)).digest('base64url'),
    count: keys => ask(countSql, keys),
    async note(keys) {
      const counts = await ask(noteSql, keys)
      if (performance.now() - sweptMs > sweepMs) {
        sweptMs = performance.now()
        await database.query(sweepSql)
      }
      return counts
    },
    limitedMs(key) {
      const endsMs = limited.get(key)
      if (endsMs === undefined) return 0
      const leftMs = endsMs - performance.now()
      if (leftMs <= 0) limited.delete(key)
      return Math.max(0, leftMs)
    },
  }
}
