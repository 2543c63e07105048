// Mappings: everything that a device needs is made in one transaction, once for each external id of an owner (SPEC §1, §4).
//
// By the layout: channels, then things, whose metadata name the channels, connections, certificates, and the bootstrap configuration of the thing that the
// external id belongs to. What fails, fails all of it, and the same request may come again: nothing is left of the first one. A lock on owner and
// external id lets one of many equal requests do the work, and the others find what it made. Certificates are signed before the transaction, so that it
// waits for no authority.

import { HttpError } from '../../config/http/errors.ts'
import { DatabaseError } from '../../config/postgres/database.ts'
import { type ExternalCredential, type ExternalKeys, ExternalKeyTakenError } from '../bootstrap/external-keys.ts'
import { type Configs, privateKeyPlaceholder } from '../bootstrap/store.ts'
import type { IssuedCertificate } from '../certificates/record.ts'
import type { Certificates } from '../certificates/store.ts'
import type { Channel, Channels } from '../channels/store.ts'
import type { Connections } from '../connections/store.ts'
import type { NewEntity } from '../entity.ts'
import { newThingId, type ThingId, type UserId } from '../ids.ts'
import type { Thing, Things } from '../things/store.ts'
import type { Caller, Write, Writes } from '../writes.ts'
import { type AnsweredCertificates, answerOf, certificatesOf, requestsFor, withoutKeys } from './certificates.ts'
import { fillContent, type Layout } from './layout.ts'
import { referencesOf, thingsOf } from './layout-things.ts'
import type { MappingRows, StoredMapping } from './store.ts'

export interface MappingRequest extends ExternalCredential {
  /** In place of the layout's, of the thing that the external id belongs to. */
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
   * Makes what the layout says, or finds what was made for this external id, without private keys then.
   *
   * @throws HttpError `conflict` where the owner has it under another key, `unavailable` while it is being made or the certificate authority cannot be
   * asked; ExternalKeyTakenError where another owner has it under this key
   */
  make(by: Caller, request: MappingRequest): Promise<{ readonly mapping: Mapping; readonly isNew: boolean }>
  /** What `make` would make: nothing where it is there. Throws as it does. */
  preview(
    owner: UserId,
    request: MappingRequest,
  ): Promise<{ readonly things: readonly NewEntity[]; readonly channels: readonly NewEntity[] }>
  /** The things of the owner's mapping; undefined where there is none. */
  thingsOf(owner: UserId, externalId: string): Promise<readonly ThingId[] | undefined>
  /** Undoes it: the channels, and the things with everything that hangs on them. @returns false where there is none */
  remove(by: Caller, externalId: string): Promise<boolean>
}

interface Parts {
  readonly layout: Layout
  readonly rows: MappingRows
  readonly writes: Writes
  readonly things: Pick<Things, 'create' | 'findAll' | 'remove'>
  readonly channels: Pick<Channels, 'create' | 'remove'>
  readonly connections: Pick<Connections, 'connect'>
  readonly configs: Pick<Configs, 'create' | 'demandFree'>
  readonly externalKeys: ExternalKeys
  readonly certificates: Pick<Certificates, 'issuing' | 'revoking'>
}

/** What a transaction is given that runs again where all of it was undone. */
interface Prepared {
  /** Ids of the layout's things. */
  readonly ids: readonly ThingId[]
  readonly issued: readonly IssuedCertificate[]
  readonly store: (write: Write) => Promise<void>
}

