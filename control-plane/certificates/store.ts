// Certificates in the database: of which thing, until when, and whether revoked. It stores no private key.
//
// Longer than most files: every statement on certificates is here.

import { randomUUID } from 'node:crypto'
import type { Logger } from '../../config/logger.ts'
import { factOf } from '../../config/outage.ts'
import type { Database, SqlRow } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import { networkOf } from '../../http/requests/client-address.ts'
import type { ThingId, UserId } from '../ids.ts'
import { openNextRun } from '../next-run.ts'
import { openFairQueue } from '../outside/fair-queue.ts'
import { type Page, type PageRequest, pageSql, toPage } from '../requests/page.ts'
import type { Actor, Caller, Write, Writes } from '../writes.ts'
import type { Authority } from './authorities/authority.ts'
import { isValid, type OwnerBounds, openBounds } from './bounds.ts'
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
   * owner with too many, both before an authority elsewhere is asked or from `store`; whatever `work` throws
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
   * Runs work whose transaction revokes the valid certificates of these things, or one of them, with the function that it gets.
   *
   * No transaction waits for an authority elsewhere: the one that would revoke is rolled back, the authority revokes, and the work runs again. So its only
   * effects may be its transaction and its result. Things without a valid certificate do not wait.
   *
   * @throws HttpError `unavailable` without the authority; `too_many_requests` or `unavailable` when too many wait for it; whatever `work` throws
   */
  revoking<Result>(by: Actor, things: readonly ThingId[], work: (revoke: RevokeIn) => Promise<Result>): Promise<Result>
  /** DER: every revocation that was answered before the call is in it. */
  crl(): Promise<Buffer>
  expiries(signal: AbortSignal): Promise<Expiries>
  /** As `Authority.check`; logs the first of several failures. */
  readonly check: (() => Promise<void>) | undefined
  /** @throws SecretError for files and keys of the options that cannot be read */
  start(): Promise<void>
  close(): Promise<void>
}

interface Parts extends OwnerBounds {
  readonly database: Database
  readonly writes: Writes
  readonly authority: Authority
  readonly newCsrs: NewCsrs
  readonly logger: Logger
}

const revocationWork = { what: ['revocations', 'sent'], concurrentMax: 2, jobsMax: 100, addressJobsMax: 50, accountJobsMax: 10 } as const

/** Attempts of a transaction that revokes: each but the first found certificates that were issued since the one before. */
const attemptsMax = 5

const columns = `serial, thing, certificate, to_char(expires_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS expires_at,
  to_char(revoked_at AT TIME ZONE 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS"Z"') AS revoked_at`

// Another issue for the thing waits for this lock and then counts this certificate, and a deletion waits and then revokes it. Policies and connections
// lock the thing FOR KEY SHARE, and do not wait.
const lockSql = 'SELECT FROM control_plane.things WHERE id = ANY($1::uuid[]) ORDER BY id FOR NO KEY UPDATE'
const storedSql = 'DELETE FROM control_plane.certificates_in_signing WHERE id = ANY($1::uuid[])'
// One statement, because statements run one at a time on the embedded database. Each insert removes two rows that expired long ago, so that the table
// shrinks by itself, and skips rows that another insert is removing.
const insertSql = `
  WITH old AS (
    SELECT serial FROM control_plane.certificates WHERE authority = $3 AND expires_at < now() - interval '30 days'
    ORDER BY expires_at LIMIT 2 FOR UPDATE SKIP LOCKED
  ), removed AS (
    DELETE FROM control_plane.certificates USING old WHERE certificates.serial = old.serial
  )
  INSERT INTO control_plane.certificates (serial, thing, owner, authority, certificate, expires_at)
  SELECT $1, id, owner, $3, $4, $5::timestamptz FROM control_plane.things WHERE id = $2`
const revokeSql = `
  UPDATE control_plane.certificates SET revoked_at = now()
  WHERE thing = $1 AND authority = $2 AND ($3::text IS NULL OR serial = $3) AND ${isValid} RETURNING ${columns}`
// What an authority elsewhere signed for nothing is in its CRL, so it gets a row, which counts for the owner. The CRL of `builtin` names rows only.
const discardSql = `
  WITH signed AS (
    SELECT * FROM json_to_recordset($1::json) AS signed (serial text, thing uuid, certificate text, "expiresAt" timestamptz)
  ), discarded AS (
    UPDATE control_plane.certificates SET revoked_at = now() WHERE serial IN (SELECT serial FROM signed) AND revoked_at IS NULL
  ), released AS (
    DELETE FROM control_plane.certificates_in_signing WHERE id = ANY($4::uuid[])
  )
  INSERT INTO control_plane.certificates (serial, thing, owner, authority, certificate, expires_at, revoked_at)
  SELECT serial, thing, $2::uuid, $3, certificate, "expiresAt", now() FROM signed WHERE $3 <> 'builtin' ON CONFLICT (serial) DO NOTHING`
const revokedSql = `
  SELECT ${columns} FROM control_plane.certificates
  WHERE thing = $1 AND authority = $2 AND ($3::text IS NULL OR serial = $3) AND revoked_at IS NOT NULL
  ORDER BY certificates.revoked_at DESC LIMIT 1`
