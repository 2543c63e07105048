// What other processes ask the control plane: may this credential do that, and what has changed since.

import type { ServerResponse } from 'node:http'
import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { HttpError } from '../../config/http/errors.ts'
import type { HttpServer } from '../../config/http/server.ts'
import { type Access, type AccessControl, AccessUnavailableError } from '../client.ts'
import type { Feed, Follower } from './feed.ts'
import { requireServiceToken } from './service-token.ts'
import { type Answer, answerSchema, authorizePath, changesPath, type Line, questionSchema, streamType } from './wire.ts'

export interface InternalParts {
  readonly access: AccessControl
  readonly feed: Feed
  /** Required of every request, any of several divided by commas; undefined if the address, or TLS, decides who can ask. */
  readonly token: string | undefined
}

/** A question with a secret of 16,384 characters of three bytes, and its frame. */
const questionBytesMax = 64 * 1024
/**
 * What may wait for one follower: a burst of 4,000 changes, beside what the system's own buffers hold. Who falls behind further is cut off.
 */
const waitingBytesMax = 512 * 1024
/** With what may wait for each, 64 MiB. */
const followersMax = 128

/** A fastify plugin; for a listener of its own, since nothing here is for devices or users. */
export function internalRoutes({ access, feed, token }: InternalParts): (app: HttpServer) => Promise<void> {
  const onRequest = requireServiceToken(token)
  const described = { tags: ['internal'], security: [{ service: [] }] }
  let followers = 0

  return async app => {
    // The platform stops: followers would hold the server open, and have others to go to.
    app.addHook('preClose', () => feed.close())

    app.post(authorizePath, {
      onRequest,
      bodyLimit: questionBytesMax,
      schema: {
        ...described,
        summary: 'May this credential do that on this channel?',
        body: questionSchema,
        response: { 200: answerSchema, ...errorAnswers(...bodyCodes, 'unauthenticated') },
      },
      handler: async (request, reply) => {
        const { scheme, secret, channel, action, address } = request.body
        reply.header('cache-control', 'no-store')
        return answerOf(
          await ask(access, { credential: { scheme, secret }, channel, action, ...(address === undefined ? {} : { address }) }),
        )
      },
    })

    app.get(changesPath, {
      exposeHeadRoute: false,
      onRequest,
      schema: {
        ...described,
        summary: 'Follow the changes that may end an access',
        description: 'One JSON object on each line, for ever: changes with their numbers, and a beat each second.',
        produces: [streamType],
        response: { 200: Type.String(), ...errorAnswers('unauthenticated') },
      },
      handler: async (_request, reply) => {
        if (followers >= followersMax) throw new HttpError('unavailable', `${followersMax} processes follow already: stop some of them`)
        const response = reply.raw
        const following = feed.follow(followerOf(response))
        if (following === undefined) throw new HttpError('unavailable', 'changes cannot be heard now: come again')
        reply.hijack()
        followers++
        response.once('close', () => {
          followers--
          following()
        })
      },
    })
  }
}

/** Writes lines as they come. Nobody waits for a slow reader: with more waiting than the bound its connection is cut. */
function followerOf(response: ServerResponse): Follower {
  return {
    line(line: Line) {
      if (!response.headersSent) response.writeHead(200, { 'content-type': streamType, 'cache-control': 'no-store' })
      if (response.destroyed) return
      if (response.writableLength > waitingBytesMax) response.destroy()
      else response.write(`${JSON.stringify(line)}\n`)
    },
    end: () => void response.end(),
  }
}

/** @throws HttpError `unavailable` */
async function ask(access: AccessControl, question: Parameters<AccessControl['authorize']>[0]): Promise<Access> {
  try {
    return await access.authorize(question)
  } catch (error) {
    if (error instanceof AccessUnavailableError) throw new HttpError('unavailable', undefined, { cause: error })
    throw error
  }
}

function answerOf(access: Access): Answer {
  if (!access.allowed) {
    const { reason } = access
    return reason === 'limited' ? { allowed: false, reason, left_ms: Math.ceil(access.leftMs) } : { allowed: false, reason }
  }
  const { publisher, owner, endsMs } = access
  return { allowed: true, publisher, owner, ...(endsMs === undefined ? {} : { ends_in_ms: Math.floor(endsMs - Date.now()) }) }
}
