// User tokens: signed, short-lived, and tied to the version of the user's password; nothing of them is stored.

import type { webcrypto } from 'node:crypto'
import { errors, type JWTPayload, jwtVerify, SignJWT } from 'jose'
import { isId, toUserId, type UserId } from '../ids.ts'

const algorithm = 'HS256'
const issuer = 'sluice'

export interface TokenClaims {
  readonly user: UserId
  /** The user's `token_version` when it was issued: another one now means that the password has changed since. */
  readonly version: number
}

export interface VerifiedToken extends TokenClaims {
  /** When it expires, in milliseconds since 1970. */
  readonly endsMs: number
}

export interface Tokens {
  issue(claims: TokenClaims): Promise<string>
  /** What a token says; undefined for one that is forged, expired, of another algorithm or not ours. */
  verify(token: string): Promise<VerifiedToken | undefined>
}

/** @param keys of 32 bytes each, for this purpose alone: the first signs, and what any of them signed is good */
export function openTokens(keys: readonly [Uint8Array, ...Uint8Array[]], { lifetimeSeconds }: { lifetimeSeconds: number }): Tokens {
  // Once: it takes longer than to check a token. The copy is of a kind that the Web Cryptography API takes.
  const imported = keys.map(key =>
    crypto.subtle.importKey('raw', new Uint8Array(key), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify']),
  )

  /** @throws JOSEError where none of the keys signed it, or it says something else than ours do */
  async function payloadOf(token: string, [key, ...others]: readonly Promise<webcrypto.CryptoKey>[]): Promise<JWTPayload> {
    try {
      const expected = { algorithms: [algorithm], issuer, typ: 'JWT', requiredClaims: ['sub', 'iat', 'exp'] }
      return (await jwtVerify(token, await key!, expected)).payload
    } catch (error) {
      if (others.length === 0 || !(error instanceof errors.JWSSignatureVerificationFailed)) throw error
      return payloadOf(token, others)
    }
  }

  return {
    async issue({ user, version }) {
      const issuedAt = Math.floor(Date.now() / 1000)
      return new SignJWT({ version })
        .setProtectedHeader({ alg: algorithm, typ: 'JWT' })
        .setIssuer(issuer)
        .setSubject(user)
        .setIssuedAt(issuedAt)
        .setExpirationTime(issuedAt + lifetimeSeconds)
        .sign(await imported[0]!)
    },
    async verify(token) {
      if (!hasCanonicalSignature(token)) return undefined
      try {
        const { sub, version, exp } = await payloadOf(token, imported)
        if (sub === undefined || !isId(sub) || typeof version !== 'number' || exp === undefined) return undefined
        return { user: toUserId(sub), version, endsMs: exp * 1000 }
      } catch (error) {
        if (error instanceof errors.JOSEError) return undefined
        throw error
      }
    },
  }
}

/** The decoder of base64url also takes padding, and letters whose last bits mean nothing: one token would have many spellings. */
function hasCanonicalSignature(token: string): boolean {
  const signature = token.slice(token.lastIndexOf('.') + 1)
  return Buffer.from(signature, 'base64url').toString('base64url') === signature
}
