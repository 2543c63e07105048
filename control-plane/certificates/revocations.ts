// Sends revocations to an authority elsewhere.
//
// A certificate is revoked in a transaction, and every check reads that. Its row also says when the authority is to be asked to revoke it. So a
// revocation is delivered at least once, by any process, however many were killed before. Asking again is no error and the order does not matter: there is
// no lock, and two processes may ask for the same one.

import type { Logger } from '../../config/logger.ts'
import { factOf } from '../../config/outage.ts'
import type { Database } from '../../database/database.ts'
import type { Authority } from './authorities/authority.ts'

export interface Revocations {
  /** Asks the authority for all that are due, until it revokes none. Logs those that fail, and never rejects. */
  deliver(): Promise<void>
  /** Delivers every second from now on. */
  start(): void
  /** Resolves when no delivery is under way any more. */
  stop(): Promise<void>
}

interface Parts {
  readonly database: Pick<Database, 'query'>
  readonly authority: Pick<Authority, 'name' | 'revoke'>
  readonly logger: Pick<Logger, 'warn'>
}

const intervalMs = 1_000
/** In one part, at the same time. */
const partMax = 20
/** Until one that failed is asked for again; the others do not wait for it. */
const retrySeconds = 30

/** In SQL: the authority is still to be asked. Not for an expired one: servers forget those, and no check accepts them. */
export const isPending = 'revocation_due_at IS NOT NULL AND expires_at > now()'
const dueSql = `
  SELECT serial FROM control_plane.certificates WHERE authority = $1 AND ${isPending} AND revocation_due_at <= now()
  ORDER BY revocation_due_at LIMIT ${partMax}`
// Also if all failed, because some may be revoked nevertheless.
const askedSql = `
  WITH asked AS (
    UPDATE control_plane.certificates
    SET revocation_due_at = CASE WHEN serial = ANY($2::text[]) THEN now() + interval '${retrySeconds} seconds' END
    WHERE serial = ANY($1::text[]) AND revocation_due_at IS NOT NULL
  )
  UPDATE control_plane.crl_revision SET revision = revision + 1`

export function openRevocations({ database, authority, logger }: Parts): Revocations {
  let timer: NodeJS.Timeout | undefined
  let delivering: Promise<void> | undefined
  let isFailing = false

  /** @returns whether more may be due */
  async function deliverPart(): Promise<boolean> {
    const serials = (await database.query<{ serial: string }>(dueSql, [authority.name])).map(({ serial }) => serial)
    if (serials.length === 0) return false
    const failures = new Map<string, unknown>()
    await Promise.all(serials.map(serial => authority.revoke(serial).catch((error: unknown) => void failures.set(serial, error))))
    await database.query(askedSql, [serials, [...failures.keys()]])
    if (failures.size === 0) return true
    logger.warn(
      { serials: [...failures.keys()], reason: factOf([...failures.values()][0]) },
      'certificates are revoked, but the certificate authority has not revoked them yet: retrying',
    )
    return failures.size < serials.length
  }

  async function deliver(): Promise<void> {
    try {
      let isMore = true
      while (isMore) isMore = await deliverPart()
      isFailing = false
    } catch (error) {
      // The database's fault, so it would be logged every second.
      if (!isFailing) logger.warn({ reason: factOf(error) }, 'revocations cannot be sent to the certificate authority: retrying')
      isFailing = true
    }
  }

  return {
    deliver,
    start() {
      timer ??= setInterval(() => {
        delivering ??= deliver().finally(() => (delivering = undefined))
      }, intervalMs).unref()
    },
    async stop() {
      clearInterval(timer)
      await delivering
    },
  }
}
