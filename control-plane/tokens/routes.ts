// POST /tokens: signing in (SPEC §4, §5).

import type { HttpServer } from '../../config/http/server.ts'
import { challenge } from '../authentication.ts'
import type { Users } from '../users/store.ts'
import { createTokenSchema } from './schema.ts'
import type { Tokens } from './store.ts'

interface Parts {
  readonly users: Users
  readonly tokens: Tokens
}

export function tokenRoutes(app: HttpServer, { users, tokens }: Parts): void {
  app.post('/tokens', { schema: createTokenSchema }, async (request, reply) => {
    const recognised = await users.recognise(request.body)
    // The same answer for an unknown email and a wrong password, after the same time.
    if (recognised === undefined) throw challenge(reply, 'the email or the password is wrong')
    const token = await tokens.issue({ user: recognised.user, version: recognised.tokenVersion })
    return reply.code(201).header('cache-control', 'no-store').send({ token })
  })
}
