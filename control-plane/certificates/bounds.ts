// How many certificates a thing and an owner may have, counting those that an authority elsewhere is being asked to sign.

import type { Database, Queries, SqlRow } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import type { ThingId, UserId } from '../ids.ts'
import type { Authority } from './authorities/authority.ts'
import { isInCrl } from './authorities/builtin-store.ts'
import type { IssueRequest } from './signing.ts'

export interface OwnerBounds {
  /** Valid certificates of one owner. */
  readonly validMax: number
  /** Certificates of one owner in the CRL. */
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

const inSigning = 'control_plane.certificates_in_signing WHERE owner = $1 AND authority = $2 AND expires_at > now()'
/**
 * Seconds until the owner has room; null for now. Of the certificates that count, from the last to end, it is the one of number `max` whose end makes
 * room. Those that are being signed come last, because they soon count as something else.
 */
const waitSql = (isCounted: string, max: string, kept: string): string => `(
  SELECT greatest(1, ceil(extract(epoch FROM expires_at + interval '${kept}' - now())))::int4 FROM (
    SELECT expires_at FROM control_plane.certificates WHERE owner = $1 AND authority = $2 AND ${isCounted}
    UNION ALL SELECT now() - interval '${kept}' FROM ${inSigning}
  ) AS counted ORDER BY expires_at DESC OFFSET greatest(${max} - cardinality($3::uuid[]), 0) LIMIT 1
)`
const refusalSql = `
  SELECT ${waitSql(isValid, '$4', '0')} AS valid_wait, ${waitSql(isInCrl, '$5', '7 days')} AS crl_wait, EXISTS (
    SELECT FROM (
      SELECT thing FROM control_plane.certificates WHERE thing = ANY($3::uuid[]) AND authority = $2 AND ${isValid}
      UNION ALL SELECT thing FROM ${inSigning} AND thing = ANY($3::uuid[])
      UNION ALL SELECT unnest($3::uuid[])
    ) AS counted GROUP BY thing HAVING count(*) > ${validOfThingMax}
  ) AS is_full`
// A transaction that updates the owner waits for this one, and none that refers to the owner.
const lockOwnerSql = 'SELECT FROM control_plane.users WHERE id = $1 FOR NO KEY UPDATE'
const reserveSql = `
  WITH expired AS (
    DELETE FROM control_plane.certificates_in_signing WHERE owner = $1 AND authority = $2 AND expires_at < now()
  )
  INSERT INTO control_plane.certificates_in_signing (id, thing, owner, authority, expires_at)
  SELECT id, thing, $1, $2, now() + seconds * interval '1 second' FROM json_to_recordset($3::json) AS asked (id uuid, thing uuid, seconds int4)`

interface Refusal extends SqlRow {
  readonly valid_wait: number | null
  readonly crl_wait: number | null
  readonly is_full: boolean
}

interface Parts extends OwnerBounds {
  readonly database: Pick<Database, 'transaction'>
  readonly authority: Authority['name']
}

export function openBounds({ database, authority, validMax, revokedMax }: Parts): Bounds {
  const demandCapacity: Bounds['demandCapacity'] = async (queries, owner, things) => {
    const [refusal] = await queries.query<Refusal>(refusalSql, [owner, authority, things, validMax, revokedMax])
    const { is_full: isFull, crl_wait: crlWait, valid_wait: validWait } = refusal!
    if (isFull) {
      const detail = `the thing has ${validOfThingMax} valid certificates: revoke those that it does not use, or wait until they expire`
      throw new HttpError('conflict', detail)
    }
    if (crlWait !== null) {
      const detail = `the CRL lists ${revokedMax} revoked certificates of yours, which is the limit: wait until some leave it, a week after they expire, or ask the administrator to raise certificates.revoked_max`
      throw new HttpError('too_many_requests', detail, { retryAfterSeconds: crlWait })
    }
    if (validWait !== null) {
      const detail = `you have ${validMax} valid certificates, which is the limit: revoke those that are not used, wait until some expire, or ask the administrator to raise certificates.valid_max`
      throw new HttpError('too_many_requests', detail, { retryAfterSeconds: validWait })
    }
  }

  return {
    demandCapacity,

    reserve: (owner, requests, ids) =>
      database.transaction(async transaction => {
        await transaction.query(lockOwnerSql, [owner])
        const things = requests.map(({ thing }) => thing)
        await demandCapacity(transaction, owner, things)
        const asked = requests.map(({ thing, ttlSeconds }, nth) => ({ id: ids[nth], thing, seconds: ttlSeconds }))
        await transaction.query(reserveSql, [owner, authority, JSON.stringify(asked)])
      }),
  }
}
