// The key under which readers sign their cursors: one for all readers of a platform, so that each takes up what another began.

import { randomBytes, scryptSync } from 'node:crypto'
import { Type } from 'typebox'
import { splitSecrets } from '../config/secrets.ts'

const keyBytes = 32

/** A key of the readers' own. The master key of the control plane is none of theirs. */
export const cursorKeyOption = Type.Optional(
  Type.String({
    pattern: '^[A-Za-z0-9_-]{43}$',
    secret: true,
    allowed: '32 random bytes as 43 characters of base64url',
    description:
      'The key that cursors are signed under, the same for every reader. Without one it is made of control.token, of several the first.',
  }),
)

export interface CursorKey {
  /** 32 bytes. */
  readonly key: Uint8Array
  /** False for one that no other process has, and this one not after its next start. */
  readonly isShared: boolean
}

/**
 * The key that is given; else one made of the token that readers show to the control plane, of several the first; else one of this process alone.
 *
 * Whoever reads messages holds cursors, and so can try out tokens against them: scrypt makes each try as dear as this one (32 MiB and a
 * tenth of a second), which a token that somebody thought up needs, and a random one does not.
 */
export function cursorKeyOf({ cursorKey, token }: { cursorKey?: string | undefined; token?: string | undefined }): CursorKey {
  if (cursorKey !== undefined) return { key: Buffer.from(cursorKey, 'base64url'), isShared: true }
  if (token === undefined) return { key: randomBytes(keyBytes), isShared: false }
  // The salt and the costs are part of every cursor that is out there.
  const costs = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 }
  return { key: scryptSync(splitSecrets(token)[0]!, 'sluice cursors', keyBytes, costs), isShared: true }
}
