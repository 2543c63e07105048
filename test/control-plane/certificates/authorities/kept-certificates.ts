// Stores and revokes certificates like the store of certificates, for suites that test only an authority.

import { X509Certificate } from 'node:crypto'
import type { Authority } from '../../../../control-plane/certificates/authorities/authority.ts'
import type { Database } from '../../../../database/database.ts'
import type { OpenedAuthority } from '../../../conformance/certificate-authority.ts'

export function keptCertificates(database: Database, authority: Authority): Pick<OpenedAuthority, 'keep' | 'revoke'> {
  return {
    async keep(thing, { certificate }) {
      const { serialNumber, validToDate } = new X509Certificate(certificate)
      const sql =
        'INSERT INTO control_plane.certificates (serial, thing, owner, authority, certificate, expires_at) VALUES ($1, $2, $2, $3, $4, $5)'
      await database.query(sql, [serialNumber.toLowerCase(), thing, authority.name, certificate, validToDate.toISOString()])
    },
    async revoke(...serials) {
      await database.query('UPDATE control_plane.certificates SET revoked_at = now() WHERE serial = ANY($1::text[])', [serials])
      await Promise.all(serials.map(serial => authority.revoke(serial)))
      await database.query('UPDATE control_plane.crl_revision SET revision = revision + 1')
    },
  }
}
