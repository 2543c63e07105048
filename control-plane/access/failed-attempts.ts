// Counts failures within a minute, for all instances of the control plane together: sign-ins, and unknown keys. Registrations are counted in the same way.
//
// Only failures are written; a success costs one small query at most. A row is one key's count for the minute that began with its first
// failure, so at most twice the limit falls into any minute. The caller bounds how many rows strangers can create.

import { createHmac } from 'node:crypto'
import { setBounded } from '../../config/bounded-map.ts'
import type { Database } from '../../database/database.ts'

/** The most failures of a key within its minute. */
export const failuresMax = 20

/** How many are too many, and in what time. */
export interface AttemptLimit {
  readonly max: number
  readonly seconds: number
}

const failureLimit: AttemptLimit = { max: failuresMax, seconds: 60 }

export interface FailedAttempts {
  /** The key to count under: `keyOf('sign-in', email, address)`. The table does not reveal what was tried. */
  keyOf(...parts: readonly string[]): string
  /** The failures under each key, in the order given. */
  count(keys: readonly string[], limit?: AttemptLimit): Promise<number[]>
  /** Adds a failure under each key. @returns the new counts */
  note(keys: readonly string[], limit?: AttemptLimit): Promise<number[]>
  /** Milliseconds until a key with as many failures as its limit starts again, 0 for every other key. As of the last `count` or `note` here, without a query. */
  limitedMs(key: string): number
}

/** Failures at an account or an external id, from any address, before the next attempt is delayed: a person mistypes a few times. */
const undelayedFailures = 5
const delayMsMin = 125
const delayMsMax = 2_000

/** 0 up to five failures, then 125 ms, doubled with each failure up to 2 s. */
export function delayMsOf(failures: number): number {
  return failures < undelayedFailures ? 0 : Math.min(delayMsMax, delayMsMin * 2 ** (failures - undelayedFailures))
}

/** How many keys over their limit are remembered; beyond it the oldest is dropped, and read from the table again. */
const rememberedMax = 10_000
/** Rows are removed this long after they expired, when no instance can still be about to write them. */
const sweepMs = 60_000

const remaining = 'greatest(0, ceil(extract(epoch FROM ends_at - now()) * 1000))::int4 AS remaining_ms'

const countSql = `SELECT key, failures, ${remaining} FROM control_plane.failed_attempts WHERE key = ANY($1::text[]) AND ends_at > now()`

// Sorted, so that two statements lock the rows in the same order and do not deadlock.
const noteSql = `
  INSERT INTO control_plane.failed_attempts AS known (key, failures, ends_at)
  SELECT key, 1, now() + make_interval(secs => $2::int4) FROM unnest($1::text[]) AS key ORDER BY key
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

  async function ask(sql: string, keys: readonly string[], max: number, ...values: readonly number[]): Promise<number[]> {
    const rows = await database.query<FailureRow & Record<string, string | number>>(sql, [keys, ...values])
    for (const { key, failures, remaining_ms: remainingMs } of rows) {
      if (failures >= max) setBounded(limited, key, performance.now() + remainingMs, rememberedMax)
    }
    return keys.map(key => rows.find(row => row.key === key)?.failures ?? 0)
  }

  return {
    keyOf: (...parts) => createHmac('sha256', secret).update(JSON.stringify(parts)).digest('base64url'),
    count: (keys, { max } = failureLimit) => ask(countSql, keys, max),
    async note(keys, { max, seconds } = failureLimit) {
      const counts = await ask(noteSql, keys, max, seconds)
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
