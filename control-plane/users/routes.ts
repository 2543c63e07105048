// Users: registration (SPEC §4, §5), profiles and passwords, and the administrator's routes.

import type { FastifyRequest } from 'fastify'
import type { Logger } from '../../config/logger.ts'
import { HttpError } from '../../http/errors.ts'
import { clientAddressOf, networkOf } from '../../http/requests/client-address.ts'
import type { HttpServer } from '../../http/server.ts'
import { type Authentication, actorOf, callerOf, changerOf, demandToken, optionalCallerOf } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { checkMetadata, parseMetadataFilter } from '../entity.ts'
import { toUserId, type UserId } from '../ids.ts'
import type { FairQueue } from '../outside/fair-queue.ts'
import { takeAnyType } from '../requests/any-type.ts'
import { searcherOf } from '../requests/page.ts'
import { checkNewCredentials, checkNewPassword, normaliseEmail } from './credentials.ts'
import type { Registrations } from './registrations.ts'
import {
  boundUserSchema,
  changePasswordSchema,
  createUserSchema,
  credentialsBytesMax,
  disableUserSchema,
  listUsersSchema,
  registrationBytesMax,
  resetPasswordSchema,
  updateUserSchema,
  viewProfileSchema,
  viewUserSchema,
} from './schema.ts'
import type { SignIn } from './sign-in.ts'
import type { User, Users } from './store.ts'

interface Parts {
  readonly users: Users
  readonly signIn: SignIn
  readonly passwordQueue: FairQueue
  readonly registrations: Registrations
  readonly authentication: Authentication
  readonly authorization: Authorization
  /** False closes self-registration, whatever the policies say. */
  readonly allowSelfRegister: boolean
  /** Asked at each registration. */
  readonly boundSelfRegistered: () => boolean
  readonly logger: Logger
}

