// Mappings: everything that a device needs, created in one transaction, once for each external id of an owner (SPEC §1, §4).
//
// The layout gives the order: channels, then things (whose metadata names the channels), connections, certificates, and the bootstrap configuration of
// the thing that the external id belongs to. If a step fails, nothing is kept, and the same request can be sent again. A lock on owner and external id
// lets one of many equal requests do the work, and the others find its result. Certificates are signed before the transaction, so that it does not wait
// for the authority.

import { DatabaseError, type Queries } from '../../database/database.ts'
import { HttpError } from '../../http/errors.ts'
import { networkOf } from '../../http/requests/client-address.ts'
import type { BootstrapConfigs } from '../bootstrap/bootstrap-configs.ts'
import { type ExternalCredential, type ExternalKeys, ExternalKeyTakenError } from '../bootstrap/external-keys.ts'
import type { IssuedCertificate } from '../certificates/record.ts'
import type { Certificates } from '../certificates/store.ts'
import type { Channel, Channels } from '../channels/store.ts'
import { type Connections, lockOwnedChannels } from '../connections/store.ts'
import { type ChannelId, newThingId, type ThingId, type UserId } from '../ids.ts'
import { openFairQueue, type Requester } from '../outside/fair-queue.ts'
import type { Thing, Things } from '../things/store.ts'
import { demandCapacity } from '../users/bounds.ts'
import type { Caller, Write, Writes } from '../writes.ts'
import { type AnsweredCertificates, answerOf, issuedBy, requestsFor } from './certificates.ts'
import { fillContent } from './content.ts'
import { inOrder, type Layout, type Preview, previewOf, referencesOf } from './layout.ts'
import type { MappingRows, StoredMapping } from './store.ts'

export interface MappingRequest extends ExternalCredential {
  /** Name of the thing that the external id belongs to, in place of the layout's. */
  readonly name?: string | undefined
}

export interface Mapping extends Partial<AnsweredCertificates> {
  readonly things: readonly Thing[]
  readonly channels: readonly Channel[]
  /** By thing: whether it is connected to the channels. */
  readonly whitelisted: Readonly<Record<string, boolean>>
}

export interface Mappings {
  /**
   * Creates what the layout says, or finds what was created for this external id; then without private keys.
   *
   * @throws HttpError `conflict` if the owner has it with another key, or may not own so many things and channels; `unavailable` while it is being
   * created or the certificate authority does not answer; ExternalKeyTakenError if another owner has it with this key
   */
  make(by: Caller, request: MappingRequest): Promise<{ readonly mapping: Mapping; readonly isNew: boolean }>
  /** What `make` would create: nothing if the mapping exists. Throws like `make`. */
  preview(owner: UserId, request: MappingRequest): Promise<Preview>
  /** The things of the owner's mapping; undefined if there is none. */
  thingsOf(owner: UserId, externalId: string): Promise<readonly ThingId[] | undefined>
  /** Deletes its channels and things, with their connections, configuration and certificates. @returns false if there is none */
  remove(by: Caller, externalId: string): Promise<boolean>
}

interface Parts {
  readonly database: Queries
  readonly layout: Layout
  readonly rows: MappingRows
  readonly writes: Writes
  readonly things: Pick<Things, 'create' | 'findAll' | 'remove'>
  readonly channels: Pick<Channels, 'create' | 'remove'>
  readonly connections: Pick<Connections, 'connect'>
  readonly bootstrapConfigs: Pick<BootstrapConfigs, 'create' | 'demandFree'>
  readonly externalKeys: ExternalKeys
  readonly certificates: Pick<Certificates, 'issuing' | 'current'>
}

/** Input of the transaction, made before it because the transaction may run again. */
interface Prepared {
  /** The things and channels. */
  readonly filled: Preview
  /** Ids of the layout's things. */
  readonly ids: readonly ThingId[]
  readonly issued: readonly IssuedCertificate[]
  readonly store: (write: Write) => Promise<void>
}

/** For mappings with certificates: one under way waits for its keys, the authority or the database. */
const mappingWork = { what: ['mappings', 'created'], concurrentMax: 32, jobsMax: 400, addressJobsMax: 200, accountJobsMax: 60 } as const

