// Routes for administrators only: authenticates and authorizes them, and converts failures to answers.

import type { FastifyRequest } from 'fastify'
import { HttpError } from '../http/errors.ts'
import { errorAnswers } from '../http/openapi/error-schema.ts'
import { clientAddressOf } from '../http/requests/client-address.ts'
import type { HttpServer } from '../http/server.ts'
import { LogUnavailableError } from './log.ts'
import { SystemicError } from './systemic-error.ts'

export interface Administration {
  /** Whether the user of this token is an administrator; undefined for a token that is not valid. */
  readonly isAdministrator: (token: string) => Promise<boolean | undefined>
  /** The user of this token; undefined for an invalid one. */
  readonly userOf: (token: string) => Promise<string | undefined>
  /** Adds a line to the audit log. */
  readonly note: (by: NotedActor, action: NotedAction, objects: readonly string[]) => Promise<void>
  /** True if an error says that the store cannot answer now. */
  readonly isStoreAway: (error: unknown) => boolean
}

/** Who does something, for the audit log. */
export interface NotedActor {
  readonly user: string
  readonly address: string
  /** The id of the request. */
  readonly request: string
}

/** What routes outside the control plane do that the audit log has. */
export type NotedAction =
  | 'dead-letters.replay'
  | 'dead-letters.drop'
  | 'messages.erase'
  | 'user.sign-in-by-code'
  | 'demo.load'
  | 'demo.writer-kill'
  | 'demo.store-cut'
  | 'demo.poison'

export interface AdministratorRoute {
  /** 401 without a valid token. */
  readonly onRequest: (request: FastifyRequest) => Promise<void>
  /** 403 for anyone except an administrator; runs after the shape of the request was checked. */
  readonly demand: (request: FastifyRequest) => Promise<void>
  /** Adds a line to the audit log. Call it before the act, so that none is without its line; if it throws, nothing may be done. */
  readonly note: (request: FastifyRequest, action: NotedAction, objects?: readonly string[]) => Promise<void>
  /** Runs the work of a route; errors that a person can fix, and transient ones, are answered with their message. */
  readonly failures: <Result>(work: () => Promise<Result>) => Promise<Result>
}

/** Of each such route. */
export const administratorSchema = { tags: ['administration'], security: [{ user: [] }] }
export const refusals = errorAnswers('unauthenticated', 'forbidden', 'conflict')

/** The index of the audit log takes no longer texts than 2,700 bytes. */
const notedCharactersMax = 500

const decorator = 'administrator'

/** Call it once in the plugin whose routes use it. */
export function administratorRoute(app: HttpServer, { isAdministrator, userOf, note, isStoreAway }: Administration): AdministratorRoute {
  app.decorateRequest(decorator, null)
  return {
    async onRequest(request) {
      const token = tokenOf(request)
      const is = token === undefined ? undefined : await isAdministrator(token)
      if (is === undefined)
        throw new HttpError('unauthenticated', 'an administrator token is required: send it as Authorization: Bearer <token>')
      request.setDecorator<boolean>(decorator, is)
    },
    async demand(request) {
      if (!request.getDecorator<boolean>(decorator)) throw new HttpError('forbidden')
    },
    async note(request, action, objects = []) {
      const user = await userOf(tokenOf(request)!)
      if (user === undefined) throw new HttpError('unauthenticated')
      const noted = objects.map(object => object.slice(0, notedCharactersMax))
      await note({ user, address: clientAddressOf(request), request: request.id }, action, noted)
    },
    async failures(work) {
      try {
        return await work()
      } catch (error) {
        if (error instanceof SystemicError) throw new HttpError('conflict', error.message, { cause: error })
        if (error instanceof RangeError) throw new HttpError('malformed_request', error.message, { cause: error })
        if (error instanceof LogUnavailableError || isStoreAway(error)) {
          throw new HttpError('unavailable', 'the log or the store is unavailable: retry', { cause: error })
        }
        throw error
      }
    },
  }
}

function tokenOf(request: FastifyRequest): string | undefined {
  return /^bearer +([^\s,]+) *$/i.exec(request.headers.authorization ?? '')?.[1]
}
