// Asks the authority to sign certificates, and revokes those that are not handed out.

import { X509Certificate } from 'node:crypto'
import type { Logger } from '../../config/logger.ts'
import { factOf } from '../../config/outage.ts'
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

export interface Signing {
  /** @throws HttpError of the authority and of the queue for keys; `unavailable` for a certificate that differs from the request */
  sign(by: Caller, request: IssueRequest): Promise<IssuedCertificate>
  /** Revokes certificates that are not handed out to the caller. Never rejects: failures are logged. @param reserved ids of `Bounds.reserve` */
  discard(by: Caller, issued: readonly IssuedCertificate[], reserved?: readonly string[]): Promise<void>
}

interface Parts {
  readonly authority: Pick<Authority, 'name' | 'sign'>
  readonly newCsrs: NewCsrs
  /** Revoke in one place each: in the database, then at the authority. */
  readonly revocations: readonly ((issued: readonly IssuedCertificate[], by: Caller, reserved: readonly string[]) => Promise<unknown>)[]
  readonly logger: Logger
}

export function openSigning({ authority, newCsrs, revocations, logger }: Parts): Signing {
  const discard: Signing['discard'] = async (by, issued, reserved = []) => {
    if (issued.length + reserved.length === 0) return
    for (const revoke of revocations) {
      try {
        await revoke(issued, by, reserved)
      } catch (error) {
        const serials = issued.map(({ serial }) => serial)
        logger.warn({ serials, reason: factOf(error) }, 'certificates that were not handed out could not be revoked everywhere')
        // The authority must not revoke what the database may still call valid.
        return
      }
    }
  }

  return {
    async sign(by, { thing, key, ttlSeconds }) {
      const csr = 'csr' in key ? key : await newCsrs.make(by, thing, key)
      const signed = await authority.sign({ thing, csr: csr.csr, publicKey: csr.publicKey, ttlSeconds })
      const parsed = parse(signed.certificate)
      const issued = readSigned(signed, parsed, thing, csr)
      const difference = differenceOf(parsed, thing, csr)
      if (difference === undefined) return issued
      await discard(by, [issued])
      const cause = new Error(`${authority.name} signed certificate ${issued.serial}, which is not what it was asked for: ${difference}`)
      throw new HttpError(
        'unavailable',
        'the certificate authority signed something other than the request: send a CSR without subject and extensions, or none',
        { cause },
      )
    },
    discard,
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
