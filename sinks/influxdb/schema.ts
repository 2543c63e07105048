// The store's schema: its two buckets, which are created if they are missing, and the retention of the bucket of messages.

import { named } from '../../config/options/variable.ts'
import { retentionNotes } from '../erasure.ts'
import { SinkError, UnpreparedStoreError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import type { EncodedBatch } from './encode.ts'
import { openErasure } from './erase.ts'
import { type Fault, ResponseError } from './errors.ts'
import type { SinkOptions } from './options.ts'

const daySeconds = 86_400
/** Few large shards: a query opens each that it touches, and old times that come late would create many shards with a few points each. */
const shardDaysMax = 28

/**
 * The duration of a shard: 28 days, or a quarter of the retention if that is less. A shard is deleted as a whole, when its last point is too old: so
 * at most a quarter more than the retention is kept.
 */
export function shardGroupSeconds(retentionDays: number): number {
  if (retentionDays === 0) return shardDaysMax * daySeconds
  return Math.max(1, Math.min(shardDaysMax, Math.floor(retentionDays / 4))) * daySeconds
}

function retentionRulesOf(retentionDays: number): object[] {
  return [{ type: 'expire', everySeconds: retentionDays * daySeconds, shardGroupDurationSeconds: shardGroupSeconds(retentionDays) }]
}

/**
 * The lines, of messages that are not rejected, that the bucket would drop because it would have deleted them by now.
 *
 * @param keptSeconds 0 keeps everything
 */
export function agedLines({ lines, rejected }: EncodedBatch, keptSeconds: number, nowMs: number): number[] {
  const aged: number[] = []
  if (keptSeconds === 0) return aged
  const earliestUs = (nowMs - keptSeconds * 1000) * 1000
  for (let line = 0; line < lines.length; line++) {
    if (lines.timeUs[line]! < earliestUs && !rejected.has(lines.message[line]!)) aged.push(line)
  }
  return aged
}

/** Why a message is rejected that the bucket would drop. The server's clock may differ from this machine's. */
export function beyondRetention(keptSeconds: number): Fault {
  const kept = keptSeconds === 0 ? 'the bucket keeps' : `the ${keptSeconds / daySeconds} days that the bucket keeps`
  return {
    rule: 'beyond-retention',
    reason: `a time of the message is older than ${kept}`,
    hint: 'the message is valid: to store it, keep messages longer (store.retention_days), then replay it',
  }
}

/** Short enough, since another process may change the retention; few messages are beyond it. */
const readAgainAfterMs = 5_000

interface Bucket {
  readonly id: string
  readonly name: string
  readonly retentionRules: readonly { readonly everySeconds: number }[]
}

export interface Schema {
  /** How long the bucket keeps points, as last read; 0 keeps everything. */
  keptSeconds(): number
  /** Reads the retention of the bucket again, unless that was done a few seconds ago. */
  readAgain(signal: AbortSignal): Promise<void>
}

/**
 * Creates the missing buckets, and sets the retention of the options.
 *
 * @param onNotice called with a sentence if the bucket's retention differs from the options and stays so
 * @throws SinkError (systemic) if a bucket is missing and may not be created, or if the registry's bucket has a retention; ResponseError
 */
export async function prepareSchema(connection: Connection, options: SinkOptions, onNotice?: (sentence: string) => void): Promise<Schema> {
  const registry = (await findBucket(connection, connection.registryBucket)) ?? (await makeBucket(connection, connection.registryBucket, 0))
  if (keptSeconds(registry) !== 0) {
    throw new SinkError(
      'systemic',
      `the bucket "${registry.name}" deletes what is older than ${days(keptSeconds(registry))}, but it contains the registry of the store, which must not expire: set its retention to infinite`,
    )
  }
  const bucket =
    (await findBucket(connection, connection.bucket)) ?? (await makeBucket(connection, connection.bucket, options.retentionDays))
  return schemaOf(connection, await settleRetention(connection, bucket, options.retentionDays, onNotice))
}

/**
 * Checks the schema and changes nothing.
 *
 * @throws SinkError (systemic) if a bucket is missing; ResponseError
 */
export async function openSchema(connection: Connection): Promise<Schema> {
  const [registry, bucket] = await Promise.all([connection.registryBucket, connection.bucket].map(name => findBucket(connection, name)))
  if (registry !== undefined && bucket !== undefined) return schemaOf(connection, keptSeconds(bucket))
  const missing = registry === undefined ? connection.registryBucket : connection.bucket
  throw new UnpreparedStoreError(
    `the bucket "${missing}" is missing in the organisation "${connection.org}": start its writer first, which creates it`,
  )
}

function schemaOf(connection: Connection, keptAtFirst: number): Schema {
  let kept = keptAtFirst
  let readAtMs = performance.now()
  return {
    keptSeconds: () => kept,
    async readAgain(signal) {
      if (performance.now() - readAtMs < readAgainAfterMs) return
      const found = await findBucket(connection, connection.bucket, signal)
      readAtMs = performance.now()
      // A missing bucket is an error of the next write.
      if (found !== undefined) kept = keptSeconds(found)
    },
  }
}

/** @returns the bucket's retention now, in seconds; 0 keeps everything */
async function settleRetention(
  connection: Connection,
  bucket: Bucket,
  retentionDays: number,
  onNotice?: (sentence: string) => void,
): Promise<number> {
  const kept = keptSeconds(bucket)
  if (kept === retentionDays * daySeconds) return kept
  const keeps = `the bucket "${bucket.name}" keeps ${kept === 0 ? 'everything' : days(kept)}, and store.retention_days`
  if (retentionDays === 0) {
    onNotice?.(`${keeps} is not set, so the bucket stays as it is`)
    return kept
  }
  try {
    await setRetention(connection, bucket, retentionDays)
    return retentionDays * daySeconds
  } catch (error) {
    if (!(error instanceof ResponseError) || ![401, 403, 404].includes(error.status)) throw error
    onNotice?.(
      `${keeps} is ${retentionDays}, which the token may not set (${error.said}): set it manually, or give the token the permissions that docs/stores/influxdb.md lists`,
    )
    return kept
  }
}

/**
 * Sets the bucket's retention to that of the options, if they set one. The registry's bucket is never changed. InfluxDB deletes old points by itself,
 * a shard at a time. Points of channels and formats with a shorter time are deleted here.
 *
 * @throws ResponseError, SinkError
 */
export async function maintain(connection: Connection, options: SinkOptions, now = new Date()): Promise<void> {
  const { retentionDays } = options
  const nowMs = now.getTime()
  const erasure = openErasure(connection)
  // A day more: the server deletes until the next call too.
  const storeBeforeMs = retentionDays === 0 ? undefined : nowMs - (retentionDays - 1) * daySeconds * 1000
  for (const note of retentionNotes(options, nowMs, storeBeforeMs)) {
    await erasure.note(note)
    if (note.channel === undefined && note.format === undefined) await keepRetention(connection, retentionDays)
    else await erasure.erase(note, new AbortController().signal, async () => undefined)
  }
}

async function keepRetention(connection: Connection, retentionDays: number): Promise<void> {
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
    // Another worker has created it meanwhile.
    const found = error.status === 422 ? await findBucket(connection, name) : undefined
    if (found !== undefined) return found
    if (error.status !== 401 && error.status !== 403 && error.status !== 404) throw error
    throw new SinkError(
      'systemic',
      `the bucket "${name}" is missing in the organisation "${connection.org}", or the token may not read it, and the token may not create it (${error.said}): create it, or give the token in ${named('store.token', 'SVC_TIMESERIES_TOKEN')} write permission on the organisation's buckets and read permission on the organisation`,
      { cause: error },
    )
  }
}
