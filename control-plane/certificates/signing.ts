// Has certificates signed, and revokes those that are not handed out.

import { HttpError } from '../../config/http/errors.ts'
import type { Logger } from '../../config/logger.ts'
import { factOf } from '../../config/outage.ts'
import type { ThingId } from '../ids.ts'
import type { Caller } from '../writes.ts'
import { type Authority, authorityAway } from './authority.ts'
import type { Csr, NewCsrs, NewKey } from './csr.ts'
import { differenceOf, type IssuedCertificate, readSigned } from './record.ts'

export interface IssueRequest {
  readonly thing: ThingId
  /** For the key of a request that is checked, or for a new one. */
  readonly key: Csr | NewKey
  readonly ttlSeconds: number
}

export interface Signing {
  /** @throws HttpError of the authority, and of the queue for keys; `unavailable` for a certificate that is not what was asked for */
  sign(by: Caller, request: IssueRequest): Promise<IssuedCertificate>
  /** Revokes certificates that are not handed out. Never rejects: what could not be revoked is logged. */
  discard(issued: readonly IssuedCertificate[]): Promise<void>
}

interface Parts {
  readonly authority: Pick<Authority, 'name' | 'sign'>
  readonly newCsrs: NewCsrs
  /** Each revokes them in one place, in this order. */
  readonly revocations: readonly ((serials: readonly string[]) => Promise<unknown>)[]
  readonly logger: Logger
}

export function openSigning({ authority, newCsrs, revocations, logger }: Parts): Signing {
  async function discard(issued: readonly IssuedCertificate[]): Promise<void> {
    if (issued.length === 0) return
    const serials = issued.map(({ serial }) => serial)
    for (const revoke of revocations) {
      try {
        await revoke(serials)
      } catch (error) {
        logger.warn({ serials, reason: factOf(error) }, 'certificates that were not handed out are not revoked everywhere')
        // What the database may keep as valid must not be revoked at the authority alone.
        return
      }
    }
  }

  return {
    async sign(by, { thing, key, ttlSeconds }) {
      const csr = 'csr' in key ? key : await newCsrs.make(by, thing, key)
      const signed = await authority.sign({ thing, csr: csr.csr, publicKey: csr.publicKey, ttlSeconds })
      let issued: IssuedCertificate
      try {
        issued = readSigned(signed, thing, csr)
      } catch (cause) {
        throw new HttpError('unavailable', authorityAway, { cause })
      }
      const difference = differenceOf(issued, csr)
      if (difference === undefined) return issued
      await discard([issued])
      const cause = new Error(`${authority.name} signed certificate ${issued.serial} otherwise than asked: ${difference}`)
      throw new HttpError(
        'unavailable',
        'the certificate authority did not sign what it was asked: send a CSR without subject and extensions, or none',
        { cause },
      )
    },
    discard,
  }
}
