// Certificates in the database: which were issued for which thing, until when, and what was revoked. No private key is among it.

import { networkOf } from '../../config/http/client-address.ts'
import { HttpError } from '../../config/http/errors.ts'
import type { Logger } from '../../config/logger.ts'
import type { Database, SqlRow } from '../../config/postgres/database.ts'
import { openFairQueue } from '../fair-queue.ts'
import type { ThingId } from '../ids.ts'
import { openNextRun } from '../next-run.ts'
import { type Page, type PageRequest, pageSql, toPage } from '../page.ts'
import type { Actor, Caller, Write, Writes } from '../writes.ts'
import type { Authority } from './authority.ts'
import type { NewCsrs } from './csr.ts'
import type { IssuedCertificate } from './record.ts'
import { type IssueRequest, openSigning } from './signing.ts'

export interface Certificate {
  readonly thing: ThingId
  /** Lower-case hex. */
  readonly serial: string
  /** PEM. */
  readonly certificate: string
  /** RFC 3339. */
  readonly expiresAt: string
  readonly revokedAt: string | undefined
}

export interface Expiries {
  /** Of those that are valid; undefined without any. */
  readonly earliestMs: number | undefined
  /** How many of them end within 7 and within 30 days. */
  readonly within7: number
  readonly within30: number
}

/** Revokes in a transaction what is valid of a thing, or one certificate of it. @returns RFC 3339; undefined where nothing was */
export type RevokeIn = (write: Write, thing: ThingId, serial?: string) => Promise<string | undefined>

export interface Certificates {
  /** Whose certificates these are: no other one's are listed, revoked or taken in place of a key. */
  readonly authority: Authority['name']
  /**
   * Has certificates signed, and then runs `work`, which hands them out and calls `store` in the transaction that makes their things, or finds them
   * there. Where it throws, they are revoked: nothing is left behind.
   *
   * @throws HttpError of the authority and of the queue for keys, before `work`; whatever `work` throws
   */
  issuing<Result>(
    by: Caller,
    requests: readonly IssueRequest[],
    work: (issued: readonly IssuedCertificate[], store: (write: Write) => Promise<void>) => Promise<Result>,
  ): Promise<Result>
  /** One, for a thing that is there. @throws HttpError also `conflict` for a thing with too many */
  issue(by: Caller, request: IssueRequest): Promise<IssuedCertificate>
  /** In place of an earlier one of the same thing, which stays valid unless it is to be revoked. @throws HttpError `conflict` for one that is revoked */
  renew(by: Caller, previous: Certificate, request: IssueRequest, revokesPrevious: boolean): Promise<IssuedCertificate>
  find(serial: string): Promise<Certificate | undefined>
  /** Those of a thing in the order of their issue, also what is revoked, or has ended within 30 days. */
  list(thing: ThingId, page: PageRequest): Promise<Page<Certificate>>
  /**
   * Revokes all of a thing, or one of them. What is revoked already stays so.
   *
   * @returns when the last of them was revoked, RFC 3339; undefined where there is none that can be
   */
  revoke(by: Actor, thing: ThingId, serial?: string): Promise<string | undefined>
  /**
   * For work whose transaction revokes what is valid of these things. An authority elsewhere is asked in the transaction, before its commit: two such
   * transactions at once leave the database's connections to others while it does not answer. Without a valid certificate it is not asked.
   *
   * @throws HttpError `too_many_requests`, `unavailable` where too many wait
   */
  revoking<Result>(by: Actor, things: readonly ThingId[], work: (revoke: RevokeIn) => Promise<Result>): Promise<Result>
  /** DER, of a moment after the call. */
  crl(): Promise<Buffer>
  expiries(signal: AbortSignal): Promise<Expiries>
  /** @throws SecretError for files and keys of the options that cannot be read */
  start(): Promise<void>
  close(): Promise<void>
}

interface Parts {
  readonly database: Database
  readonly writes: Writes
  readonly authority: Authority
  readonly newCsrs: NewCsrs
  readonly logger: Logger
}

