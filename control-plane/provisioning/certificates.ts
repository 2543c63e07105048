// The certificates of a mapping: who issues them, and how they are answered.

import type { ThingId } from '../ids.ts'
import type { Write } from '../writes.ts'
import type { Layout } from './layout.ts'

/** Issues certificates inside a mapping. */
export interface CertificateIssuer {
  /** One that throws has issued nothing, or sees to it that it is revoked: its serial is not known here. */
  issue(write: Write, thing: ThingId, request: Layout['certificate']): Promise<IssuedCertificate>
  /** After a mapping that did not commit; what the database rolls back is rolled back already. */
  discard(serials: readonly string[]): Promise<void>
}

/** `clientCert`, `clientKey` and `caCert` are PEM; `record` is what POST /certs answers. */
export interface IssuedCertificate {
  readonly serial: string
  readonly clientCert: string
  readonly clientKey: string
  readonly caCert: string
  readonly record: object
}

/** Certificates as they are answered, by thing. */
export interface IssuedCertificates {
  readonly certificates: Readonly<Record<string, object>>
  /** PEM, as the other two. */
  readonly client_cert: Readonly<Record<string, string>>
  readonly client_key?: Readonly<Record<string, string>>
  readonly ca_cert: string
}

/** Of things by id; at least one. */
export function certificatesOf(issued: ReadonlyMap<ThingId, IssuedCertificate>): Required<IssuedCertificates> {
  const byThing = <Value>(of: (certificate: IssuedCertificate) => Value): Record<string, Value> =>
    Object.fromEntries([...issued].map(([thing, certificate]) => [thing, of(certificate)]))
  return {
    certificates: byThing(({ record }) => record),
    client_cert: byThing(({ clientCert }) => clientCert),
    client_key: byThing(({ clientKey }) => clientKey),
    ca_cert: [...issued.values()].at(-1)!.caCert,
  }
}

/** For a repeated request: a private key is shown once. */
export function withoutKeys(issued: Required<IssuedCertificates> | undefined): IssuedCertificates | undefined {
  if (issued === undefined) return undefined
  const { client_key: keys, ...shown } = issued
  const certificates = Object.entries(shown.certificates).map(([thing, record]) => [
    thing,
    Object.fromEntries(Object.entries(record).filter(([, value]) => value !== keys[thing])),
  ])
  return { ...shown, certificates: Object.fromEntries(certificates) as Record<string, object> }
}
