// Keeps the CRL of an authority elsewhere, because anyone may ask for it and it may have megabytes.

import type { Queries } from '../../../database/database.ts'
import { HttpError } from '../../../http/errors.ts'
import { type Authority, authorityAway } from './authority.ts'
import { nextUpdateOf } from './crl.ts'

/** For revocations at the authority that this platform did not ask for. */
const keptMs = 60_000

/**
 * The same authority, asked for its CRL only if an instance has sent it a revocation since; or if the CRL is a minute old, or not valid any more.
 *
 * Bytes that are not a CRL are not handed on: servers that load it would refuse every device.
 *
 * @param database of all instances
 */
export function keepingCrl(authority: Authority, database: Queries): Authority {
  let kept: { readonly revision: bigint; readonly endsMs: number; readonly crl: Buffer } | undefined
  return {
    ...authority,

    async crl() {
      // Read before the CRL, so that the next call asks again after a revocation in between.
      const [row] = await database.query<{ revision: bigint }>('SELECT revision FROM control_plane.crl_revision')
      const { revision } = row!
      if (kept?.revision === revision && Date.now() < kept.endsMs) return kept.crl
      const askedMs = Date.now()
      const crl = await authority.crl()
      const nextUpdateMs = nextUpdateOf(crl)
      if (nextUpdateMs === 0) {
        const cause = new Error(`${authority.name} answered ${crl.length} bytes, which are not a CRL with the time of its next update`)
        throw new HttpError('unavailable', authorityAway, { cause })
      }
      kept = { revision, endsMs: Math.min(askedMs + keptMs, nextUpdateMs), crl }
      return crl
    },
  }
}