/** Of one thing, so that a transaction which revokes them all is short. */
const validMax = 100
const revocationWork = { what: ['revocations', 'sent'], concurrentMax: 2, jobsMax: 100, addressJobsMax: 50, accountJobsMax: 10 } as const

const columns = `serial, thing, certificate, to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS expires_at,
  to_char(revoked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS revoked_at`
const isValid = 'revoked_at IS NULL AND expires_at > now()'

// One statement for all, since on the embedded database each takes its turn. A deletion of the thing waits for the lock, and then revokes this
// certificate too. Each insert removes two rows that ended long ago, so that the table shrinks by itself; rows that another one is removing are skipped.
const insertSql = `
  WITH locked AS (
    SELECT FROM control_plane.things WHERE id = $2 FOR KEY SHARE
  ), counted AS (
    SELECT count(*) AS valid FROM control_plane.certificates WHERE thing = $2 AND authority = $3 AND ${isValid}
  ), old AS (
    SELECT serial FROM control_plane.certificates WHERE authority = $3 AND expires_at < now() - interval '30 days'
    ORDER BY expires_at LIMIT 2 FOR UPDATE SKIP LOCKED
  ), removed AS (
    DELETE FROM control_plane.certificates USING old WHERE certificates.serial = old.serial
  ), added AS (
    INSERT INTO control_plane.certificates (serial, thing, authority, certificate, expires_at)
    SELECT $1, $2, $3, $4, $5::timestamptz FROM locked, counted WHERE valid < ${validMax}
  )
  SELECT EXISTS (SELECT FROM locked) AS is_there, valid < ${validMax} AS has_room FROM counted`
const revokeSql = `
  UPDATE control_plane.certificates SET revoked_at = now()
  WHERE thing = $1 AND authority = $2 AND ($3::text IS NULL OR serial = $3) AND ${isValid} RETURNING ${columns}`
const discardSql = 'UPDATE control_plane.certificates SET revoked_at = now() WHERE serial = ANY($1::text[]) AND revoked_at IS NULL'
const revokedSql = `
  SELECT ${columns} FROM control_plane.certificates
  WHERE thing = $1 AND authority = $2 AND ($3::text IS NULL OR serial = $3) AND revoked_at IS NOT NULL
  ORDER BY certificates.revoked_at DESC LIMIT 1`
const countSql = (within: string): string => `(SELECT count(*) FROM valid WHERE expires_at < now() + interval '${within}')`
const expiriesSql = `
  WITH valid AS (
    SELECT expires_at FROM control_plane.certificates WHERE authority = $1 AND ${isValid} AND expires_at < now() + interval '30 days'
  )
  SELECT ${countSql('7 days')} AS within7, ${countSql('30 days')} AS within30, (
    SELECT extract(epoch FROM min(expires_at)) * 1000 FROM control_plane.certificates WHERE authority = $1 AND ${isValid}
  )::float8 AS earliest`

type CertificateRow = SqlRow & { serial: string; thing: ThingId; certificate: string; expires_at: string; revoked_at: string | null }

