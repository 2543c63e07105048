// The contract of a certificate authority: what signs and revokes, be it here or a server elsewhere.

import { HttpError } from '../../config/http/errors.ts'
import type { Queries } from '../../config/postgres/database.ts'
import type { ThingId } from '../ids.ts'

/**
 * Signs certificates of things, and revokes them.
 *
 * The caller has checked the signature and the key of every request. It keeps what was signed, and asks to revoke a certificate of this
 * authority alone, more than once where it cannot know how an attempt ended.
 */
export interface Authority {
  /** What the certificates that it signed are kept under. Never changes. */
  readonly name: 'builtin' | 'step-ca' | 'vault'
  /**
   * Reads files and keys of the options, and asks nothing of a server.
   *
   * @throws SecretError for what cannot be read
   */
  start(): Promise<void>
  /**
   * A certificate for the key of the request: its subject is the common name `thing` alone, it is for clients of TLS, no authority, and
   * nothing else that the request asks for is in it. Nothing is to be undone where this throws.
   *
   * @throws HttpError `unavailable` when there is no answer in time, or none that can be used; `malformed_request` when the authority refuses it
   */
  sign(request: SigningRequest): Promise<SignedCertificate>
  /**
   * Revokes all of these. The authority's CRL names them from the commit of the transaction on, or, where it is a server, from now on.
   * One that is revoked already is no error.
   *
   * @param serials in lower-case hex
   * @throws HttpError `unavailable` when that is not known of all of them
   */
  revoke(serials: readonly string[], transaction: Queries): Promise<void>
  /**
   * The CRL of now: DER (RFC 5280 §5).
   *
   * @throws HttpError `unavailable`
   */
  crl(): Promise<Buffer>
  close(): Promise<void>
}

export interface SigningRequest {
  readonly thing: ThingId
  /** PKCS #10, as PEM. */
  readonly csr: string
  /** The one in the CSR: SPKI, as DER. */
  readonly publicKey: Buffer
  /** Seconds from now, at most; an authority that ends earlier signs until its own end. */
  readonly ttlSeconds: number
}

/** All as PEM. */
export interface SignedCertificate {
  readonly certificate: string
  /** The certificate of what signed it. */
  readonly issuingCa: string
  /** What stands above the certificate, from `issuingCa` upwards; null where that is a root. */
  readonly caChain: readonly string[] | null
}

/** What a client is answered while an authority elsewhere cannot be asked. */
export const authorityAway = 'the certificate authority cannot be asked: try again'

/** A request that it answers with a reason: the lifetime, the kind of key, or a name in a CSR is not allowed there. */
export function authorityRefusal(reason: string): HttpError {
  return new HttpError('malformed_request', `the certificate authority refuses the request: ${reason.slice(0, reasonLengthMax)}`)
}

const reasonLengthMax = 300
