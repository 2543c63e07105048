// POST /console/sign-in: exchanges the code that the first start of `up` prints for a token of the administrator that it created.

import { hash, randomBytes, timingSafeEqual } from 'node:crypto'
import type { FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { HttpError } from '../http/errors.ts'
import { isLoopback } from '../http/listen-address.ts'
import { bodyCodes, errorAnswers } from '../http/openapi/error-schema.ts'
import { clientAddressOf } from '../http/requests/client-address.ts'
import type { HttpServer } from '../http/server.ts'
import type { Administration } from '../pipeline/administration.ts'

export interface ConsoleSignIn {
  readonly routes: (app: HttpServer) => Promise<void>
  /** Makes the code for this user. It is valid once, for five minutes, and only on this machine. */
  offer(email: string): string
}

export interface ConsoleSignInParts {
  /** A token of the user with this email; undefined if there is none. */
  readonly issueToken: (email: string) => Promise<{ readonly user: string; readonly token: string } | undefined>
  readonly note: Administration['note']
  /** Milliseconds; monotonic. */
  readonly clock?: () => number
}

const codeBytes = 32
const lifetimeMs = 5 * 60 * 1000

/** One answer for a wrong, used or expired code, and for a stranger. */
const refusal =
  'this code is not valid: it works once, within five minutes of the first start, and only on the machine of the server. Sign in with email and password; a generated password is in the file admin-password of the data folder'

export function openConsoleSignIn({ issueToken, note, clock = () => performance.now() }: ConsoleSignInParts): ConsoleSignIn {
  let offered: { readonly digest: Buffer; readonly email: string; readonly endsMs: number } | undefined

  /** The email, once, for the right code, whose 256 bits cannot be guessed. */
  function redeem(code: string): string | undefined {
    if (offered === undefined || clock() >= offered.endsMs || !timingSafeEqual(digestOf(code), offered.digest)) return undefined
    const { email } = offered
    offered = undefined
    return email
  }

  return {
    offer(email) {
      const code = randomBytes(codeBytes).toString('base64url')
      offered = { digest: digestOf(code), email, endsMs: clock() + lifetimeMs }
      return code
    },

    async routes(app) {
      const code = Type.String({ maxLength: 100, examples: ['5oE0cTj1m0o0l0kq3m4w8k6B7x2n9q4h1d5s3f7g0aA'] })
      const token = Type.String({ examples: ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIwZjhhNmU3YyJ9.kHf3v0Yh2b7J5k1XcWq8Zt4Rm6Np9sLd0uEo2aGiBxQ'] })
      const schema = {
        tags: ['console'],
        operationId: 'signInWithCode',
        summary: 'Exchange the code of the first start for a token',
        description:
          'The first start of `./sluice up` on a terminal prints the code. It is valid once, for five minutes, and only from the same machine.',
        security: [],
        body: Type.Object({ code }, { title: 'SignInCode', additionalProperties: false }),
        response: {
          201: Type.Object({ token }, { title: 'Token', description: 'Send it as `Authorization: Bearer <token>`.' }),
          ...errorAnswers(...bodyCodes, 'unauthenticated'),
        },
      }
      app.post('/console/sign-in', { schema }, async (request, reply) => {
        // A stranger does not use up the code.
        const email = isLocal(request) ? redeem(request.body.code) : undefined
        const issued = email === undefined ? undefined : await issueToken(email)
        if (issued === undefined) throw new HttpError('unauthenticated', refusal)
        const { user, token } = issued
        await note({ user, address: clientAddressOf(request), request: request.id }, 'user.sign-in-by-code', [user])
        return reply.code(201).header('cache-control', 'no-store').send({ token })
      })
    },
  }
}

const digestOf = (code: string): Buffer => hash('sha256', code, 'buffer')

const forwardingHeaders = ['forwarded', 'x-forwarded-for', 'x-real-ip', 'via']

/** A proxy on this machine connects from a loopback address, too, and may forward strangers. */
function isLocal(request: FastifyRequest): boolean {
  return !forwardingHeaders.some(name => request.headers[name] !== undefined) && isLoopback(clientAddressOf(request))
}
