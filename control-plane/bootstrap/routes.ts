// Bootstrap: what devices fetch with their external key, and how owners manage it (SPEC §4, Bootstrap service).

import { hash } from 'node:crypto'
import type { FastifyReply, FastifyRequest } from 'fastify'
import { type Fault, HttpError } from '../../http/errors.ts'
import { isAmong } from '../../http/requests/if-none-match.ts'
import type { HttpServer } from '../../http/server.ts'
import { type Authentication, actorOf, callerOf, changerOf } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { checkCsr } from '../certificates/csr.ts'
import type { CertificatesOptions } from '../certificates/options.ts'
import { recordOf } from '../certificates/record.ts'
import { readTtl } from '../certificates/request.ts'
import type { Connections } from '../connections/store.ts'
import { nameBytesMax } from '../entity.ts'
import { type ChannelId, type ThingId, toChannelId, toThingId } from '../ids.ts'
import { unstored } from '../requests/answers.ts'
import { refuseFaults, textFault } from '../requests/text.ts'
import type { Things } from '../things/store.ts'
import { eTagOf, expectedVersions, writtenOrThrow } from '../versions.ts'
import type {
  BootstrapConfig,
  BootstrapConfigFields,
  BootstrapConfigs,
  BootstrapConfigUpdate,
  FetchedBootstrapConfig,
} from './bootstrap-configs.ts'
import type { ExternalKeys, FailedFetches } from './external-keys.ts'
import {
  acknowledgeSchema,
  certifySchema,
  contentBytesMax,
  createBootstrapConfigSchema,
  fetchBootstrapConfigSchema,
  listBootstrapConfigsSchema,
  removeBootstrapConfigSchema,
  updateBootstrapConfigSchema,
  updateCertificatesSchema,
  updateConnectionsSchema,
  updateStateSchema,
  viewBootstrapConfigSchema,
} from './schema.ts'

const challenge = 'Thing realm="sluice"'
const bootstrapConfigDecorator = 'bootstrapConfig'
/** Longer than any request with a CSR. */
const csrBodyLimit = 32_768

interface Parts {
  readonly bootstrapConfigs: BootstrapConfigs
  readonly things: Pick<Things, 'exists'>
  readonly connections: Pick<Connections, 'exist'>
  readonly externalKeys: ExternalKeys
  readonly failedFetches: FailedFetches
  /** How long certificates are valid. */
  readonly certificates: Pick<CertificatesOptions, 'ttlHours' | 'ttlHoursMax'>
  readonly authentication: Authentication
  readonly authorization: Authorization
  /** External keys are also accepted as Bearer and without a scheme. */
  readonly isCompatible: boolean
}

export function bootstrapRoutes(app: HttpServer, parts: Parts): void {
  ownerRoutes(app, parts)
  deviceRoutes(app, parts)
}

