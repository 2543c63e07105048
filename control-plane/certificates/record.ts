// A certificate as it is kept and answered: what the authority signed, held against what was asked of it.

import { X509Certificate } from 'node:crypto'
import type { ThingId } from '../ids.ts'
import type { SignedCertificate } from './authority.ts'
import type { Csr, KeyType } from './csr.ts'

export interface IssuedCertificate extends SignedCertificate {
  readonly thing: ThingId
  /** Lower-case hex. */
  readonly serial: string
  readonly expiresAt: Date
  readonly keyType: KeyType
  /** PKCS #8 as PEM, where the key was made here: answered this once, and kept nowhere. */
  readonly privateKey?: string
}

export function readSigned(signed: SignedCertificate, thing: ThingId, { keyType, privateKey }: Csr): IssuedCertificate {
  const { serialNumber, validToDate } = new X509Certificate(signed.certificate)
  const secret = privateKey === undefined ? {} : { privateKey }
  return { ...signed, thing, serial: serialNumber.toLowerCase(), expiresAt: validToDate, keyType, ...secret }
}

/** How a certificate differs from what was asked for; undefined for one that is right. */
export function differenceOf({ certificate, thing }: IssuedCertificate, { publicKey }: Csr): string | undefined {
  const { subject, subjectAltName, ca, publicKey: key } = new X509Certificate(certificate)
  if (subject !== `CN=${thing}`) return `its subject is ${subject} and not CN=${thing}`
  if (subjectAltName !== undefined && subjectAltName !== `DNS:${thing}`) return `it has the alternative names ${subjectAltName}`
  if (ca) return 'it is that of an authority'
  return key.export({ format: 'der', type: 'spki' }).equals(publicKey) ? undefined : 'it is for another key'
}

/** RFC 3339, in seconds. */
export const instantOf = (date: Date): string => date.toISOString().replace('.000Z', 'Z')

/** The record (SPEC §2), and the same under the names of older clients. */
export function recordOf(issued: IssuedCertificate) {
  const { thing, certificate, issuingCa, caChain, privateKey, keyType, serial } = issued
  const chain = caChain === null ? null : [...caChain]
  const expire = instantOf(issued.expiresAt)
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
