// The authority `builtin` in the database: its certificate, its key, and its revoked certificates.

import { randomUUID } from 'node:crypto'
import type { MasterKeys } from '../../../config/secrets.ts'
import type { Database } from '../../../database/database.ts'
import { openSealedTexts, type SealedTexts } from '../../sealed-text.ts'

/** Both as PEM. */
export interface AuthorityKeys {
  readonly certificate: string
  /** PKCS #8; a secret. */
  readonly privateKey: string
}

export interface BuiltinStore {
  find(): Promise<AuthorityKeys | undefined>
  /** Stores these unless some are stored: the first of several instances wins. */
  keep(made: AuthorityKeys): Promise<void>
  /** Changes with every revocation. */
  revision(): Promise<bigint>
  /** The entries of the CRL, and its number, which grows: microseconds since 1970 by the database's clock. */
  revoked(): Promise<{ readonly revoked: readonly { readonly serial: string; readonly at: Date }[]; readonly number: bigint }>
}

/** In SQL: whether the CRL lists a certificate: until a week after it expires (RFC 5280 §3.3). */
export const isInCrl = `revoked_at IS NOT NULL AND expires_at > now() - interval '7 days'`

// One row for all of them: a row each would cost more than the CRL itself.
const revokedSql = `
  SELECT (extract(epoch FROM clock_timestamp()) * 1000000)::int8 AS number, (
    SELECT string_agg(serial || ' ' || extract(epoch FROM revoked_at)::int8, ',' ORDER BY serial)
    FROM control_plane.certificates
    WHERE authority = 'builtin' AND ${isInCrl}
  ) AS revoked`

export function openAuthorityKeys(masterKeys: MasterKeys): SealedTexts {
  return openSealedTexts(masterKeys, 'certificate-authority', 'key of certificate authority')
}

export function openBuiltinStore(database: Database, masterKeys: MasterKeys): BuiltinStore {
  const sealed = openAuthorityKeys(masterKeys)
  return {
    async find() {
      const [row] = await database.query<{ id: string; certificate: string; key_ciphertext: Uint8Array }>(
        'SELECT id, certificate, key_ciphertext FROM control_plane.certificate_authority',
      )
      return row && { certificate: row.certificate, privateKey: sealed.open(row.id, row.key_ciphertext) }
    },

    async keep({ certificate, privateKey }) {
      const id = randomUUID()
      const sql = `INSERT INTO control_plane.certificate_authority (id, certificate, key_ciphertext) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING`
      await database.query(sql, [id, certificate, sealed.seal(id, privateKey)])
    },

    async revision() {
      const [row] = await database.query<{ revision: bigint }>('SELECT revision FROM control_plane.crl_revision')
      return row!.revision
    },

    async revoked() {
      const [row] = await database.query<{ number: bigint; revoked: string | null }>(revokedSql)
      const entries = row!.revoked?.split(',') ?? []
      const revoked = entries.map(entry => {
        const [serial = '', seconds] = entry.split(' ')
        return { serial, at: new Date(Number(seconds) * 1000) }
      })
      return { revoked, number: row!.number }
    },
  }
}
