// The certificates of a mapping: what is asked of the authority, and how they are answered.

import { type IssuedCertificate, recordOf } from '../certificates/record.ts'
import type { IssueRequest } from '../certificates/signing.ts'
import type { ThingId } from '../ids.ts'
import type { Layout } from './layout.ts'

/** Certificates as they are answered, by thing; all but the records are PEM. */
export interface AnsweredCertificates {
  /** As POST /certs answers them. */
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

/** @returns undefined for none */
export function answerOf(issued: readonly IssuedCertificate[]): AnsweredCertificates | undefined {
  const [first] = issued
  if (first === undefined) return undefined
  const byThing = <Value>(of: (certificate: IssuedCertificate) => Value): Record<string, Value> =>
    Object.fromEntries(issued.map(certificate => [certificate.thing, of(certificate)]))
  return {
    certificates: byThing(recordOf),
    client_cert: byThing(({ certificate }) => certificate),
    client_key: byThing(({ privateKey = '' }) => privateKey),
    ca_cert: first.issuingCa,
  }
}

/** Of these things alone: others are deleted. */
export function certificatesOf(answered: AnsweredCertificates, things: readonly ThingId[]): AnsweredCertificates {
  const left = <Value>(byThing: Readonly<Record<string, Value>>): Record<string, Value> =>
    Object.fromEntries(Object.entries(byThing).filter(([thing]) => things.includes(thing as ThingId)))
  return { ...answered, certificates: left(answered.certificates), client_cert: left(answered.client_cert) }
}

/** As a repeated request is answered: private keys are shown once. */
export function withoutKeys(issued: readonly IssuedCertificate[]): AnsweredCertificates | undefined {
  const answer = answerOf(issued)
  if (answer === undefined) return undefined
  const { client_key: _, certificates, ...shown } = answer
  const records = Object.entries(certificates).map(([thing, { ClientKey: __, client_key: ___, ...record }]) => [thing, record])
  return { ...shown, certificates: Object.fromEntries(records) as AnsweredCertificates['certificates'] }
}
