// The routes for the other processes: whether a credential may do something, and the changes since.

import { hash, timingSafeEqual } from 'node:crypto'
import type { ServerResponse } from 'node:http'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { Type } from 'typebox'
import { splitSecrets } from '../../config/secrets.ts'
import { HttpError } from '../../http/errors.ts'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import type { HttpServer } from '../../http/server.ts'
import { type Access, type AccessControl, AccessUnavailableError, parseCredential } from '../client.ts'
import type { Feed, Follower } from './feed.ts'
import {
  type Answer,
  accessRequestSchema,
  answerSchema,
  authorizePath,
  changesPath,
  channelsSchema,
  deletedChannelsPath,
  type Line,
  streamType,
} from './wire.ts'

export interface InternalParts {
  readonly access: AccessControl
  readonly feed: Feed
  /** Required of every request, any one of several separated by commas; undefined if the address, or TLS, decides who can connect. */
  readonly token: string | undefined
}

/** A request with a secret of 16,384 characters and a channel of 1,024, of three bytes each, and its frame. */
const requestBytesMax = 64 * 1024
/**
 * Bytes that may wait for one follower: a burst of 4,000 changes, in addition to the system's own buffers. A follower that falls behind further is cut off.
 */
const waitingBytesMax = 512 * 1024
/** With `waitingBytesMax` for each, 64 MiB. */
const followersMax = 128

/** A fastify plugin, for a separate listener, since nothing here is for devices or users. */
export function internalRoutes({ access, feed, token }: InternalParts): (app: HttpServer) => Promise<void> {
  const onRequest = requireServiceToken(token)
  const described = { tags: ['internal'], security: [{ service: [] }] }
  let followers = 0

  return async app => {
    // When the platform stops, followers would keep the server open; they can follow another instance.
    app.addHook('preClose', () => feed.close())

    app.post(authorizePath, {
      onRequest,
      bodyLimit: requestBytesMax,
      schema: {
        ...described,
        summary: 'Check whether a credential may act on a channel',
        body: accessRequestSchema,
        response: { 200: answerSchema, ...errorAnswers(...bodyCodes, 'unauthenticated') },
      },
      handler: async (request, reply) => {
        const { scheme, secret, channel, action, address } = request.body
        reply.header('cache-control', 'no-store')
        return answerOf(
          await orUnavailable(() =>
            access.authorize({ credential: { scheme, secret }, channel, action, ...(address === undefined ? {} : { address }) }),
          ),
        )
      },
    })

    app.post(deletedChannelsPath, {
      onRequest,
      bodyLimit: requestBytesMax,
      schema: {
        ...described,
        summary: 'Find out which channels were deleted',
        body: channelsSchema,
        response: { 200: channelsSchema, ...errorAnswers(...bodyCodes, 'unauthenticated') },
      },
      handler: async request => ({ channels: await orUnavailable(() => access.deletedChannels(request.body.channels)) }),
    })

    app.get(changesPath, {
      exposeHeadRoute: false,
      onRequest,
      schema: {
        ...described,
        summary: 'Follow the changes that may end an access',
        description: 'An endless stream with one JSON object per line: numbered changes, and a heartbeat every second.',
        produces: [streamType],
        response: { 200: Type.String(), ...errorAnswers('unauthenticated') },
      },
      handler: async (_request, reply) => {
        if (followers >= followersMax)
          throw new HttpError('unavailable', `${followersMax} processes already follow the changes: stop some of them`)
        const response = reply.raw
        const following = feed.follow(followerOf(response))
        if (following === undefined) throw new HttpError('unavailable', 'changes are unavailable: retry')
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

/** Writes lines as they come. A slow client is not waited for: with more waiting than the bound, its connection is closed. */
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
async function orUnavailable<Answered>(work: () => Promise<Answered>): Promise<Answered> {
  try {
    return await work()
  } catch (error) {
    if (error instanceof AccessUnavailableError) throw new HttpError('unavailable', undefined, { cause: error })
    throw error
  }
}

function answerOf(access: Access): Answer {
  if (!access.allowed && access.reason === 'limited') return { allowed: false, reason: 'limited', left_ms: Math.ceil(access.leftMs) }
  if (!access.allowed && access.reason === 'unauthenticated') return { allowed: false, reason: 'unauthenticated' }
  const { isBounded, endsMs, ...answer } = access
  return {
    ...answer,
    ...(isBounded === undefined ? {} : { bounded: isBounded }),
    ...(endsMs === undefined ? {} : { ends_in_ms: Math.floor(endsMs - Date.now()) }),
  }
}

/**
 * An `onRequest` hook: 401 without a token, before a body is read; in the header `Authorization: Bearer <token>`.
 *
 * @param tokens separated by commas, of which any is accepted; undefined accepts every request: the address, or TLS, has decided who can connect
 */
function requireServiceToken(tokens: string | undefined): (request: FastifyRequest, reply: FastifyReply) => Promise<void> {
  if (tokens === undefined) return async () => undefined
  const expected = splitSecrets(tokens).map(digest)
  return async (request, reply) => {
    const credential = parseCredential(request.headers.authorization)
    // Digests have one length, so that the comparison does not even reveal the token's length. All are compared, whichever matches.
    const sentDigest = digest(credential?.secret ?? '')
    const matches = expected.filter(one => timingSafeEqual(sentDigest, one)).length > 0
    if (matches && credential?.scheme === 'Bearer') return
    reply.header('www-authenticate', 'Bearer realm="sluice internal"')
    throw new HttpError('unauthenticated', 'wrong service token: set SVC_CONTROL_TOKEN to the same value on both sides')
  }
}

function digest(text: string): Buffer {
  return hash('sha256', text, 'buffer')
}
