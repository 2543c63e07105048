// Provisioning: one request creates everything that a device needs (SPEC §4, Provisioning service).

import type { HttpServer } from '../../http/server.ts'
import { type Authentication, callerOf, changerOf } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { checkExternalId, type ExternalKeys, type FailedFetches } from '../bootstrap/external-keys.ts'
import { nameBytesMax } from '../entity.ts'
import { unstored } from '../requests/answers.ts'
import { refuseFaults, textFault } from '../requests/text.ts'
import type { ConfiguredCaller } from './configured-caller.ts'
import type { ContentTree } from './layout.ts'
import type { Mappings } from './mapping.ts'
import { makeMappingSchema, removeMappingSchema, viewContentSchema } from './schema.ts'
import type { MappingRows } from './store.ts'

interface Parts {
  readonly mappings: Mappings
  readonly rows: Pick<MappingRows, 'exists'>
  readonly content: ContentTree
  readonly externalKeys: ExternalKeys
  readonly failedFetches: FailedFetches
  readonly authentication: Authentication
  readonly authorization: Authorization
  /** The user of requests without Authorization; undefined if no credentials are configured. */
  readonly configuredCaller: ConfiguredCaller | undefined
}

export function provisioningRoutes(app: HttpServer, parts: Parts): void {
  const { mappings, rows, content, externalKeys, failedFetches, authentication, authorization, configuredCaller } = parts
  const onRequest = authentication.requiredOr(configuredCaller)

  app.post('/mapping', { schema: makeMappingSchema, onRequest }, async (request, reply) => {
    const { external_id: externalId, external_key: externalKey, name } = request.body
    externalKeys.check({ externalId, externalKey })
    const fault = textFault(name ?? '', nameBytesMax)
    if (fault !== undefined) refuseFaults([{ pointer: '/body/name', detail: fault }])
    await authorization.demand(callerOf(request), 'member', 'users')
    const refuse = async (error: unknown): Promise<never> => {
      throw await failedFetches.conflict(request, externalId, error)
    }
    if (request.query.dry_run === true) {
      const { things, channels, keysShownOnce } = await mappings.preview(callerOf(request), { externalId, externalKey, name }).catch(refuse)
      // Like a fetch, it reveals whether a key belongs to another owner.
      if (things.length > 0) await failedFetches.noteTry(request, externalId)
      const shownOnce = keysShownOnce.length > 0 ? { keys_shown_once: [...keysShownOnce] } : {}
      return reply.send({ things: [...things], channels: [...channels], ...shownOnce })
    }
    failedFetches.refuseLimited(request, externalId)
    const { mapping, isNew } = await mappings.make(changerOf(request), { externalId, externalKey, name }).catch(refuse)
    if (isNew) await failedFetches.noteMade(request, externalId)
    const answer = { ...mapping, things: [...mapping.things], channels: [...mapping.channels] }
    return reply
      .code(isNew ? 201 : 200)
      .headers(unstored)
      .send(answer)
  })

  app.get('/mapping', { schema: viewContentSchema, onRequest: authentication.required }, async (request, reply) => {
    await authorization.demand(callerOf(request), 'member', 'users')
    return reply.headers(unstored).send(content)
  })

  app.delete('/mapping/:external_id', { schema: removeMappingSchema, onRequest: authentication.required }, async (request, reply) => {
    const { external_id: externalId } = request.params
    checkExternalId(externalId, '/path/external_id')
    const caller = callerOf(request)
    for (const thing of (await mappings.thingsOf(caller, externalId)) ?? []) await authorization.demand(caller, 'delete', thing)
    const removed = await mappings.remove(changerOf(request), externalId)
    if (!removed) throw await authorization.refusal(caller, () => rows.exists(externalId))
    return reply.code(204).send()
  })
}