export function openMappings(parts: Parts): Mappings {
  const { database, layout, rows, writes, things, channels, connections, bootstrapConfigs, externalKeys, certificates } = parts
  const { isProvisioned, isWhitelisted, hasCertificates, content } = layout.bootstrap
  /** Index of the thing that the external id belongs to; of the first, if it belongs to none. */
  const main = Math.max(
    0,
    layout.things.findIndex(({ isExternal }) => isExternal),
  )

  const existingIds = layout.channels.flatMap(({ id }) => id ?? [])

  /** The channels that the layout names. @throws HttpError `forbidden` if one does not exist or is another user's */
  async function existingOf(owner: UserId, transaction?: Queries): Promise<Channel[]> {
    if (existingIds.length === 0) return []
    const existing = await rows.channels(owner, existingIds, transaction)
    if (existing.length === existingIds.length) return existing
    throw new HttpError('forbidden', 'the layout names a channel by its id that you do not own: ask who runs the platform')
  }

  /** @throws HttpError if the request may not have the mapping */
  function demandOwn(found: StoredMapping, request: MappingRequest): void {
    if (!externalKeys.isKept(found.keyLookup, request)) {
      const detail = 'you already have a mapping for this external id with another external key: use that key, or delete the mapping first'
      throw new HttpError('conflict', detail)
    }
    if (!found.isDelivered) throw new HttpError('unavailable', 'the mapping is being created: retry')
  }

  /** Whether it has to be created; otherwise the owner has it. Throws like `make`. */
  async function isFree(owner: UserId, request: MappingRequest): Promise<boolean> {
    const found = await rows.find(owner, request.externalId)
    if (found !== undefined) {
      demandOwn(found, request)
      return false
    }
    if (await rows.isTaken(request)) throw new ExternalKeyTakenError()
    if (isProvisioned) await bootstrapConfigs.demandFree(owner, request)
    await demandCapacity(database, owner, 'channels', layout.channels.length - existingIds.length)
    await demandCapacity(database, owner, 'things', layout.things.length)
    return true
  }

  /** @returns undefined if there is one already */
  async function makeIn(
    write: Write & Caller,
    request: MappingRequest,
    { filled, ids, issued, store }: Prepared,
  ): Promise<Mapping | undefined> {
    await rows.lock(write, request.externalId)
    const found = await rows.find(write.user, request.externalId, write)
    if (found !== undefined) {
      demandOwn(found, request)
      return undefined
    }
    if (await rows.isTaken(request, write)) throw new ExternalKeyTakenError()

    // None of them is deleted before the write ends.
    await lockOwnedChannels(write, existingIds)
    const existing = await existingOf(write.user, write)
    const madeChannels = await channels.create(write, filled.channels)
    const allChannels = inOrder(layout, madeChannels, existing)
    const channelIds = idsOf(allChannels)
    // Not the existing ones: these are deleted if the policies of the things cannot be delivered.
    await write.policies.add([], idsOf(madeChannels))
    // What the layout says of an existing one; its own metadata may change.
    const named = allChannels.map((channel, at) => ({ ...channel, metadata: layout.channels[at]!.metadata }))
    const newThings = filled.things.map((thing, at) =>
      layout.things[at]!.isExternal
        ? { ...thing, metadata: { ...thing.metadata, ...referencesOf(ids[at]!, named, isProvisioned) } }
        : thing,
    )
    const requested = ids.map(id => ({ id }))
    const madeThings = await things.create(write, newThings, requested)
    const thing = madeThings[main]!
    if (isWhitelisted && !(await connections.connect(write, channelIds, ids))) throw notFound()
    await store(write)
    if (isProvisioned) await configure(write, request, thing, named, issued[main])

    const mappingFields = { thing: thing.id, things: ids, channels: channelIds, existing: existingIds, isWhitelisted, issuer: issued[0] }
    await rows.insert(write, { ...request, ...mappingFields })
    write.note('mapping.create', [...ids, ...channelIds])
    return { things: madeThings, channels: allChannels, whitelisted: whitelist(ids, isWhitelisted), ...answerOf(issued) }
  }

  async function configure(
    write: Write & Caller,
    { externalId, externalKey }: MappingRequest,
    thing: Thing,
    thingChannels: readonly Required<Channel>[],
    certificate: IssuedCertificate | undefined,
  ): Promise<void> {
    const { certificate: clientCert, privateKey: clientKey, issuingCa: caCert } = certificate ?? {}
    const values = { externalId, thing, channels: thingChannels }
    const created = await bootstrapConfigs.create(write, {
      externalId,
      externalKey,
      thing: thing.id,
      name: thing.name,
      channels: thingChannels.map(({ id }) => id),
      state: isWhitelisted ? 1 : 0,
      content: content === undefined ? undefined : fillContent(content, values),
      clientCert,
      clientKey,
      caCert,
    })
    if (created === 'not-owned') throw notFound()
  }

  async function makeWith(by: Caller, request: MappingRequest, prepared: Prepared): Promise<Mapping | undefined> {
    let made: Mapping | undefined
    try {
      return await writes(by, async write => (made = await makeIn(write, request, prepared)))
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error
      if (error.constraint === 'mappings_key_unique') throw new ExternalKeyTakenError()
      // The commit may have succeeded although its answer was lost. If that cannot be looked up, the first error is thrown.
      const found = await rows.find(by.user, request.externalId).catch(() => undefined)
      if (made !== undefined && found?.isDelivered === true && found.things[0] === prepared.ids[0]) return made
      throw error
    }
  }

  /** Requests of this process for one external id wait for each other before anything is signed: the first creates the mapping, and the others find it. */
  const queue = openFairQueue(mappingWork)

  async function makeCertified(
    by: Caller,
    request: MappingRequest,
    prepared: Pick<Prepared, 'filled' | 'ids'>,
  ): Promise<Mapping | undefined> {
    // A mapping that exists, or cannot be created, needs no certificates.
    if (!(await isFree(by.user, request))) return undefined
    await existingOf(by.user)
    const found = new Error('another instance has created the mapping')
    return certificates
      .issuing(by, requestsFor(prepared.ids, layout.certificate), async (issued, store) => {
        const made = await makeWith(by, request, { ...prepared, issued, store })
        // No certificate is handed out, so throwing makes the caller revoke those that were signed.
        if (made === undefined) throw found
        return made
      })
      .catch((error: unknown) => {
        if (error === found) return undefined
        throw error
      })
  }

  return {
    async make(by, request) {
      // Before anything is signed, as it refuses names.
      const prepared = { filled: previewOf(layout, request), ids: layout.things.map(newThingId) }
      const made = hasCertificates
        ? await queue.run(requesterOf(by, request), () => makeCertified(by, request, prepared))
        : await makeWith(by, request, { ...prepared, issued: [], store: async () => undefined })
      if (made !== undefined) return { mapping: made, isNew: true }
      const found = await rows.find(by.user, request.externalId)
      if (found === undefined) throw new HttpError('unavailable', 'the mapping was deleted in the meantime: retry')
      await writes(by, write => externalKeys.renew(write, request, found))
      const answeredCertificates = found.issuer && answerOf(issuedBy(found.issuer, await certificates.current(found.things)))
      const mappingFields = { channels: found.channels, whitelisted: whitelist(found.things, found.isWhitelisted), ...answeredCertificates }
      return { mapping: { things: await things.findAll(found.things), ...mappingFields }, isNew: false }
    },

    async preview(owner, request) {
      if (!(await isFree(owner, request))) return { things: [], channels: [], keysShownOnce: [] }
      const preview = previewOf(layout, request)
      return { ...preview, channels: inOrder(layout, preview.channels, await existingOf(owner)) }
    },

    async thingsOf(owner, externalId) {
      return (await rows.find(owner, externalId))?.things
    },

    remove: (by, externalId) =>
      writes(by, async write => {
        await rows.lock(write, externalId)
        const found = await rows.find(write.user, externalId, write)
        if (found === undefined) return false
        // In the same order in which connecting locks them.
        const created = await rows.unshared(
          write.user,
          externalId,
          idsOf(found.channels).filter(id => !found.existing.includes(id)),
          write,
        )
        for (const id of created) await channels.remove(write, id, undefined)
        for (const id of found.things) await things.remove(write, id, undefined)
        write.note('mapping.delete', [...found.things, ...created])
        return true
      }),
  }
}

/** One external id of an owner is one account: its requests run one at a time. */
function requesterOf({ user, address = '' }: Caller, { externalId }: MappingRequest): Requester {
  return { account: JSON.stringify([user, externalId]), address: networkOf(address) }
}

const idsOf = (channels: readonly Channel[]): ChannelId[] => channels.map(({ id }) => id)

const notFound = (): Error => new Error('a transaction does not find what it created')

function whitelist(things: readonly ThingId[], isWhitelisted: boolean): Record<string, boolean> {
  return Object.fromEntries(things.map(id => [id, isWhitelisted]))
}
