// Asks the authority to sign certificates, and checks what it signed.

import { X509Certificate } from 'node:crypto'
import { HttpError } from '../../http/errors.ts'
import type { ThingId } from '../ids.ts'
import type { Caller } from '../writes.ts'
import { type Authority, authorityAway } from './authorities/authority.ts'
import type { Csr, NewCsrs, NewKey } from './csr.ts'
import { differenceOf, type IssuedCertificate, readSigned } from './record.ts'

export interface IssueRequest {
  readonly thing: ThingId
  /** A checked request, or the kind of a new key. */
  readonly key: Csr | NewKey
  readonly ttlSeconds: number
}

/** @throws HttpError of the authority and of the queue for keys */
export type Sign = (by: Caller, request: IssueRequest) => Promise<Signed>

interface Signed {
  readonly certificate: IssuedCertificate
  /** `unavailable`: the certificate differs from the request, so it must be revoked and not handed out. */
  readonly fault: HttpError | undefined
}

export function openSigning(authority: Pick<Authority, 'name' | 'sign'>, newCsrs: NewCsrs): Sign {
  return async (by, { thing, key, ttlSeconds }) => {
    const csr = 'csr' in key ? key : await newCsrs.make(by, thing, key)
    const signed = await authority.sign({ thing, csr: csr.csr, publicKey: csr.publicKey, ttlSeconds })
    const parsed = parse(signed.certificate)
    const certificate = readSigned(signed, parsed, thing, csr)
    const difference = differenceOf(parsed, thing, csr)
    if (difference === undefined) return { certificate, fault: undefined }
    const cause = new Error(`${authority.name} signed certificate ${certificate.serial}, which is not what it was asked for: ${difference}`)
    const detail = 'the certificate authority signed something other than the request: send a CSR without subject and extensions, or none'
    return { certificate, fault: new HttpError('unavailable', detail, { cause }) }
  }
}

/** @throws HttpError `unavailable` */
function parse(certificate: string): X509Certificate {
  try {
    return new X509Certificate(certificate)
  } catch (cause) {
    throw new HttpError('unavailable', authorityAway, { cause })
  }
}
