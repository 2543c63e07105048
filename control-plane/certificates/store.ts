// Certificates in the database: of which thing, until when, and whether revoked. It stores no private key.
//
// Longer than most files: every statement on certificates is here, but those of `bounds.ts` and `revocations.ts`.

import type { Logger } from '../../config/logger.ts'
import { factOf } from '../../config/outage.ts'
import type { Database, SqlRow } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import type { ThingId, UserId } from '../ids.ts'
import { openNextRun } from '../next-run.ts'
import { type Page, type PageRequest, pageSql, toPage } from '../requests/page.ts'
import type { Actor, Caller, Write, Writes } from '../writes.ts'
import type { Authority } from './authorities/authority.ts'
import { isOver, isValid, openBounds } from './bounds.ts'
import type { NewCsrs } from './csr.ts'
import type { IssuedCertificate } from './record.ts'
import { isPending, openRevocations } from './revocations.ts'
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
  /** How many are revoked, and the authority elsewhere has not revoked them yet. */
  readonly pending: number
}

export interface Certificates {
  /** Certificates of any other authority are not listed, revoked or accepted in place of a key. */
  readonly authority: Authority['name']
  /**
   * Signs certificates, and then runs `work`, which hands them out and calls `store` in a transaction in which their things exist. If it throws, the
   * certificates are revoked.
   *
   * @throws HttpError of the authority and of the queue for keys; `conflict` for a thing with too many certificates, and `too_many_requests` for an
   * owner with too many, both before anything is signed or from `store`; whatever `work` throws
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
  /** Those of a thing in the order of issue, including revoked ones, and expired ones for a week or longer. */
  list(thing: ThingId, page: PageRequest): Promise<Page<Certificate>>
  /** Revokes the valid certificates of a thing, or one of them. `openRevocations` sends that to an authority elsewhere after the commit. */
  revoke(by: Actor, thing: ThingId, serial?: string): Promise<void>
  /** When the last certificate of a thing, or that one, was revoked, RFC 3339; undefined if none is. */
  revokedAt(thing: ThingId, serial?: string): Promise<string | undefined>
  /** DER. That of `builtin` has every revocation that was committed before the call, that of an authority elsewhere those that it has been asked for. */
  crl(): Promise<Buffer>
  expiries(signal: AbortSignal): Promise<Expiries>
  /** As `Authority.check`; logs the first of several failures. */
  readonly check: (() => Promise<void>) | undefined
  /**
   * Sends revocations to an authority elsewhere from now on.
   *
   * @throws SecretError for files and keys of the options that cannot be read
   */
  start(): Promise<void>
  close(): Promise<void>
}

interface Parts {
  readonly database: Database
  readonly writes: Writes
  readonly authority: Authority
  readonly newCsrs: NewCsrs
  /** As `openBounds`. */
  readonly perOwnerMax: number
  readonly logger: Logger
}

const columns = `serial, thing, certificate, to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS expires_at,
  to_char(revoked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS revoked_at`

// Another issue for the thing waits for this lock and then counts this certificate, and a deletion waits and then revokes it. Policies and connections
// lock the thing FOR KEY SHARE, and do not wait.
const lockSql = 'SELECT FROM control_plane.things WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE'
const signedRows = 'json_to_recordset($1::json) AS signed (serial text, thing uuid, certificate text, "expiresAt" timestamptz)'
// The count is exact, because it changes in the transaction that adds or removes the rows. Those of an owner are removed with the owner's next issue.
const insertSql = `
  WITH removed AS (
    DELETE FROM control_plane.certificates WHERE owner = $2 AND ${isOver} RETURNING 1
  ), inserted AS (
    INSERT INTO control_plane.certificates (serial, thing, owner, authority, certificate, expires_at)
    SELECT serial, thing, $2::uuid, $3::text, certificate, "expiresAt" FROM ${signedRows} RETURNING 1
  )
  UPDATE control_plane.users
  SET certificate_count = certificate_count + (SELECT count(*) FROM inserted) - (SELECT count(*) FROM removed) WHERE id = $2`
