// How many certificates a thing and an owner may have.

import type { Queries, SqlRow } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import type { ThingId, UserId } from '../ids.ts'
import type { Authority } from './authorities/authority.ts'

/** In SQL. */
export const isValid = 'revoked_at IS NULL AND expires_at > now()'
/** In SQL: whether no CRL names it any more (RFC 5280 §3.3). Then it does not count for its owner, and its row may be removed. */
export const isOver = "expires_at < now() - interval '7 days'"

/** Valid certificates of one thing, so that a transaction that revokes them all is short. */
const validOfThingMax = 100

/**
 * @param things whose certificates are counted
 * @param more one of these things for each certificate that is not stored yet
 * @throws HttpError `conflict` if a thing has too many, `too_many_requests` if the owner has
 */
export type DemandCapacity = (queries: Queries, owner: UserId, things: readonly ThingId[], more: readonly ThingId[]) => Promise<void>

const countsSql = `
  SELECT certificate_count + cardinality($4::uuid[]) - (SELECT count(*) FROM control_plane.certificates WHERE owner = $1 AND ${isOver})::int4 AS owned,
    EXISTS (
      SELECT FROM (
        SELECT thing FROM control_plane.certificates WHERE thing = ANY($3::uuid[]) AND authority = $2 AND ${isValid}
        UNION ALL SELECT unnest($4::uuid[])
      ) AS counted GROUP BY thing HAVING count(*) > ${validOfThingMax}
    ) AS is_thing_full
  FROM control_plane.users WHERE id = $1`
const waitSql = `
  SELECT greatest(1, ceil(extract(epoch FROM min(expires_at) + interval '7 days' - now())))::int4 AS seconds
  FROM control_plane.certificates WHERE owner = $1 AND NOT (${isOver})`

/** @param perOwnerMax certificates of one owner, valid or revoked, until they are over */
export function openBounds(authority: Authority['name'], perOwnerMax: number): DemandCapacity {
  return async (queries, owner, things, more) => {
    const [row] = await queries.query<SqlRow & { owned: number; is_thing_full: boolean }>(countsSql, [owner, authority, things, more])
    const { owned, is_thing_full: isThingFull } = row!
    if (isThingFull) {
      const detail = `the thing has ${validOfThingMax} valid certificates: revoke those that it does not use, or wait until they expire`
      throw new HttpError('conflict', detail)
    }
    if (owned <= perOwnerMax) return
    const [wait] = await queries.query<{ seconds: number }>(waitSql, [owner])
    const detail = `you have ${perOwnerMax} certificates, which is the limit: valid and revoked ones count until a week after they expire, so wait, or ask the administrator to raise certificates.per_owner_max`
    throw new HttpError('too_many_requests', detail, { retryAfterSeconds: wait!.seconds })
  }
}
