// Certificates kept and revoked as the store of certificates does, for suites of an authority alone.

import { X509Certificate } from 'node:crypto'
import type { Database } from '../../../config/postgres/database.ts'
import type { Authority } from '../../../control-plane/certificates/authority.ts'
import type { OpenedAuthority } from '../../conformance/certificate-authority.ts'

export function keptCertificates(database: Database, authority: Authority): Pick<OpenedAuthority, 'keep' | 'revoke'> {
  return {
    async keep(thing, { certificate }) {
      const { serialNumber, validToDate } = new X509Certificate(certificate)
      const sql = 'INSERT INTO control_plane.certificates (serial, thing, authority, certificate, expires_at) VALUES ($1, $2, $3, $4, $5)'
      await database.query(sql, [serialNumber.toLowerCase(), thing, authority.name, certificate, validToDate.toISOString()])
    },
    async revoke(...serials) {
      await database.transaction(async transaction => {
        await transaction.query('UPDATE control_plane.certificates SET revoked_at = now() WHERE serial = ANY($1::text[])', [serials])
        await authority.revoke(serials, transaction)
      })
    },
  }
}