export function userRoutes(
  app: HttpServer,
  { users, signIn, passwordQueue, registrations, authentication, authorization, allowSelfRegister, boundSelfRegistered, logger }: Parts,
): void {
  const mayRegister = async (caller: UserId | '*'): Promise<boolean> =>
    allowSelfRegister && (await authorization.allows(caller, 'create', 'users'))
  const onRequest = authentication.optional(() => mayRegister('*'))

  app.post('/users', { schema: createUserSchema, bodyLimit: registrationBytesMax, onRequest }, async (request, reply) => {
    checkNewCredentials(request.body)
    checkMetadata(request.body.metadata, '/body/metadata')
    const caller = optionalCallerOf(request)
    const isAdministrator = caller !== undefined && (await authorization.isAdministrator(caller))
    if (caller !== undefined && !isAdministrator && !(await mayRegister(caller))) throw new HttpError('forbidden')
    const address = clientAddressOf(request)
    const requester = { account: normaliseEmail(request.body.email), address: networkOf(address) }
    const role = !isAdministrator && boundSelfRegistered() ? 'bounded' : 'user'
    const user = await passwordQueue.run(requester, async () => {
      // Not before it waited: others of its network may have registered meanwhile.
      if (!isAdministrator) await registrations.demand(address)
      const registered = await users.register(actorOf(request), request.body, role)
      if (!isAdministrator) await registrations.note(address)
      return registered
    })
    // The server's own logger is silent below warn.
    logger.info({ user, request_id: request.id }, 'user registered')
    return reply.code(201).header('location', `/users/${user}`).send()
  })

  /** Users are never deleted, so the caller always exists. */
  const callerUser = async (request: FastifyRequest): Promise<User> => (await users.find(callerOf(request)))!
  const required = authentication.required
  const refusal = (caller: UserId, user: UserId): Promise<HttpError> =>
    authorization.refusal(caller, async () => (await users.find(user)) !== undefined)
  const logChange = (request: FastifyRequest, user: UserId, what: string): void =>
    logger.info({ user, by: callerOf(request), request_id: request.id }, what)

  app.get('/users', { schema: listUsersSchema, onRequest: required }, async (request, reply) => {
    const own = await callerUser(request)
    const { offset, limit, email, metadata } = request.query
    const filter = { email, metadata: parseMetadataFilter(metadata) }
    const { total, items } = (await authorization.isAdministrator(own.id))
      ? await users.list(filter, { offset, limit }, searcherOf(own.id, reply))
      : { total: 1, items: offset === 0 ? [own] : [] }
    return reply.send({ ...own, total, offset, limit, users: [...items] })
  })

  app.get('/users/profile', { schema: viewProfileSchema, onRequest: required }, async (request, reply) =>
    reply.send(await callerUser(request)),
  )

  app.get('/users/:user', { schema: viewUserSchema, onRequest: required }, async (request, reply) => {
    const id = toUserId(request.params.user)
    const caller = callerOf(request)
    const found = id === caller || (await authorization.isAdministrator(caller)) ? await users.find(id) : undefined
    if (found === undefined) throw await refusal(caller, id)
    return reply.send(found)
  })

  takeAnyType(app, scope => {
    scope.put('/users', { schema: updateUserSchema, onRequest: required }, async (request, reply) => {
      checkMetadata(request.body.metadata, '/body/metadata')
      await users.setMetadata(changerOf(request), request.body.metadata)
      return reply.send()
    })
  })

  app.patch('/password', { schema: changePasswordSchema, bodyLimit: credentialsBytesMax, onRequest: required }, async (request, reply) => {
    demandToken(request)
    const { old_password: oldPassword, password } = request.body
    checkNewPassword(password)
    const { id, email } = await callerUser(request)
    const recognised = await signIn({ email, password: oldPassword }, clientAddressOf(request))
    const requester = { account: email, address: networkOf(clientAddressOf(request)) }
    const revokesKeys = request.query.revoke_keys
    const change = (ifVersion: number): Promise<boolean> =>
      users.changePassword(changerOf(request), id, password, { ifVersion, revokesKeys })
    // Fails if another password was set since the old one was checked.
    if (recognised === undefined || !(await passwordQueue.run(requester, () => change(recognised.tokenVersion))))
      throw new HttpError('unauthenticated', 'the old password is wrong')
    logChange(request, id, 'password changed')
    return reply.code(201).send({})
  })

  app.put(
    '/users/:user/password',
    { schema: resetPasswordSchema, bodyLimit: credentialsBytesMax, onRequest: required },
    async (request, reply) => {
      const id = toUserId(request.params.user)
      const caller = callerOf(request)
      checkNewPassword(request.body.password)
      await authorization.demand(caller, 'member', 'authorities')
      demandToken(request)
      const requester = { account: id, address: networkOf(clientAddressOf(request)) }
      const options = { revokesKeys: request.query.revoke_keys }
      if (!(await passwordQueue.run(requester, () => users.changePassword(changerOf(request), id, request.body.password, options))))
        throw await refusal(caller, id)
      logChange(request, id, 'password set by an administrator')
      return reply.code(204).send()
    },
  )

  app.put('/users/:user/disabled', { schema: disableUserSchema, onRequest: required }, async (request, reply) => {
    const id = toUserId(request.params.user)
    const caller = callerOf(request)
    await authorization.demand(caller, 'member', 'authorities')
    if (id === caller) throw new HttpError('conflict', 'you cannot disable yourself: another administrator can')
    if (!(await users.setDisabled(changerOf(request), id, request.body.disabled))) throw await refusal(caller, id)
    logChange(request, id, request.body.disabled ? 'user disabled' : 'user enabled')
    return reply.code(204).send()
  })

  app.put('/users/:user/bounded', { schema: boundUserSchema, onRequest: required }, async (request, reply) => {
    const id = toUserId(request.params.user)
    const caller = callerOf(request)
    await authorization.demand(caller, 'member', 'authorities')
    if (!(await users.setBounded(changerOf(request), id, request.body.bounded))) throw await refusal(caller, id)
    logChange(request, id, request.body.bounded ? 'bounds of a user set' : 'bounds of a user lifted')
    return reply.code(204).send()
  })
}
