// The store's schema: its two buckets, made where they are missing, and the retention of the one.

import { named } from '../../config/option-variable.ts'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { ResponseError } from './errors.ts'
import type { SinkOptions } from './options.ts'
import { retentionRulesOf } from './retention.ts'

const daySeconds = 86_400
/** Another process may set the retention, and few messages are beyond it. */
const readAgainAfterMs = 5_000

interface Bucket {
  readonly id: string
  readonly name: string
  readonly retentionRules: readonly { readonly everySeconds: number }[]
}

export interface Schema {
  /** How long the bucket keeps points, as it was known last; 0 keeps all. */
  keptSeconds(): number
  /** Asks the bucket, where that was not done in the last seconds. */
  readAgain(signal: AbortSignal): Promise<void>
}

/**
 * Makes the buckets that are missing, and sets the retention that the options name.
 *
 * @param onNotice told where the bucket keeps points for another time than the options say, and will
 * @throws SinkError (systemic) where one is missing and may not be made, and where the registry's would be deleted some day; ResponseError
 */
export async function prepareSchema(connection: Connection, options: SinkOptions, onNotice?: (sentence: string) => void): Promise<Schema> {
  const registry = (await findBucket(connection, connection.registryBucket)) ?? (await makeBucket(connection, connection.registryBucket, 0))
  if (keptSeconds(registry) !== 0) {
    throw new SinkError(
      'systemic',
      `the bucket "${registry.name}" deletes what is older than ${days(keptSeconds(registry))}, and holds the registry of the store, which must stay: set its retention to infinite`,
    )
  }
  const bucket =
    (await findBucket(connection, connection.bucket)) ?? (await makeBucket(connection, connection.bucket, options.retentionDays))
  let kept = await settleRetention(connection, bucket, options.retentionDays, onNotice)
  let readAtMs = performance.now()
  return {
    keptSeconds: () => kept,
    async readAgain(signal) {
      if (performance.now() - readAtMs < readAgainAfterMs) return
      const found = await findBucket(connection, connection.bucket, signal)
      readAtMs = performance.now()
      // One that is gone is an error of whoever writes to it.
      if (found !== undefined) kept = keptSeconds(found)
    },
  }
}

/** @returns how long the bucket keeps points now, in seconds */
async function settleRetention(
  connection: Connection,
  bucket: Bucket,
  retentionDays: number,
  onNotice?: (sentence: string) => void,
): Promise<number> {
  const kept = keptSeconds(bucket)
  if (kept === retentionDays * daySeconds) return kept
  const keeps = `the bucket "${bucket.name}" keeps ${kept === 0 ? 'all' : days(kept)}, and store.retention_days`
  if (retentionDays === 0) {
    onNotice?.(`${keeps} is not set, so that stays`)
    return kept
  }
  try {
    await setRetention(connection, bucket, retentionDays)
    return retentionDays * daySeconds
  } catch (error) {
    if (!(error instanceof ResponseError) || ![401, 403, 404].includes(error.status)) throw error
    onNotice?.(
      `${keeps} asks for ${retentionDays} days, which the token may not set (${error.said}): set it by hand, or give the token the rights that sinks/influxdb/README.md lists`,
    )
    return kept
  }
}

/**
 * Sets the bucket's retention to that of the options, where they name one. The registry's bucket is never touched. InfluxDB itself deletes
 * what is too old, a shard at a time.
 *
 * @throws ResponseError, SinkError
 */
export async function maintain(connection: Connection, { retentionDays }: SinkOptions): Promise<void> {
  if (retentionDays === 0) return
  const bucket = await findBucket(connection, connection.bucket)
  if (bucket === undefined || keptSeconds(bucket) === retentionDays * daySeconds) return
  await setRetention(connection, bucket, retentionDays)
}

async function setRetention(connection: Connection, { id }: Bucket, retentionDays: number): Promise<void> {
  await connection.ask('PATCH', `/api/v2/buckets/${encodeURIComponent(id)}`, {}, { retentionRules: retentionRulesOf(retentionDays) })
}

function keptSeconds({ retentionRules }: Bucket): number {
  return retentionRules[0]?.everySeconds ?? 0
}

function days(seconds: number): string {
  return `${Math.round((seconds / daySeconds) * 100) / 100} days`
}

async function findBucket(connection: Connection, name: string, signal?: AbortSignal): Promise<Bucket | undefined> {
  const query = { org: connection.org, name }
  try {
    const { buckets } = await connection.ask<{ buckets: readonly Bucket[] }>('GET', '/api/v2/buckets', query, undefined, signal)
    return buckets.find(bucket => bucket.name === name)
  } catch (error) {
    if (error instanceof ResponseError && error.status === 404 && error.said.includes('bucket')) return undefined
    throw error
  }
}

async function makeBucket(connection: Connection, name: string, retentionDays: number): Promise<Bucket> {
  try {
    const { orgs } = await connection.ask<{ orgs: readonly { id: string }[] }>('GET', '/api/v2/orgs', { org: connection.org })
    const body = {
      orgID: orgs[0]?.id,
      name,
      description: 'made by sluice',
      retentionRules: retentionRulesOf(retentionDays),
    }
    return await connection.ask<Bucket>('POST', '/api/v2/buckets', {}, body)
  } catch (error) {
    if (!(error instanceof ResponseError)) throw error
    // Another worker has made it meanwhile.
    const found = error.status === 422 ? await findBucket(connection, name) : undefined
    if (found !== undefined) return found
    if (error.status !== 401 && error.status !== 403 && error.status !== 404) throw error
    throw new SinkError(
      'systemic',
      `the bucket "${name}" is missing in the organisation "${connection.org}", or the token may not read it, and it may not make it (${error.said}): make it, or give the token of ${named('store.token', 'SVC_TIMESERIES_TOKEN')} write on the organisation's buckets and read on the organisation`,
      { cause: error },
    )
  }
}
