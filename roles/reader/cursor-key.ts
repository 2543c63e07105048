// The key of readers' cursors and ETags. All readers of a platform share it, so that each accepts those of the others.

import { randomBytes, scryptSync } from 'node:crypto'
import { Type } from 'typebox'
import { splitSecrets } from '../../config/secrets.ts'

const keyBytes = 32

/** A separate key for readers: they must not know the master key of the control plane. */
export const cursorKeyOption = Type.Optional(
  Type.String({
    pattern: '^[A-Za-z0-9_-]{43}$',
    secret: true,
    allowed: 'what `./sluice secrets generate` prints (32 random bytes as base64url)',
    description: 'Key of cursors and ETags; the same for every reader. The default is derived from the first `control.token`.',
  }),
)

export interface CursorKey {
  /** 32 bytes. */
  readonly key: Uint8Array
  /** False for a random key that only this process has, until it restarts. */
  readonly isShared: boolean
}

/**
 * The given key; else one derived from the readers' token for the control plane (the first of several); else a random one of this process.
 * Clients hold cursors, so they could use them to guess the token offline. scrypt makes each guess as expensive as this call (32 MiB and
 * 0.1 s), which protects a token that a person made up; a random one would not need it.
 */
export function cursorKeyOf({ cursorKey, token }: { cursorKey?: string | undefined; token?: string | undefined }): CursorKey {
  if (cursorKey !== undefined) return { key: Buffer.from(cursorKey, 'base64url'), isShared: true }
  if (token === undefined) return { key: randomBytes(keyBytes), isShared: false }
  // Changing the salt or the costs would invalidate all existing cursors.
  const costs = { N: 2 ** 15, r: 8, p: 1, maxmem: 64 * 1024 * 1024 }
  return { key: scryptSync(splitSecrets(token)[0]!, 'sluice cursors', keyBytes, costs), isShared: true }
}
