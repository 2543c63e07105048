// Where the shards of the bucket meet. In one question over several shards the storage gives a field's points only as long as they have the type that
// the field has in the first of them, and says nothing of the rest.

import type { Connection } from '../../sinks/influxdb/connection.ts'
import { ResponseError } from '../../sinks/influxdb/errors.ts'
import type { Span } from './span.ts'

export interface Shards {
  /** The shard that this microsecond lies in. */
  at(us: number): Span
}

interface Bucket {
  readonly name: string
  readonly retentionRules: readonly { readonly shardGroupDurationSeconds?: number }[]
}

/** InfluxDB's own, of buckets that keep all. */
const usualSeconds = 7 * 86_400
/** Of the year 1, from which the server counts shards, before 1970. */
const yearOneUs = -62_135_596_800_000_000n

export async function shardsOf(connection: Connection, signal: AbortSignal): Promise<Shards> {
  return shardsOfLength((await secondsOf(connection, signal)) ?? usualSeconds)
}

/** @param seconds how long one is */
export function shardsOfLength(seconds: number): Shards {
  const lengthUs = seconds * 1_000_000
  const firstUs = Number(yearOneUs % BigInt(lengthUs))
  return {
    at(us) {
      const startUs = Math.floor((us - firstUs) / lengthUs) * lengthUs + firstUs
      return { startUs, endUs: startUs + lengthUs }
    },
  }
}

/** undefined where the token may read the points, and not what the bucket is. */
async function secondsOf(connection: Connection, signal: AbortSignal): Promise<number | undefined> {
  const { org, bucket } = connection
  try {
    const query = { org, name: bucket }
    const { buckets } = await connection.ask<{ buckets: readonly Bucket[] }>('GET', '/api/v2/buckets', query, undefined, signal)
    return buckets.find(({ name }) => name === bucket)?.retentionRules[0]?.shardGroupDurationSeconds
  } catch (error) {
    if (error instanceof ResponseError && (error.status === 401 || error.status === 403 || error.status === 404)) return undefined
    throw error
  }
}