const revocation = `revoked_at = now(), revocation_due_at = CASE WHEN authority <> 'builtin' THEN now() END`
const bumpSql = 'UPDATE control_plane.crl_revision SET revision = revision + 1 WHERE EXISTS (SELECT FROM revoked)'
const revokeSql = `
  WITH revoked AS (
    UPDATE control_plane.certificates SET ${revocation}
    WHERE thing = $1 AND authority = $2 AND ($3::text IS NULL OR serial = $3) AND ${isValid} RETURNING serial
  ), bumped AS (${bumpSql})
  SELECT serial FROM revoked`
// A commit of unknown outcome may have stored them. What an authority elsewhere signed for nothing gets a row, so that its
// revocation is delivered and the owner's count grows: a loop of failing requests must not fill its CRL. The CRL of `builtin` names rows only.
const discardSql = `
  WITH revoked AS (
    UPDATE control_plane.certificates SET ${revocation}
    WHERE serial = ANY(ARRAY(SELECT serial FROM ${signedRows})) AND revoked_at IS NULL RETURNING serial
  ), bumped AS (${bumpSql}), inserted AS (
    INSERT INTO control_plane.certificates (serial, thing, owner, authority, certificate, expires_at, revoked_at, revocation_due_at)
    SELECT serial, thing, $2::uuid, $3::text, certificate, "expiresAt", now(), now() FROM ${signedRows} WHERE $3 <> 'builtin'
    ON CONFLICT (serial) DO NOTHING RETURNING 1
  )
  UPDATE control_plane.users SET certificate_count = certificate_count + (SELECT count(*) FROM inserted) WHERE id = $2`
const revokedSql = `
  SELECT ${columns} FROM control_plane.certificates
  WHERE thing = $1 AND authority = $2 AND ($3::text IS NULL OR serial = $3) AND revoked_at IS NOT NULL
  ORDER BY certificates.revoked_at DESC LIMIT 1`
const currentSql = `SELECT DISTINCT ON (thing) ${columns} FROM control_plane.certificates
  WHERE thing = ANY($1::uuid[]) AND authority = $2 AND ${isValid} ORDER BY thing, ordinal DESC`
/** A certificate that was renewed stays valid until it ends. */
const lastSql = `
  SELECT expires_at FROM control_plane.certificates AS one WHERE authority = $1 AND ${isValid} AND NOT EXISTS (
    SELECT FROM control_plane.certificates
    WHERE thing = one.thing AND authority = $1 AND revoked_at IS NULL AND expires_at > one.expires_at
  )`
const countSql = (within: string): string => `(SELECT count(*) FROM ending WHERE expires_at < now() + interval '${within}')`
const expiriesSql = `
  WITH ending AS (${lastSql} AND expires_at < now() + interval '30 days')
  SELECT ${countSql('7 days')} AS within7, ${countSql('30 days')} AS within30, (
    SELECT extract(epoch FROM expires_at) * 1000 FROM (${lastSql} ORDER BY expires_at LIMIT 1) AS first
  )::float8 AS earliest, (SELECT count(*) FROM control_plane.certificates WHERE authority = $1 AND ${isPending}) AS pending`

type CertificateRow = SqlRow & { serial: string; thing: ThingId; certificate: string; expires_at: string; revoked_at: string | null }

