// Certificates in the database: of which thing, until when, and whether revoked. It stores no private key.
//
// Longer than most files: every statement on certificates is here.

import type { Logger } from '../../config/logger.ts'
import type { Database, SqlRow } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import { networkOf } from '../../http/requests/client-address.ts'
import type { ThingId } from '../ids.ts'
import { openNextRun } from '../next-run.ts'
import { openFairQueue } from '../outside/fair-queue.ts'
import { type Page, type PageRequest, pageSql, toPage } from '../requests/page.ts'
import type { Actor, Caller, Write, Writes } from '../writes.ts'
import type { Authority } from './authorities/authority.ts'
import { isInCrl } from './authorities/builtin-store.ts'
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
  /** When the first valid one ends; undefined if there is none. */
  readonly earliestMs: number | undefined
  /** How many valid ones end within 7 and within 30 days. */
  readonly within7: number
  readonly within30: number
}

/** Revokes in a transaction the valid certificates of a thing, or one of them. @returns when, RFC 3339; undefined if none was valid */
export type RevokeIn = (write: Write, thing: ThingId, serial?: string) => Promise<string | undefined>

export interface Certificates {
  /** Certificates of any other authority are not listed, revoked or accepted in place of a key. */
  readonly authority: Authority['name']
  /**
   * Signs certificates, and then runs `work`, which hands them out and calls `store` in a transaction in which their things exist. If it throws, the
   * certificates are revoked.
   *
   * @throws HttpError of the authority and of the queue for keys; `conflict` for a thing with too many certificates, and `too_many_requests` for an
   * owner with too many revoked ones, both before `work` or from `store`; whatever `work` throws
   */
  issuing<Result>(
    by: Caller,
    requests: readonly IssueRequest[],
    work: (issued: readonly IssuedCertificate[], store: (write: Write) => Promise<void>) => Promise<Result>,
  ): Promise<Result>
  /** Issues one for an existing thing. @throws HttpError as `issuing`, and `forbidden` if the thing was deleted meanwhile */
  issue(by: Caller, request: IssueRequest): Promise<IssuedCertificate>
  /** Issues one for the thing of an earlier one, and revokes that one if asked to. @throws HttpError as `issue`, and `conflict` if the earlier one is revoked */
  renew(by: Caller, previous: Certificate, request: IssueRequest, revokesPrevious: boolean): Promise<IssuedCertificate>
  find(serial: string): Promise<Certificate | undefined>
  /** For each thing, the valid certificate that was issued last; none for a thing without one. */
  current(things: readonly ThingId[]): Promise<Certificate[]>
  /** Those of a thing in the order of issue, including revoked ones and those that expired within the last 30 days. */
  list(thing: ThingId, page: PageRequest): Promise<Page<Certificate>>
  /**
   * Revokes all certificates of a thing, or one of them. Revoking again changes nothing.
   *
   * @returns when the last of them was revoked, RFC 3339; undefined if none is valid or revoked
   */
  revoke(by: Actor, thing: ThingId, serial?: string): Promise<string | undefined>
  /**
   * Runs work whose transaction revokes the valid certificates of these things with the function that it gets. The transaction waits for an authority
   * elsewhere before it commits, so at most two run at once: others find a free connection while the authority hangs. Things without a valid
   * certificate do not wait.
   *
   * @throws HttpError `too_many_requests` or `unavailable` when too many wait
   */
  revoking<Result>(by: Actor, things: readonly ThingId[], work: (revoke: RevokeIn) => Promise<Result>): Promise<Result>
  /** DER, made after the call: every revocation that was answered before is in it. */
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
  /** How many of one owner the CRL may name. */
  readonly revokedMax: number
  readonly logger: Logger
}

/** Valid certificates of one thing, so that a transaction that revokes them all is short. */
const validMax = 100
const revocationWork = { what: ['revocations', 'sent'], concurrentMax: 2, jobsMax: 100, addressJobsMax: 50, accountJobsMax: 10 } as const

