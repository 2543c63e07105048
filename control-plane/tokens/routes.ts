// POST /tokens: signing in (SPEC §4, §5).

import { HttpError } from '../../http/errors.ts'
import { clientAddressOf } from '../../http/requests/client-address.ts'
import type { HttpServer } from '../../http/server.ts'
import { credentialsBytesMax } from '../users/schema.ts'
import type { SignIn } from '../users/sign-in.ts'
import { createTokenSchema } from './schema.ts'
import type { Tokens } from './store.ts'

interface Parts {
  readonly signIn: SignIn
  readonly tokens: Tokens
}

export function tokenRoutes(app: HttpServer, { signIn, tokens }: Parts): void {
  app.post('/tokens', { schema: createTokenSchema, bodyLimit: credentialsBytesMax }, async (request, reply) => {
    const recognised = await signIn(request.body, clientAddressOf(request))
    // The same answer for an unknown email and a wrong password, after the same time.
    if (recognised === undefined) throw new HttpError('unauthenticated', 'the email or the password is wrong')
    const token = await tokens.issue({ user: recognised.user, version: recognised.tokenVersion })
    return reply.code(201).header('cache-control', 'no-store').send({ token })
  })
}