export function openCertificates({ database, writes, authority, newCsrs, perOwnerMax, logger }: Parts): Certificates {
  const sign = openSigning(authority, newCsrs)
  const demandCapacity = openBounds(authority.name, perOwnerMax)
  const revocations = openRevocations({ database, authority, logger })

  async function store(write: Write, owner: UserId, issued: readonly IssuedCertificate[]): Promise<void> {
    const things = [...new Set(issued.map(({ thing }) => thing))]
    if ((await write.query(lockSql, [things])).length < things.length) throw new HttpError('forbidden')
    await write.query(insertSql, [toJson(issued), owner, authority.name])
    await demandCapacity(write, owner, things, [])
    for (const { serial, thing } of issued) write.note('certificate.issue', [thing, serial])
  }

  /** Revokes certificates that are not handed out to the caller. Never rejects: a failure is logged. */
  async function discard(owner: UserId, issued: readonly IssuedCertificate[]): Promise<void> {
    if (issued.length === 0) return
    try {
      await database.query(discardSql, [toJson(issued), owner, authority.name])
    } catch (error) {
      const serials = issued.map(({ serial }) => serial)
      logger.warn({ serials, reason: factOf(error) }, 'certificates that were not handed out could not be revoked')
    }
  }

  const issuing: Certificates['issuing'] = async (by, requests, work) => {
    const things = requests.map(({ thing }) => thing)
    // What would be refused is not signed: it would stay in the CRL of an authority elsewhere.
    await demandCapacity(database, by.user, things, things)
    const issued: IssuedCertificate[] = []
    try {
      for (const request of requests) {
        const { certificate, fault } = await sign(by, request)
        issued.push(certificate)
        if (fault !== undefined) throw fault
      }
      return await work(issued, write => store(write, by.user, issued))
    } catch (error) {
      await discard(by.user, issued)
      throw error
    }
  }

  const revoke: Certificates['revoke'] = (by, thing, serial) =>
    writes(by, async write => {
      const rows = await write.query<{ serial: string }>(revokeSql, [thing, authority.name, serial ?? null])
      if (rows.length === 0) return
      write.note('certificate.revoke', [thing, ...rows.map(row => row.serial)])
      write.ends({ kind: 'thing', thing })
    })

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
        await writes(by, async write => {
          // Locks the thing first, as a deletion does.
          await store(write)
          const previousSql = 'SELECT FROM control_plane.certificates WHERE serial = $1 AND revoked_at IS NULL FOR UPDATE'
          if ((await write.query(previousSql, [serial])).length === 0) throw isRevoked()
          write.note('certificate.renew', [thing, serial, issued!.serial])
          if (revokesPrevious) await revoke(write, thing, serial)
        })
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

    revoke,

    async revokedAt(thing, serial) {
      const [row] = await database.query<CertificateRow>(revokedSql, [thing, authority.name, serial ?? null])
      return row?.revoked_at ?? undefined
    },

    // Calls during a request share the next one, because the answer must name what was revoked before they were made.
    crl: openNextRun(() => authority.crl()),

    async expiries(signal) {
      type ExpiriesRow = SqlRow & { within7: bigint; within30: bigint; earliest: number | null; pending: bigint }
      const [row] = await database.query<ExpiriesRow>(expiriesSql, [authority.name], { signal })
      const { within7, within30, earliest, pending } = row!
      return { earliestMs: earliest ?? undefined, within7: Number(within7), within30: Number(within30), pending: Number(pending) }
    },

    check: authority.check && openCheck(authority.check, logger),

    async start() {
      await authority.start()
      if (authority.name !== 'builtin') revocations.start()
    },

    async close() {
      const stopped = revocations.stop()
      // Ends the requests of a delivery that is under way.
      await authority.close()
      await stopped
    },
  }
}

function openCheck(check: () => Promise<void>, logger: Logger): () => Promise<void> {
  let isLogged = false
  return async () => {
    try {
      await check()
      isLogged = false
    } catch (error) {
      if (!isLogged) logger.warn({ reason: factOf(error) }, 'no certificates can be issued, or revoked at the authority, now or soon')
      isLogged = true
      throw error
    }
  }
}

const toJson = (issued: readonly IssuedCertificate[]): string =>
  JSON.stringify(issued.map(({ serial, thing, certificate, expiresAt }) => ({ serial, thing, certificate, expiresAt })))

const isRevoked = (): HttpError => new HttpError('conflict', 'this certificate is revoked: issue another one with POST /certs')

function toCertificate({ serial, thing, certificate, expires_at: expiresAt, revoked_at: revokedAt }: CertificateRow): Certificate {
  return { serial, thing, certificate, expiresAt, revokedAt: revokedAt ?? undefined }
}