function ownerRoutes(app: HttpServer, parts: Parts): void {
  const { bootstrapConfigs, things, connections, externalKeys, failedFetches, authentication, authorization } = parts
  const onRequest = authentication.required

  /** @returns the new version; throws HttpError if nothing was changed */
  async function update(request: FastifyRequest, thing: ThingId, fields: BootstrapConfigUpdate): Promise<string> {
    const outcome = await bootstrapConfigs.update(changerOf(request), thing, fields, expectedVersions(request))
    const refused = () => refusal(request, thing, fields.channels)
    if (outcome === 'not-owned') throw await refused()
    return eTagOf((await writtenOrThrow(outcome, refused)).version)
  }
  const refusal = (request: FastifyRequest, thing: ThingId, channels: readonly ChannelId[] = []): Promise<HttpError> =>
    authorization.refusal(callerOf(request), async () => (await bootstrapConfigs.exists(thing)) && connections.exist(channels, []))

  app.post('/things/configs', { schema: createBootstrapConfigSchema, onRequest }, async (request, reply) => {
    const { external_id: externalId, external_key: externalKey, thing_id: requestedThing, channels = [] } = request.body
    externalKeys.check({ externalId, externalKey })
    const fields = fieldsOf(request.body)
    const [thing, channelIds] = [requestedThing === undefined ? undefined : toThingId(requestedThing), channels.map(toChannelId)]
    if (thing === undefined) await authorization.demand(callerOf(request), 'member', 'users')
    failedFetches.refuseLimited(request, externalId)
    const created = await bootstrapConfigs
      .create(changerOf(request), { externalId, externalKey, thing, channels: channelIds, ...fields })
      .catch(async (error: unknown) => Promise.reject(await failedFetches.conflict(request, externalId, error)))
    if (created === 'not-owned') {
      const exist = async () => (thing === undefined || (await things.exists(thing))) && connections.exist(channelIds, [])
      throw await authorization.refusal(callerOf(request), exist)
    }
    await failedFetches.noteMade(request, externalId)
    return reply.code(201).header('location', `/things/configs/${created}`).send()
  })

  app.get('/things/configs', { schema: listBootstrapConfigsSchema, onRequest }, async (request, reply) => {
    const { offset, limit, state, external_id: externalId, mainflux_id: thing, mainflux_key: key, name } = request.query
    const filter = { state, externalId, thing: thing === undefined ? undefined : toThingId(thing), key, name }
    const { total, items } = await bootstrapConfigs.list(callerOf(request), filter, { offset, limit })
    return reply.headers(unstored).send({ total, offset, limit, configs: items.map(toAnswer) })
  })

  app.get('/things/configs/:thing', { schema: viewBootstrapConfigSchema, onRequest }, async (request, reply) => {
    const thing = toThingId(request.params.thing)
    const found = await bootstrapConfigs.find(callerOf(request), thing)
    if (found === undefined) throw await refusal(request, thing)
    return reply.headers({ ...unstored, etag: eTagOf(found.version) }).send(toAnswer(found.config))
  })

  app.put('/things/configs/:thing', { schema: updateBootstrapConfigSchema, onRequest }, async (request, reply) => {
    const { name, content } = fieldsOf(request.body)
    const fields = { name, content, isEnabled: request.body.enabled }
    return reply.header('etag', await update(request, toThingId(request.params.thing), fields)).send()
  })

  app.patch('/things/configs/certs/:thing', { schema: updateCertificatesSchema, onRequest }, async (request, reply) => {
    return reply.header('etag', await update(request, toThingId(request.params.thing), fieldsOf(request.body))).send()
  })

  app.put('/things/configs/connections/:thing', { schema: updateConnectionsSchema, onRequest }, async (request, reply) => {
    const channels = request.body.channels.map(toChannelId)
    return reply.header('etag', await update(request, toThingId(request.params.thing), { channels })).send()
  })

  app.put('/things/state/:thing', { schema: updateStateSchema, onRequest }, async (request, reply) => {
    const state = request.body.state === 1 ? 1 : 0
    return reply.header('etag', await update(request, toThingId(request.params.thing), { state })).send()
  })

  app.delete('/things/configs/:thing', { schema: removeBootstrapConfigSchema, onRequest }, async (request, reply) => {
    const thing = toThingId(request.params.thing)
    await writtenOrThrow(await bootstrapConfigs.remove(changerOf(request), thing, expectedVersions(request)), () => refusal(request, thing))
    return reply.code(204).send()
  })
}