export function openCertificates({ database, writes, authority, newCsrs, logger }: Parts): Certificates {
  const queue = openFairQueue(revocationWork)
  const signing = openSigning({
    authority,
    newCsrs,
    // A commit whose outcome is not known may have kept them.
    revocations: [serials => database.query(discardSql, [serials]), serials => authority.revoke(serials, database)],
    logger,
  })

  async function store(write: Write, issued: readonly IssuedCertificate[]): Promise<void> {
    for (const { serial, thing, certificate, expiresAt } of issued) {
      const values = [serial, thing, authority.name, certificate, expiresAt.toISOString()]
      const [outcome] = await write.query<{ is_there: boolean; has_room: boolean }>(insertSql, values)
      if (!outcome!.is_there) throw new HttpError('forbidden')
      if (!outcome!.has_room) throw new HttpError('conflict', `the thing has ${validMax} valid certificates: revoke what it does not use`)
      write.note('certificate.issue', [thing, serial])
    }
  }

  const revokeIn: RevokeIn = async (write, thing, serial) => {
    const rows = await write.query<CertificateRow>(revokeSql, [thing, authority.name, serial ?? null])
    if (rows.length === 0) return undefined
    const serials = rows.map(row => row.serial)
    await authority.revoke(serials, write)
    write.note('certificate.revoke', [thing, ...serials])
    write.ends({ kind: 'thing', thing })
    return rows[0]!.revoked_at!
  }

  const revoking: Certificates['revoking'] = async ({ user = 'program', address = '' }, things, work) => {
    const sql = `SELECT FROM control_plane.certificates WHERE thing = ANY($1::uuid[]) AND authority = $2 AND ${isValid} LIMIT 1`
    const asks = authority.name !== 'builtin' && (await database.query(sql, [things, authority.name])).length > 0
    return asks ? queue.run({ account: user, address: networkOf(address) }, () => work(revokeIn)) : work(revokeIn)
  }

  const issuing: Certificates['issuing'] = async (by, requests, work) => {
    const issued: IssuedCertificate[] = []
    try {
      for (const request of requests) issued.push(await signing.sign(by, request))
      return await work(issued, write => store(write, issued))
    } catch (error) {
      await signing.discard(issued)
      throw error
    }
  }

  return {
    authority: authority.name,

    issuing,

    issue: (by, request) =>
      issuing(by, [request], async ([issued], store) => {
        await writes(by, store)
        return issued!
      }),

    renew: (by, { thing, serial }, request, revokesPrevious) =>
      issuing(by, [request], async ([issued], store) => {
        await revoking(by, [thing], revoke =>
          writes(by, async write => {
            // Locks the thing first, as who deletes it does.
            await store(write)
            const lockSql = `SELECT FROM control_plane.certificates WHERE serial = $1 AND revoked_at IS NULL FOR UPDATE`
            if ((await write.query(lockSql, [serial])).length === 0)
              throw new HttpError('conflict', 'this certificate is revoked: issue another one with POST /certs')
            write.note('certificate.renew', [thing, serial, issued!.serial])
            if (revokesPrevious) await revoke(write, thing, serial)
          }),
        )
        return issued!
      }),

    async find(serial) {
      const sql = `SELECT ${columns} FROM control_plane.certificates WHERE serial = $1 AND authority = $2`
      const [row] = await database.query<CertificateRow>(sql, [serial, authority.name])
      return row && toCertificate(row)
    },

    async list(thing, page) {
      const sql = `SELECT serial AS id, ordinal, ${columns} FROM control_plane.certificates WHERE thing = $1 AND authority = $2`
      const values = [thing, authority.name, page.offset, page.limit]
      return toPage(await database.query<CertificateRow & { total: bigint }>(pageSql(sql, 4, page), values), toCertificate)
    },

    async revoke(by, thing, serial) {
      const revokedAt = await revoking(by, [thing], revoke => writes(by, write => revoke(write, thing, serial)))
      if (revokedAt !== undefined) return revokedAt
      const [row] = await database.query<CertificateRow>(revokedSql, [thing, authority.name, serial ?? null])
      return row?.revoked_at ?? undefined
    },

    revoking,

    // Who comes while the authority is asked shares the next question: what they have seen revoked must be in the answer.
    crl: openNextRun(() => authority.crl()),

    async expiries(signal) {
      type ExpiriesRow = SqlRow & { within7: bigint; within30: bigint; earliest: number | null }
      const [row] = await database.query<ExpiriesRow>(expiriesSql, [authority.name], { signal })
      return { earliestMs: row!.earliest ?? undefined, within7: Number(row!.within7), within30: Number(row!.within30) }
    },

    start: () => authority.start(),
    close: () => authority.close(),
  }
}

function toCertificate({ serial, thing, certificate, expires_at: expiresAt, revoked_at: revokedAt }: CertificateRow): Certificate {
  return { serial, thing, certificate, expiresAt, revokedAt: revokedAt ?? undefined }
}