const columns = `serial, thing, certificate, to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS expires_at,
  to_char(revoked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS revoked_at`
const isValid = 'revoked_at IS NULL AND expires_at > now()'

/**
 * Seconds until the owner may be issued another certificate; null for now. Of the revoked certificates in the CRL, counted from the last to end, it is the
 * one of number `revokedMax` whose end counts. An owner may exceed the bound by the certificates that are valid or being issued when it is reached,
 * because revoking is never refused.
 */
const waitSql = (owner: string): string => `(
  SELECT ceil(extract(epoch FROM expires_at + interval '7 days' - now()))::int4 FROM control_plane.certificates
  WHERE certificates.owner = ${owner} AND authority = $2 AND ${isInCrl} ORDER BY expires_at DESC OFFSET $3 LIMIT 1) AS wait_seconds`
// Before an authority elsewhere signs: what it signed and the transaction refused would be revoked there, without a row that counts.
const refusalSql = `
  SELECT ${waitSql('$4')}, EXISTS (
    SELECT FROM control_plane.certificates WHERE thing = ANY($1::uuid[]) AND authority = $2 AND ${isValid}
    GROUP BY thing HAVING count(*) >= ${validMax}
  ) AS is_full`
// Another issue for the thing waits for this lock and then counts this certificate, and a deletion waits and then revokes it. Policies and connections
// lock the thing FOR KEY SHARE, and do not wait.
const lockSql = `SELECT ${waitSql('things.owner')} FROM control_plane.things WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE`
// One statement, because statements run one at a time on the embedded database. Each insert removes two rows that expired long ago, so that the table
// shrinks by itself, and skips rows that another insert is removing.
const insertSql = `
  WITH counted AS (
    SELECT count(*) AS valid FROM control_plane.certificates WHERE thing = $2 AND authority = $3 AND ${isValid}
  ), old AS (
    SELECT serial FROM control_plane.certificates WHERE authority = $3 AND expires_at < now() - interval '30 days'
    ORDER BY expires_at LIMIT 2 FOR UPDATE SKIP LOCKED
  ), removed AS (
    DELETE FROM control_plane.certificates USING old WHERE certificates.serial = old.serial
  )
  INSERT INTO control_plane.certificates (serial, thing, owner, authority, certificate, expires_at)
  SELECT $1, id, owner, $3, $4, $5::timestamptz FROM control_plane.things, counted WHERE id = $2 AND valid < ${validMax}
  RETURNING serial`
const revokeSql = `
  UPDATE control_plane.certificates SET revoked_at = now()
  WHERE thing = $1 AND authority = $2 AND ($3::text IS NULL OR serial = $3) AND ${isValid} RETURNING ${columns}`
const discardSql = 'UPDATE control_plane.certificates SET revoked_at = now() WHERE serial = ANY($1::text[]) AND revoked_at IS NULL'
const revokedSql = `
  SELECT ${columns} FROM control_plane.certificates
  WHERE thing = $1 AND authority = $2 AND ($3::text IS NULL OR serial = $3) AND revoked_at IS NOT NULL
  ORDER BY certificates.revoked_at DESC LIMIT 1`
const currentSql = `SELECT DISTINCT ON (thing) ${columns} FROM control_plane.certificates
  WHERE thing = ANY($1::uuid[]) AND authority = $2 AND ${isValid} ORDER BY thing, ordinal DESC`
const countSql = (within: string): string => `(SELECT count(*) FROM valid WHERE expires_at < now() + interval '${within}')`
const expiriesSql = `
  WITH valid AS (
    SELECT expires_at FROM control_plane.certificates WHERE authority = $1 AND ${isValid} AND expires_at < now() + interval '30 days'
  )
  SELECT ${countSql('7 days')} AS within7, ${countSql('30 days')} AS within30, (
    SELECT extract(epoch FROM min(expires_at)) * 1000 FROM control_plane.certificates WHERE authority = $1 AND ${isValid}
  )::float8 AS earliest`

