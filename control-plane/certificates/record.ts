// A certificate as it is stored and answered, and how it differs from the request to the authority.

import type { X509Certificate } from 'node:crypto'
import type { ThingId } from '../ids.ts'
import type { SignedCertificate } from './authorities/authority.ts'
import type { Csr, KeyType } from './csr.ts'

export interface IssuedCertificate extends SignedCertificate {
  readonly thing: ThingId
  /** Lower-case hex. */
  readonly serial: string
  readonly expiresAt: Date
  readonly keyType: KeyType
  /** PKCS #8 as PEM, if the key was made here: answered this once, and not stored. */
  readonly privateKey?: string
}

/** @param parsed the certificate that was signed */
export function readSigned(
  signed: SignedCertificate,
  parsed: X509Certificate,
  thing: ThingId,
  { keyType, privateKey }: Csr,
): IssuedCertificate {
  const secret = privateKey === undefined ? {} : { privateKey }
  return { ...signed, thing, serial: parsed.serialNumber.toLowerCase(), expiresAt: parsed.validToDate, keyType, ...secret }
}

/** How a certificate differs from the request; undefined if it does not. */
export function differenceOf(
  { subject, subjectAltName, ca, publicKey: key }: X509Certificate,
  thing: ThingId,
  { publicKey }: Csr,
): string | undefined {
  if (subject !== `CN=${thing}`) return `its subject is ${subject} and not CN=${thing}`
  if (subjectAltName !== undefined && subjectAltName !== `DNS:${thing}`) return `it has the alternative names ${subjectAltName}`
  if (ca) return 'it is a certificate of an authority'
  return key.export({ format: 'der', type: 'spki' }).equals(publicKey) ? undefined : 'it is for another key'
}

/** RFC 3339, in seconds. */
export const timestampOf = (date: Date): string => date.toISOString().replace('.000Z', 'Z')

/** The record (SPEC §2), and the same values under the names of older clients. */
export function recordOf(issued: IssuedCertificate) {
  const { thing, certificate, issuingCa, caChain, privateKey, keyType, serial } = issued
  const chain = caChain === null ? null : [...caChain]
  const expire = timestampOf(issued.expiresAt)
  return {
    ThingID: thing,
    ClientCert: certificate,
    IssuingCA: issuingCa,
    CAChain: chain,
    ...(privateKey === undefined ? {} : { ClientKey: privateKey, client_key: privateKey }),
    PrivateKeyType: keyType,
    Serial: serial,
    Expire: expire,
    thing_id: thing,
    cert: certificate,
    client_cert: certificate,
    issuing_ca: issuingCa,
    ca_chain: chain,
    cert_serial: serial,
    expiration: expire,
  }
}
