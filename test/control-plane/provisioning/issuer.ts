// An issuer of certificates for tests: its "PEM" is text that says what it is of, and a table holds what it issued.

import { randomBytes } from 'node:crypto'
import type { Database } from '../../../config/postgres/database.ts'
import type { CertificateIssuer } from '../../../control-plane/provisioning/certificates.ts'

export interface TestIssuer extends CertificateIssuer {
  /** Serials in the order of their issue, and those of them that were discarded. */
  readonly issued: string[]
  readonly discarded: string[]
  /** The certificate from 1 on at which issuing fails, of those that follow. */
  failAt(nth: number): void
}

export const pem = (kind: string, of: string): string => `-----BEGIN ${kind}-----\n${of}\n-----END ${kind}-----\n`

export async function openTestIssuer(database: Database): Promise<TestIssuer> {
  await database.execute('CREATE TABLE IF NOT EXISTS test_certificates (serial text, thing uuid)')
  const [issued, discarded]: [string[], string[]] = [[], []]
  let left = Number.POSITIVE_INFINITY
  return {
    issued,
    discarded,
    failAt: nth => void (left = nth),
    async issue(write, thing, { keyType }) {
      if (--left === 0) throw new Error('the authority is away')
      const serial = randomBytes(8).toString('hex')
      await write.query('INSERT INTO test_certificates (serial, thing) VALUES ($1, $2)', [serial, thing])
      issued.push(serial)
      const [clientCert, clientKey, caCert] = [pem('CERTIFICATE', thing), pem('PRIVATE KEY', serial), pem('CERTIFICATE', 'the authority')]
      const record = { ThingID: thing, ClientCert: clientCert, ClientKey: clientKey, PrivateKeyType: keyType, Serial: serial }
      return { serial, clientCert, clientKey, caCert, record }
    },
    discard: async serials => void discarded.push(...serials),
  }
}
