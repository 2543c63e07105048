// Has certificates signed, and takes back those that were handed to no one.

import { HttpError } from '../../config/http/errors.ts'
import type { Logger } from '../../config/logger.ts'
import { factOf } from '../../config/outage.ts'
import type { ThingId } from '../ids.ts'
import type { Caller } from '../writes.ts'
import { type Authority, authorityAway } from './authority.ts'
import type { Csr, NewCsrs, NewKey } from './csr.ts'
import { type IssuedCertificate, readSigned, strangenessOf } from './record.ts'

export interface IssueRequest {
  readonly thing: ThingId
  /** For the key of a request that is checked, or for a new one. */
  readonly key: Csr | NewKey
  readonly ttlSeconds: number
}

export interface Signing {
  /** @throws HttpError of the authority, and of the queue for keys; `unavailable` for a certificate that is not what was asked for */
  sign(by: Caller, request: IssueRequest): Promise<IssuedCertificate>
  /** Revokes certificates that were handed to no one. Never rejects: what could not be revoked is logged. */
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
        logger.warn({ serials, reason: factOf(error) }, 'certificates that were handed to no one are not revoked everywhere')
      }
    }
  }

  return {
    async sign(by, { thing, key, ttlSeconds }) {
      const csr = 'csr' in key ? key : await newCsrs.make(by, thing, key)
      const signed = await authority.sign({ thing, csr: csr.csr, ttlSeconds })
      let issued: IssuedCertificate
      try {
        issued = readSigned(signed, thing, csr)
      } catch (cause) {
        throw new HttpError('unavailable', authorityAway, { cause })
      }
      const strange = strangenessOf(issued, csr)
      if (strange === undefined) return issued
      await discard([issued])
      const cause = new Error(`${authority.name} signed certificate ${issued.serial} otherwise than asked: ${strange}`)
      throw new HttpError('unavailable', 'the certificate authority does not sign what it is asked: see the log', { cause })
    },
    discard,
  }
}