function deviceRoutes(app: HttpServer, { bootstrapConfigs, failedFetches, certificates, isCompatible }: Parts): void {
  app.decorateRequest(bootstrapConfigDecorator, null)
  const opened = (request: FastifyRequest): FetchedBootstrapConfig => request.getDecorator(bootstrapConfigDecorator)

  /** An onRequest hook. @throws HttpError the same one for an unknown id and a wrong key */
  async function onRequest(request: FastifyRequest<{ Params: unknown }>, reply: FastifyReply): Promise<void> {
    const { external_id: externalId } = request.params as { external_id: string }
    const externalKey = externalKeyOf(request.headers.authorization ?? '', isCompatible)
    if (externalKey === undefined) {
      reply.header('www-authenticate', challenge)
      throw new HttpError('unauthenticated', 'send the external key as Authorization: Thing <external key>')
    }
    const config = await failedFetches.slowed(request, externalId, () => bootstrapConfigs.open({ externalId, externalKey }))
    if (config === undefined) {
      const detail = 'unknown external id or key: use the key that the device was provisioned with'
      const refusal = await failedFetches.refusal(request, externalId, 'unauthenticated', detail)
      if (refusal.status === 401) reply.header('www-authenticate', challenge)
      throw refusal
    }
    if (!config.isAllowed) throw new HttpError('forbidden', 'the configuration or its owner is disabled')
    request.setDecorator(bootstrapConfigDecorator, config)
  }

  app.get('/things/bootstrap/:external_id', { schema: fetchBootstrapConfigSchema, onRequest }, async (request, reply) => {
    const config = opened(request)
    if (request.method === 'GET') await bootstrapConfigs.noteFetch(config.thing)
    const { content = '{}', clientCert, clientKey, caCert } = config
    const answer = {
      ...thingFields(config),
      content,
      ...(clientCert === undefined ? {} : { client_cert: clientCert }),
      ...(clientKey === undefined ? {} : { client_key: clientKey }),
      ...(caCert === undefined ? {} : { ca_cert: caCert }),
    }
    const text = JSON.stringify(answer)
    const etag = `"${hash('sha256', text, 'base64url')}"`
    reply.headers({ etag, 'cache-control': 'private, no-cache', vary: 'Authorization' })
    if (isAmong(request.headers['if-none-match'], etag)) return reply.code(304).send()
    return reply
      .type('application/json; charset=utf-8')
      .serializer(() => text)
      .send(answer)
  })

  app.post('/things/bootstrap/:external_id/ack', { schema: acknowledgeSchema, onRequest }, async (request, reply) => {
    await bootstrapConfigs.acknowledge(actorOf(request), opened(request).thing)
    return reply.code(204).send()
  })

  app.post('/things/bootstrap/:external_id/csr', { schema: certifySchema, bodyLimit: csrBodyLimit, onRequest }, async (request, reply) => {
    const key = await checkCsr(request.body.csr, '/body/csr')
    const ttlSeconds = readTtl(request.body, certificates)
    const issued = await bootstrapConfigs.certify(actorOf(request), opened(request), { key, ttlSeconds })
    return reply.code(201).headers(unstored).send(recordOf(issued))
  })
}

/** The text after the scheme; older clients send another scheme, or none. Headers carry bytes, and keys are UTF-8. */
function externalKeyOf(header: string, isCompatible: boolean): string | undefined {
  const [, scheme, rest = ''] = /^(?:(thing|bearer) +)?(.+)$/i.exec(header) ?? []
  if (rest === '' || (scheme?.toLowerCase() !== 'thing' && !isCompatible)) return undefined
  return Buffer.from(rest, 'latin1').toString('utf8')
}

function thingFields({ thing, key, channels }: BootstrapConfig) {
  return {
    thing_id: thing,
    thing_key: key,
    channels: channels.map(({ id }) => id),
    channel_details: [...channels],
    mainflux_id: thing,
    mainflux_key: key,
    mainflux_channels: [...channels],
  }
}

function toAnswer(config: BootstrapConfig) {
  const { externalId, name, content, state, isEnabled, fetchedAt } = config
  const optional = { ...(name === '' ? {} : { name }), ...(content === undefined ? {} : { content }) }
  const fetched = fetchedAt === undefined ? {} : { fetched_at: fetchedAt }
  return { ...thingFields(config), external_id: externalId, ...optional, state, enabled: isEnabled, ...fetched }
}

interface FieldsBody {
  readonly name?: string
  readonly content?: string
  readonly client_cert?: string
  readonly client_key?: string
  readonly ca_cert?: string
}

/** @throws HttpError `malformed_request` for fields that are too long, with their place */
function fieldsOf(body: FieldsBody): BootstrapConfigFields {
  const faults = (['name', 'content', 'client_cert', 'client_key', 'ca_cert'] as const).flatMap((field): Fault[] => {
    const detail = textFault(body[field] ?? '', field === 'name' ? nameBytesMax : contentBytesMax)
    return detail === undefined ? [] : [{ pointer: `/body/${field}`, detail }]
  })
  refuseFaults(faults)
  const { name, content, client_cert: clientCert, client_key: clientKey, ca_cert: caCert } = body
  return { name, content, clientCert, clientKey, caCert }
}
