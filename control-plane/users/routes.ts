// POST /users: registration (SPEC §4, §5).

import { clientAddressOf, networkOf } from '../../config/http/client-address.ts'
import { HttpError } from '../../config/http/errors.ts'
import type { HttpServer } from '../../config/http/server.ts'
import type { Logger } from '../../config/logger.ts'
import { type Authentication, optionalCallerOf } from '../authentication.ts'
import type { Authorization } from '../authorization.ts'
import type { UserId } from '../ids.ts'
import { checkNewCredentials, normaliseEmail } from './credentials.ts'
import type { PasswordQueue } from './password-queue.ts'
import { createUserSchema, credentialsBytesMax } from './schema.ts'
import type { Users } from './store.ts'

interface Parts {
  readonly users: Users
  readonly passwordQueue: PasswordQueue
  readonly authentication: Authentication
  readonly authorization: Authorization
  /** False closes self-registration, whatever the policies say. */
  readonly allowSelfRegister: boolean
  readonly logger: Logger
}

export function userRoutes(
  app: HttpServer,
  { users, passwordQueue, authentication, authorization, allowSelfRegister, logger }: Parts,
): void {
  const mayRegister = async (caller: UserId | '*'): Promise<boolean> =>
    allowSelfRegister && (await authorization.allows(caller, 'create', 'users'))
  const onRequest = authentication.optional(() => mayRegister('*'))

  app.post('/users', { schema: createUserSchema, bodyLimit: credentialsBytesMax, onRequest }, async (request, reply) => {
    checkNewCredentials(request.body)
    const caller = optionalCallerOf(request)
    const allowed = caller === undefined || (await mayRegister(caller)) || (await authorization.isAdministrator(caller))
    if (!allowed) throw new HttpError('forbidden')
    const requester = { account: normaliseEmail(request.body.email), address: networkOf(clientAddressOf(request)) }
    const user = await passwordQueue.run(requester, () => users.register(request.body, 'user'))
    // The server's own logger keeps silent below warn.
    logger.info({ user, request_id: request.id }, 'user registered')
    return reply.code(201).header('location', `/users/${user}`).send()
  })
}
