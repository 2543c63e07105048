// The certificates of a mapping: the requests to the authority, and the form of the answer.

import { X509Certificate } from 'node:crypto'
import type { KeyType } from '../certificates/csr.ts'
import { type IssuedCertificate, recordOf } from '../certificates/record.ts'
import type { IssueRequest } from '../certificates/signing.ts'
import type { Certificate } from '../certificates/store.ts'
import type { ThingId } from '../ids.ts'
import type { Layout } from './layout.ts'

/** Certificates as they are answered, by thing; all but the records are PEM. */
export interface AnsweredCertificates {
  /** In the form of POST /certs. */
  readonly certificates: Readonly<Record<string, ReturnType<typeof recordOf>>>
  readonly client_cert: Readonly<Record<string, string>>
  readonly client_key?: Readonly<Record<string, string>>
  readonly ca_cert: string
}

/** A certificate with a new key for each thing. */
export function requestsFor(
  things: readonly ThingId[],
  { keyType, rsaBits: bits, ttlSeconds }: Layout['certificate'],
): readonly IssueRequest[] {
  const key = keyType === 'ec' ? ({ type: 'ec' } as const) : ({ type: 'rsa', bits } as const)
  return things.map(thing => ({ thing, key, ttlSeconds }))
}

/**
 * The answer contains private keys only for certificates that were issued just now.
 *
 * @returns undefined if there are no certificates
 */
export function answerOf(issued: readonly IssuedCertificate[]): AnsweredCertificates | undefined {
  const [first] = issued
  if (first === undefined) return undefined
  const byThing = <Value>(of: (certificate: IssuedCertificate) => Value): Record<string, Value> =>
    Object.fromEntries(issued.map(certificate => [certificate.thing, of(certificate)]))
  return {
    certificates: byThing(recordOf),
    client_cert: byThing(({ certificate }) => certificate),
    ...(first.privateKey === undefined ? {} : { client_key: byThing(({ privateKey = '' }) => privateKey) }),
    ca_cert: first.issuingCa,
  }
}

/** What signed the certificates of a mapping. */
export type Issuer = Pick<IssuedCertificate, 'issuingCa' | 'caChain'>

/** The certificates in the answer to a repeated request. Leaves out those that another authority has issued since: their issuer is not stored. */
export function issuedBy(issuer: Issuer, current: readonly Certificate[]): IssuedCertificate[] {
  const authority = new X509Certificate(issuer.issuingCa)
  return current.flatMap(({ thing, serial, certificate }) => {
    const parsed = new X509Certificate(certificate)
    const keyType = parsed.publicKey.asymmetricKeyType as KeyType
    return parsed.checkIssued(authority) ? [{ ...issuer, thing, serial, certificate, keyType, expiresAt: parsed.validToDate }] : []
  })
}