export function openMappings(parts: Parts): Mappings {
  const { layout, rows, writes, things, channels, connections, configs, externalKeys, certificates } = parts
  const { isProvisioned, isWhitelisted, hasCertificates, content } = layout.bootstrap
  /** The thing that the external id belongs to; the first, where it belongs to none. */
  const main = Math.max(
    0,
    layout.things.findIndex(({ isExternal }) => isExternal),
  )

  /** @throws HttpError for one that the request may not have */
  function demandOwn(found: StoredMapping, request: MappingRequest): void {
    if (!externalKeys.isKept(found.keyLookup, request)) {
      const detail = 'you have a mapping of this external id under another external key: give that one, or delete the mapping before'
      throw new HttpError('conflict', detail)
    }
    if (!found.isDelivered) throw new HttpError('unavailable', 'the mapping is being made: try again')
  }

  /** Whether it is to be made; else the owner has it. Throws as `make` does. */
  async function isFree(owner: UserId, request: MappingRequest): Promise<boolean> {
    const found = await rows.find(owner, request.externalId)
    if (found !== undefined) {
      demandOwn(found, request)
      return false
    }
    if (await rows.isTaken(request)) throw new ExternalKeyTakenError()
    if (isProvisioned) await configs.demandFree(owner, request)
    return true
  }

  /** @returns undefined where there is one */
  async function makeIn(write: Write & Caller, request: MappingRequest, { ids, issued, store }: Prepared): Promise<Mapping | undefined> {
    await rows.lock(write, request.externalId)
    const found = await rows.find(write.user, request.externalId, write)
    if (found !== undefined) {
      demandOwn(found, request)
      return undefined
    }
    if (await rows.isTaken(request, write)) throw new ExternalKeyTakenError()

    const madeChannels = await channels.create(write, layout.channels)
    const channelIds = madeChannels.map(({ id }) => id)
    await write.policies.add([], channelIds)
    const references = ids.map(id => referencesOf(id, madeChannels, isProvisioned))
    const given = ids.map(id => ({ id }))
    const madeThings = await things.create(write, thingsOf(layout, request, references), given)
    const thing = madeThings[main]!
    if (isWhitelisted && !(await connections.connect(write, channelIds, ids))) throw notFound()
    await store(write)
    if (isProvisioned) await configure(write, request, thing, madeChannels, issued[main])

    const ofMapping = { thing: thing.id, things: ids, channels: channelIds, isWhitelisted, certificates: withoutKeys(issued) }
    await rows.insert(write, { ...request, ...ofMapping })
    write.note('mapping.create', [...ids, ...channelIds])
    return { things: madeThings, channels: madeChannels, whitelisted: whitelist(ids, isWhitelisted), ...answerOf(issued) }
  }

  async function configure(
    write: Write & Caller,
    { externalId, externalKey }: MappingRequest,
    thing: Thing,
    ofThing: readonly Channel[],
    certificate: IssuedCertificate | undefined,
  ): Promise<void> {
    const { certificate: clientCert, privateKey: clientKey, issuingCa: caCert } = certificate ?? {}
    const shown =
      clientCert === undefined || caCert === undefined ? {} : { certificate: { clientCert, clientKey: privateKeyPlaceholder, caCert } }
    const values = { externalId, thing, channels: ofThing.map(channel => ({ ...channel, metadata: channel.metadata ?? {} })), ...shown }
    const created = await configs.create(write, {
      externalId,
      externalKey,
      thing: thing.id,
      name: thing.name,
      channels: ofThing.map(({ id }) => id),
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
      // A commit whose answer was lost is one. Where that cannot be asked, the first error says so.
      const found = await rows.find(by.user, request.externalId).catch(() => undefined)
      if (made !== undefined && found?.isDelivered === true && found.things[0] === prepared.ids[0]) return made
      throw error
    }
  }

  /** Requests of this process for one external id wait for each other before anything is signed: the first makes it, and the others find it. */
  const turns = new Map<string, Promise<unknown>>()

  async function inTurn<Result>(by: Caller, { externalId }: MappingRequest, work: () => Promise<Result>): Promise<Result> {
    const key = JSON.stringify([by.user, externalId])
    const turn = (turns.get(key) ?? Promise.resolve()).then(work, work)
    turns.set(key, turn)
    try {
      return await turn
    } finally {
      if (turns.get(key) === turn) turns.delete(key)
    }
  }

  async function makeCertified(by: Caller, request: MappingRequest, ids: readonly ThingId[]): Promise<Mapping | undefined> {
    // What is there already, or cannot be made, needs no certificates.
    if (!(await isFree(by.user, request))) return undefined
    const found = new Error('another process made the mapping meanwhile')
    return certificates
      .issuing(by, requestsFor(ids, layout.certificate), async (issued, store) => {
        const made = await makeWith(by, request, { ids, issued, store })
        // Nothing is handed out, so what was signed is to be revoked.
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
      const ids = layout.things.map(newThingId)
      const made = hasCertificates
        ? await inTurn(by, request, () => makeCertified(by, request, ids))
        : await makeWith(by, request, { ids, issued: [], store: async () => undefined })
      if (made !== undefined) return { mapping: made, isNew: true }
      const found = await rows.find(by.user, request.externalId)
      if (found === undefined) throw new HttpError('unavailable', 'the mapping was deleted just now: try again')
      await writes(by, write => externalKeys.renew(write, request, found))
      const shown = found.certificates && certificatesOf(found.certificates, found.things)
      const ofMapping = { channels: found.channels, whitelisted: whitelist(found.things, found.isWhitelisted), ...shown }
      return { mapping: { things: await things.findAll(found.things), ...ofMapping }, isNew: false }
    },

    async preview(owner, request) {
      if (!(await isFree(owner, request))) return { things: [], channels: [] }
      return { things: thingsOf(layout, request), channels: layout.channels }
    },

    async thingsOf(owner, externalId) {
      return (await rows.find(owner, externalId))?.things
    },

    async remove(by, externalId) {
      const before = await rows.find(by.user, externalId)
      return certificates.revoking(by, before?.things ?? [], revoke =>
        writes(by, async write => {
          await rows.lock(write, externalId)
          const found = await rows.find(write.user, externalId, write)
          if (found === undefined) return false
          // In the order in which connecting locks them.
          for (const { id } of found.channels) await channels.remove(write, id, undefined)
          for (const id of found.things) await things.remove(write, id, undefined, revoke)
          write.note('mapping.delete', [...found.things, ...found.channels.map(({ id }) => id)])
          return true
        }),
      )
    },
  }
}

const notFound = (): Error => new Error('a transaction does not find what it made')

function whitelist(things: readonly ThingId[], isWhitelisted: boolean): Record<string, boolean> {
  return Object.fromEntries(things.map(id => [id, isWhitelisted]))
}