const validSql = `SELECT serial FROM control_plane.certificates WHERE thing = ANY($1::uuid[]) AND authority = $2 AND ${isValid}`
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

/** A transaction would revoke certificates that an authority elsewhere has not revoked yet: one of this serial, or all of its things. */
class StillValid extends Error {
  readonly serial: string | undefined

  constructor(serial: string | undefined) {
    super('the authority has not revoked them yet')
    this.serial = serial
  }
}

type CertificateRow = SqlRow & { serial: string; thing: ThingId; certificate: string; expires_at: string; revoked_at: string | null }

export function openCertificates({ database, writes, authority, newCsrs, validMax, revokedMax, logger }: Parts): Certificates {
  const isElsewhere = authority.name !== 'builtin'
  const queue = openFairQueue(revocationWork)
  const bounds = openBounds({ database, authority: authority.name, validMax, revokedMax })
  const signing = openSigning({
    authority,
    newCsrs,
    // In the database, too: a commit of unknown outcome may have stored them.
    revocations: [
      (issued, { user }, reserved) => database.query(discardSql, [JSON.stringify(issued.map(withoutKey)), user, authority.name, reserved]),
      async issued => {
        if (issued.length > 0) await authority.revoke(serialsOf(issued), database)
      },
    ],
    logger,
  })

  async function store(write: Write, owner: UserId, issued: readonly IssuedCertificate[], reserved: readonly string[]): Promise<void> {
    const things = issued.map(({ thing }) => thing)
    const locked = await write.query(lockSql, [[...new Set(things)]])
    if (locked.length < new Set(things).size) throw new HttpError('forbidden')
    // What is reserved was within the bounds, and counts until it is stored.
    if (isElsewhere) await write.query(storedSql, [reserved])
    else await bounds.demandCapacity(write, owner, things)
    for (const { serial, thing, certificate, expiresAt } of issued) {
      await write.query(insertSql, [serial, thing, authority.name, certificate, expiresAt.toISOString()])
      write.note('certificate.issue', [thing, serial])
    }
  }

  /** @param revoked at the authority @throws StillValid unless those that it revokes are among them */
  async function revokeIn(revoked: ReadonlySet<string>, write: Write, thing: ThingId, serial?: string): Promise<string | undefined> {
    const rows = await write.query<CertificateRow>(revokeSql, [thing, authority.name, serial ?? null])
    if (rows.length === 0) return undefined
    const serials = serialsOf(rows)
    if (!isElsewhere) await authority.revoke(serials, write)
    else if (!serials.every(one => revoked.has(one))) throw new StillValid(serial)
    write.note('certificate.revoke', [thing, ...serials])
    write.ends({ kind: 'thing', thing })
    return rows[0]!.revoked_at!
  }

  const revoking: Certificates['revoking'] = async ({ user = 'program', address = '' }, things, work) => {
    const revoked = new Set<string>()
    for (let attempt = 1; ; attempt++) {
      try {
        return await work((write, thing, serial) => revokeIn(revoked, write, thing, serial))
      } catch (error) {
        if (!(error instanceof StillValid)) throw error
        if (attempt === attemptsMax)
          throw new HttpError('unavailable', 'more certificates of the thing are being issued: retry', { cause: error })
        const { serial } = error
        const serials =
          serial === undefined ? serialsOf(await database.query<{ serial: string }>(validSql, [things, authority.name])) : [serial]
        await queue.run({ account: user, address: networkOf(address) }, () => authority.revoke(serials, database))
        for (const one of serials) revoked.add(one)
      }
    }
  }

  const issuing: Certificates['issuing'] = async (by, requests, work) => {
    const issued: IssuedCertificate[] = []
    const reserved = isElsewhere ? requests.map(() => randomUUID()) : []
    try {
      if (isElsewhere) await bounds.reserve(by.user, requests, reserved)
      for (const request of requests) issued.push(await signing.sign(by, request))
      return await work(issued, write => store(write, by.user, issued, reserved))
    } catch (error) {
      await signing.discard(by, issued, reserved)
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

    check: authority.check && openCheck(authority.check, logger),
    start: () => authority.start(),
    close: () => authority.close(),
  }
}

function openCheck(check: () => Promise<void>, logger: Logger): () => Promise<void> {
  let isLogged = false
  return async () => {
    try {
      await check()
      isLogged = false
    } catch (error) {
      if (!isLogged) logger.warn({ reason: factOf(error) }, 'no certificates can be issued or revoked, now or soon')
      isLogged = true
      throw error
    }
  }
}

const serialsOf = (rows: readonly { readonly serial: string }[]): string[] => rows.map(({ serial }) => serial)
const withoutKey = ({ serial, thing, certificate, expiresAt }: IssuedCertificate) => ({ serial, thing, certificate, expiresAt })

const isRevoked = (): HttpError => new HttpError('conflict', 'this certificate is revoked: issue another one with POST /certs')

function toCertificate({ serial, thing, certificate, expires_at: expiresAt, revoked_at: revokedAt }: CertificateRow): Certificate {
  return { serial, thing, certificate, expiresAt, revokedAt: revokedAt ?? undefined }
}
