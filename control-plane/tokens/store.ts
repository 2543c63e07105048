// User tokens: signed, short-lived, and tied to the version of the user's password; they are not stored.

import type { webcrypto } from 'node:crypto'
import { errors, type JWTPayload, jwtVerify, SignJWT } from 'jose'
import { isId, toUserId, type UserId } from '../ids.ts'

const algorithm = 'HS256'
const issuer = 'sluice'

export interface TokenClaims {
  readonly user: UserId
  /** The user's `token_version` when the token was issued: if it differs now, the password has changed since. */
  readonly version: number
}

export interface VerifiedToken extends TokenClaims {
  /** When it expires, in milliseconds since 1970. */
  readonly endsMs: number
}

export interface Tokens {
  issue(claims: TokenClaims): Promise<string>
  /** The claims of a token; undefined if it is forged, expired, of another algorithm or not ours. */
  verify(token: string): Promise<VerifiedToken | undefined>
}

/** @param keys of 32 bytes each, only for this purpose: the first signs, and tokens of any of them are valid */
export function openTokens(keys: readonly [Uint8Array, ...Uint8Array[]], { lifetimeSeconds }: { lifetimeSeconds: number }): Tokens {
  // Imported once, because that takes longer than checking a token. The copy has the type that the Web Cryptography API accepts.
  const imported = keys.map(key =>
    crypto.subtle.importKey('raw', new Uint8Array(key), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign', 'verify']),
  )

  /** @throws JOSEError if none of the keys signed it, or its claims are not those of our tokens */
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

/** The decoder of base64url also accepts padding, and letters whose last bits are ignored: one token would have many spellings. */
function hasCanonicalSignature(token: string): boolean {
  const signature = token.slice(token.lastIndexOf('.') + 1)
  return Buffer.from(signature, 'base64url').toString('base64url') === signature
}
