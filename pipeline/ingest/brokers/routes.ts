// What other MQTT brokers ask over HTTP before they admit a device, so that the keys of things work there too.
//
// EMQX 5 (docs.emqx.com, "Use HTTP Service" of authentication and of authorization) takes any status but 200 and 204 for "ask the next one", and admits
// everyone if none is left: so each of its requests gets 200, and a fault is a denial. mosquitto-go-auth (backends/http.go) takes any status below 300 for a yes.
// Neither sends the password when it asks for a topic: the broker has checked before whose connection it is. So only brokers that are listed are answered.

import { isIP } from 'node:net'
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify'
import type { Logger } from '../../../config/logger.ts'
import { type AccessControl, type AccessRequest, AccessUnavailableError, noChannel } from '../../../control-plane/client.ts'
import { HttpError } from '../../../http/errors.ts'
import { addressOfPeer, clientAddressOf, oneForm, openTrustedProxies } from '../../../http/requests/client-address.ts'
import type { HttpServer } from '../../../http/server.ts'
import { FilterError, parseFilter } from '../../mqtt/subscribe/filter.ts'
import { parseTopic, topicFault } from '../mqtt-topic.ts'
import { SubtopicError } from '../subtopic.ts'
import * as schemas from './schema.ts'

export interface BrokerParts {
  readonly access: AccessControl
  /** `mqtt.brokers`. */
  readonly brokers: readonly string[]
  readonly logger: Pick<Logger, 'debug' | 'warn' | 'error'>
}

/** What a device sent to its broker. */
interface Login {
  readonly username?: string
  readonly password?: string
  /** Its address, as the broker says. */
  readonly peerhost?: string
}

interface Use {
  readonly username?: string
  readonly topic: string
}

/** Longer than any user name, key and topic that is right. */
const bodyLimit = 16_384

export function brokerRoutes({ access, brokers, logger }: BrokerParts): (app: HttpServer) => Promise<void> {
  const isListed = openTrustedProxies(brokers)
  let hasWarned = false

  function isBroker(request: FastifyRequest): boolean {
    const address = clientAddressOf(request)
    const { 'x-forwarded-for': list, forwarded } = request.headers
    // Of a proxy that does not say whose request it is, which may be anyone's.
    const isPassedOn = (list !== undefined || forwarded !== undefined) && address === addressOfPeer(request.raw)
    const isOne = isListed(address) && !isPassedOn
    if (!isOne && !hasWarned) {
      hasWarned = true
      const why = isPassedOn
        ? 'but passes on a request of someone else: see http.trusted_proxies (SVC_HTTP_TRUSTED_PROXIES)'
        : 'but is not in mqtt.brokers (SVC_MQTT_BROKERS)'
      logger.warn({ address }, `${address} asks as an MQTT broker, ${why}: it is refused`)
    }
    return isOne
  }

  /** Whether the password is the key of the thing whose id is the user name. @throws AccessUnavailableError */
  async function mayConnect(request: FastifyRequest, { username = '', password = '', peerhost = '' }: Login): Promise<boolean> {
    if (username === '' || password === '' || !isBroker(request)) return false
    // An unknown key is counted for the device's own address, if the broker says it; no other key is concerned either way.
    const address = isIP(peerhost) === 0 ? clientAddressOf(request) : oneForm(peerhost)
    const credential = { scheme: 'Thing', secret: password } as const
    const answer = await access.authorize({ credential, channel: noChannel, action: 'publish', address })
    return (answer.allowed || answer.reason === 'forbidden') && answer.publisher === username.toLowerCase()
  }

  /** Whether the thing is connected to the channel of the topic, or of the filter. @throws AccessUnavailableError */
  async function mayUse(request: FastifyRequest, { username = '', topic }: Use, what: 'publish' | 'read' | 'filter'): Promise<boolean> {
    const channel = channelOf(topic, what === 'filter')
    if (channel === undefined || !isBroker(request)) return false
    const credential = { scheme: 'ThingId', secret: username.toLowerCase() } as const
    const action: AccessRequest['action'] = what === 'publish' ? 'publish' : 'read'
    return (await access.authorize({ credential, channel, action })).allowed
  }

  function deny(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
    const isKnown = error instanceof HttpError || error instanceof AccessUnavailableError || (error.statusCode ?? 500) < 500
    // Errors of validation have what was sent.
    if (isKnown) logger.debug({ request_id: request.id, reason: error.message }, 'a request of EMQX was answered with a denial')
    else logger.error({ err: error, request_id: request.id }, 'a request of EMQX failed')
    reply.code(200).send({ result: 'deny' })
  }

  return async app => {
    app.addContentTypeParser(schemas.formType, { parseAs: 'string' }, (_request, body, done) => {
      done(null, Object.fromEntries(new URLSearchParams(String(body))))
    })
    const emqxRoute = { bodyLimit, errorHandler: deny }
    const result = (isAllowed: boolean) => ({ result: isAllowed ? ('allow' as const) : ('deny' as const) })
    app.post('/brokers/emqx/authenticate', { ...emqxRoute, schema: schemas.emqxAuthenticate }, async request =>
      result(await mayConnect(request, request.body as Login)),
    )
    app.post('/brokers/emqx/authorize', { ...emqxRoute, schema: schemas.emqxAuthorize }, async request => {
      const { action } = request.body
      return result(await mayUse(request, request.body, action === 'publish' ? 'publish' : 'filter'))
    })
    app.post('/brokers/mosquitto/user', { bodyLimit, schema: schemas.mosquittoUser }, request =>
      consent(mayConnect(request, request.body as Login)),
    )
    app.post('/brokers/mosquitto/superuser', { bodyLimit, schema: schemas.mosquittoSuperuser }, () => consent(Promise.resolve(false)))
    app.post('/brokers/mosquitto/acl', { bodyLimit, schema: schemas.mosquittoAcl }, request => {
      const use = request.body as Use & { readonly acc: number | string }
      const what = accUses[Number(use.acc)]
      return consent(what === undefined ? Promise.resolve(false) : mayUse(request, use, what))
    })
  }
}

/** By `acc` (mosquitto.h, MOSQ_ACL_READ …). Who may publish on a channel may read it. */
const accUses: Readonly<Record<number, 'publish' | 'read' | 'filter'>> = {
  1: 'read',
  2: 'publish',
  3: 'publish',
  4: 'filter',
  8: 'filter',
}

/** @throws HttpError */
async function consent(asked: Promise<boolean>): Promise<{ ok: true }> {
  try {
    if (await asked) return { ok: true }
  } catch (error) {
    if (error instanceof AccessUnavailableError)
      throw new HttpError('unavailable', 'the key cannot be checked now: retry', { cause: error })
    throw error
  }
  throw new HttpError('forbidden')
}

/** @returns undefined for a topic that no thing may use */
function channelOf(topic: string, isFilter: boolean): string | undefined {
  try {
    if (isFilter) return parseFilter(topic).channel
    return topicFault(topic) === undefined ? parseTopic(topic).channel : undefined
  } catch (error) {
    if (error instanceof FilterError || error instanceof SubtopicError || error instanceof HttpError) return undefined
    throw error
  }
}
