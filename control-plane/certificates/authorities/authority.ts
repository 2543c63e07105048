// The contract of a certificate authority: it signs and revokes, in this process or on a server elsewhere.

import { HttpError } from '../../../http/errors.ts'
import type { ThingId } from '../../ids.ts'

/**
 * Signs certificates of things, and revokes them.
 *
 * The caller has checked the signature and the key of every request, and stores what was signed. It calls none of these in a transaction.
 */
export interface Authority {
  /** Stored with each certificate, so it never changes. */
  readonly name: 'builtin' | 'step-ca' | 'vault'
  /**
   * Reads files and keys of the options, without a request to a server.
   *
   * @throws SecretError for a file or key that cannot be read
   */
  start(): Promise<void>
  /**
   * A certificate for the key: its subject is the common name `thing` alone, it is for TLS clients and is no authority. Other names and extensions of
   * the CSR are not in it. When this throws there is nothing to undo.
   *
   * @throws HttpError `unavailable` without a usable answer in time; `malformed_request` when the authority refuses the request
   */
  sign(request: SigningRequest): Promise<SignedCertificate>
  /**
   * Asks a server to revoke a certificate of this authority, which is revoked in the database; `builtin` has nothing to do. Revoking again is no error.
   *
   * @param serial in lower-case hex
   * @throws HttpError `unavailable` unless it is known to be revoked
   */
  revoke(serial: string): Promise<void>
  /**
   * The current CRL as DER (RFC 5280 §5).
   *
   * @throws HttpError `unavailable`
   */
  crl(): Promise<Buffer>
  /** For an authority that can be lost without a fault of its own. @throws if it is, or will be soon: with what to do */
  readonly check?: () => Promise<void>
  close(): Promise<void>
}

export interface SigningRequest {
  readonly thing: ThingId
  /** SPKI, as DER. */
  readonly publicKey: Buffer
  /** PKCS #10 as PEM, for this key. Made on demand, because it costs a signature, and `builtin` does not need it. */
  readonly csr: () => Promise<string>
  /** Seconds from now; less if the authority's own certificate ends earlier. */
  readonly ttlSeconds: number
}

/** All as PEM. */
export interface SignedCertificate {
  readonly certificate: string
  /** The certificate that signed it. */
  readonly issuingCa: string
  /** From `issuingCa` up to the root; null if `issuingCa` is the root. */
  readonly caChain: readonly string[] | null
}

/** Of a CRL that another server keeps: some two million revoked certificates. */
export const crlBytesMax = 128 * 1024 * 1024

/** The detail of a 503 when an authority elsewhere gives no usable answer. */
export const authorityAway = 'the certificate authority is not available: try again'

/** For a request whose lifetime, kind of key or CSR names the authority does not allow. */
export function authorityRefusal(reason: string): HttpError {
  return new HttpError('malformed_request', `the certificate authority refuses the request: ${reason.slice(0, reasonLengthMax)}`)
}

const reasonLengthMax = 300