type CertificateRow = SqlRow & { serial: string; thing: ThingId; certificate: string; expires_at: string; revoked_at: string | null }
type Refusal = SqlRow & { readonly wait_seconds: number | null }

export function openCertificates({ database, writes, authority, newCsrs, revokedMax, logger }: Parts): Certificates {
  const queue = openFairQueue(revocationWork)
  const signing = openSigning({
    authority,
    newCsrs,
    // In the database, too: a commit of unknown outcome may have stored them.
    revocations: [serials => database.query(discardSql, [serials]), serials => authority.revoke(serials, database)],
    logger,
  })

  function refuseOwner(rows: readonly Refusal[]): void {
    const retryAfterSeconds = rows.find(row => row.wait_seconds !== null)?.wait_seconds ?? undefined
    if (retryAfterSeconds === undefined) return
    const detail = `the CRL lists ${revokedMax} revoked certificates of yours, which is the limit: wait until some leave it, a week after they expire, or ask the administrator to raise certificates.revoked_max`
    throw new HttpError('too_many_requests', detail, { retryAfterSeconds })
  }

  async function refuseUnsigned({ user }: Caller, requests: readonly IssueRequest[]): Promise<void> {
    const values = [requests.map(({ thing }) => thing), authority.name, revokedMax - 1, user]
    const rows = await database.query<Refusal & { readonly is_full: boolean }>(refusalSql, values)
    if (rows[0]!.is_full) throw thingIsFull()
    refuseOwner(rows)
  }

  async function store(write: Write, issued: readonly IssuedCertificate[]): Promise<void> {
    const things = new Set(issued.map(({ thing }) => thing))
    const locked = await write.query<Refusal>(lockSql, [[...things], authority.name, revokedMax - 1])
    if (locked.length < things.size) throw new HttpError('forbidden')
    refuseOwner(locked)
    for (const { serial, thing, certificate, expiresAt } of issued) {
      const inserted = await write.query(insertSql, [serial, thing, authority.name, certificate, expiresAt.toISOString()])
      if (inserted.length === 0) throw thingIsFull()
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
    if (authority.name !== 'builtin' && requests.length > 0) await refuseUnsigned(by, requests)
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

    async renew(by, { thing, serial, revokedAt }, request, revokesPrevious) {
      if (revokedAt !== undefined) throw isRevoked()
      return issuing(by, [request], async ([issued], store) => {
        await revoking(by, [thing], revoke =>
          writes(by, async write => {
            // Locks the thing first, as a deletion does.
            await store(write)
            const previousSql = 'SELECT FROM control_plane.certificates WHERE serial = $1 AND revoked_at IS NULL FOR UPDATE'
            if ((await write.query(previousSql, [serial])).length === 0) throw isRevoked()
            write.note('certificate.renew', [thing, serial, issued!.serial])
            if (revokesPrevious) await revoke(write, thing, serial)
          }),
        )
        return issued!
      })
    },

    async find(serial) {
      const sql = `SELECT ${columns} FROM control_plane.certificates WHERE serial = $1 AND authority = $2`
      const [row] = await database.query<CertificateRow>(sql, [serial, authority.name])
      return row && toCertificate(row)
    },

    current: async things => (await database.query<CertificateRow>(currentSql, [things, authority.name])).map(toCertificate),

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

    // Calls during a request share the next one, because the answer must name what was revoked before they were made.
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

const isRevoked = (): HttpError => new HttpError('conflict', 'this certificate is revoked: issue another one with POST /certs')
const thingIsFull = (): HttpError =>
  new HttpError('conflict', `the thing has ${validMax} valid certificates: revoke those that it does not use, or wait until they expire`)

function toCertificate({ serial, thing, certificate, expires_at: expiresAt, revoked_at: revokedAt }: CertificateRow): Certificate {
  return { serial, thing, certificate, expiresAt, revokedAt: revokedAt ?? undefined }
}
