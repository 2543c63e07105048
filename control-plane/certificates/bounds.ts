// How many certificates a thing and an owner may have, counting those that an authority elsewhere is being asked to sign.

import { setBounded } from '../../config/bounded-map.ts'
import type { Database, Queries, SqlRow } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import type { ThingId, UserId } from '../ids.ts'
import type { Authority } from './authorities/authority.ts'
import { isInCrl } from './authorities/builtin-store.ts'
import type { IssueRequest } from './signing.ts'

export interface OwnerBounds {
  /** Valid certificates of one owner. */
  readonly validMax: number
  /** Certificates of one owner in the CRL. More get there only by revoking valid ones, which is never refused. */
  readonly revokedMax: number
}

export interface Bounds {
  /** @param things one for each further certificate @throws HttpError `conflict` if a thing has too many, `too_many_requests` if the owner has */
  demandCapacity(queries: Queries, owner: UserId, things: readonly ThingId[]): Promise<void>
  /**
   * Counts certificates before an authority elsewhere is asked for them, in a transaction of its own: what it signs may end in its CRL, whatever becomes of
   * the request. Requests of one owner wait for each other here, so together they stay within the bounds.
   *
   * @param ids one for each request: whoever stores or discards the certificates deletes these rows of `certificates_in_signing`, also if this throws
   * @throws HttpError as `demandCapacity`
   */
  reserve(owner: UserId, requests: readonly IssueRequest[], ids: readonly string[]): Promise<void>
}

/** In SQL. */
export const isValid = 'revoked_at IS NULL AND expires_at > now()'
/** Valid certificates of one thing, so that a transaction that revokes them all is short. */
const validOfThingMax = 100

// The database takes a tenth of a second to count a hundred thousand certificates, so it counts those of an owner now and then.
/**
 * The part of the free ones that this process issues before it counts again. Other instances do the same, so each of them may exceed a limit by this part
 * of it.
 */
const uncounted = 0.1
/** Milliseconds for each one counted: for so long a refusal stands without another count. */
const refusedMs = 0.01
/** Whose counts are kept. */
const ownersMax = 10_000

const inSigning = 'control_plane.certificates_in_signing WHERE owner = $1 AND authority = $2 AND expires_at > now()'
const fullSql = `
  SELECT FROM (
    SELECT thing FROM control_plane.certificates WHERE thing = ANY($3::uuid[]) AND authority = $2 AND ${isValid}
    UNION ALL SELECT thing FROM ${inSigning} AND thing = ANY($3::uuid[])
    UNION ALL SELECT unnest($3::uuid[])
  ) AS counted GROUP BY thing HAVING count(*) > ${validOfThingMax} LIMIT 1`
const ownedCertificates = 'control_plane.certificates WHERE owner = $1 AND authority = $2'
const countsSql = `
  SELECT (SELECT count(*) FROM ${ownedCertificates} AND ${isValid})::int4 AS valid, (SELECT count(*) FROM ${ownedCertificates} AND ${isInCrl})::int4 AS in_crl,
    (SELECT count(*) FROM ${inSigning})::int4 AS in_signing`
/**
 * Seconds until the owner has capacity: of those that count, from the last to end, until the end of the one of number `$3`. If those that are being signed
 * fill the limit, a second, because they soon count as something else.
 */
const waitSql = (isCounted: string, kept: string): string => `
  SELECT coalesce((
    SELECT greatest(1, ceil(extract(epoch FROM expires_at + interval '${kept}' - now()))) FROM ${ownedCertificates} AND ${isCounted}
    ORDER BY expires_at DESC OFFSET $3 LIMIT 1
  ), 1)::int4 AS seconds`
// A transaction that updates the owner waits for this one, and none that refers to the owner.
const lockOwnerSql = 'SELECT FROM control_plane.users WHERE id = $1 FOR NO KEY UPDATE'
// A day is longer than any request takes. After a crash nothing more is known of what was being signed.
const reserveSql = `
  WITH expired AS (
    DELETE FROM control_plane.certificates_in_signing WHERE owner = $1 AND authority = $2 AND expires_at < now()
  )
  INSERT INTO control_plane.certificates_in_signing (id, thing, owner, authority, expires_at)
  SELECT id, thing, $1, $2, now() + interval '1 day' FROM unnest($3::uuid[], $4::uuid[]) AS asked (id, thing)`

interface Counts extends SqlRow {
  readonly valid: number
  readonly in_crl: number
  readonly in_signing: number
}

/** What is known of an owner since the last count. */
interface Counted {
  /** How many more may be issued without a count. */
  free: number
  readonly refusal?: { readonly untilMs: number; readonly detail: string; readonly retryAfterSeconds: number }
}

interface Parts extends OwnerBounds {
  readonly database: Pick<Database, 'transaction'>
  readonly authority: Authority['name']
}

export function openBounds({ database, authority, validMax, revokedMax }: Parts): Bounds {
  const owners = new Map<UserId, Counted>()
  const limits = [
    {
      max: revokedMax,
      countedOf: ({ in_crl: inCrl }: Counts) => inCrl,
      sql: waitSql(isInCrl, '7 days'),
      detail: `the CRL lists ${revokedMax} revoked certificates of yours, which is the limit: wait until some leave it, a week after they expire, or ask the administrator to raise certificates.revoked_max`,
    },
    {
      max: validMax,
      countedOf: ({ valid }: Counts) => valid,
      sql: waitSql(isValid, '0'),
      detail: `you have ${validMax} valid certificates, which is the limit: revoke those that are not used, wait until some expire, or ask the administrator to raise certificates.valid_max`,
    },
  ]

  /** @param more that are to be issued */
  async function count(queries: Queries, owner: UserId, more: number): Promise<Counted> {
    const [row] = await queries.query<Counts>(countsSql, [owner, authority])
    const counts = row!
    let free = Number.POSITIVE_INFINITY
    for (const { max, countedOf, sql, detail } of limits) {
      const counted = countedOf(counts)
      free = Math.min(free, max - counted - counts.in_signing - more)
      if (free >= 0) continue
      const [wait] = await queries.query<{ seconds: number }>(sql, [owner, authority, Math.max(max - more, 0)])
      return { free: 0, refusal: { untilMs: performance.now() + counted * refusedMs, detail, retryAfterSeconds: wait!.seconds } }
    }
    return { free: Math.floor(free * uncounted) }
  }

  const demandCapacity: Bounds['demandCapacity'] = async (queries, owner, things) => {
    if ((await queries.query(fullSql, [owner, authority, things])).length > 0) {
      const detail = `the thing has ${validOfThingMax} valid certificates: revoke those that it does not use, or wait until they expire`
      throw new HttpError('conflict', detail)
    }
    let known = owners.get(owner)
    if (known !== undefined && known.free >= things.length) {
      known.free -= things.length
      return
    }
    if (known?.refusal === undefined || performance.now() >= known.refusal.untilMs) {
      known = await count(queries, owner, things.length)
      setBounded(owners, owner, known, ownersMax)
    }
    if (known.refusal === undefined) return
    const { detail, retryAfterSeconds } = known.refusal
    throw new HttpError('too_many_requests', detail, { retryAfterSeconds })
  }

  return {
    demandCapacity,

    reserve: (owner, requests, ids) =>
      database.transaction(async transaction => {
        await transaction.query(lockOwnerSql, [owner])
        const things = requests.map(({ thing }) => thing)
        await demandCapacity(transaction, owner, things)
        await transaction.query(reserveSql, [owner, authority, ids, things])
      }),
  }
}
