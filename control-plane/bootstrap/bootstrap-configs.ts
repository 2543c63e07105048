// Bootstrap configurations: how owners manage them, and what devices fetch.

import type { IssuedCertificate } from '../certificates/record.ts'
import type { IssueRequest } from '../certificates/signing.ts'
import type { Channel } from '../channels/store.ts'
import type { ChannelId, ThingId, UserId } from '../ids.ts'
import type { Page, PageRequest } from '../requests/page.ts'
import type { Versions, WriteOutcome } from '../versions.ts'
import type { Actor, Caller } from '../writes.ts'
import type { ExternalCredential } from './external-keys.ts'

/** What an owner sends; an empty text counts as left out. */
export interface BootstrapConfigFields {
  readonly name?: string | undefined
  /** What the device configures itself with; agents expect JSON text. */
  readonly content?: string | undefined
  /** PEM, like the other two. */
  readonly clientCert?: string | undefined
  readonly clientKey?: string | undefined
  readonly caCert?: string | undefined
}

export interface NewBootstrapConfig extends ExternalCredential, BootstrapConfigFields {
  /** If left out, a thing is created. */
  readonly thing?: ThingId | undefined
  /** In the order in which the device gets them. */
  readonly channels: readonly ChannelId[]
  /** 1 if the thing is connected to the channels already. */
  readonly state?: 0 | 1
}

/** Fields that are left out stay as they are. */
export interface BootstrapConfigUpdate extends BootstrapConfigFields {
  readonly channels?: readonly ChannelId[] | undefined
  /** 1 connects the thing to the channels, 0 disconnects it from them. */
  readonly state?: 0 | 1 | undefined
  /** false refuses fetches and disconnects the thing from the channels; true undoes that. */
  readonly isEnabled?: boolean | undefined
}

export interface BootstrapConfig {
  readonly thing: ThingId
  /** The thing's key. */
  readonly key: string
  readonly channels: readonly Channel[]
  readonly externalId: string
  readonly name: string
  readonly content: string | undefined
  readonly state: 0 | 1
  readonly isEnabled: boolean
  /** RFC 3339, of the last fetch. */
  readonly fetchedAt: string | undefined
}

export interface FetchedBootstrapConfig extends BootstrapConfig {
  readonly owner: UserId
  /** Whether the device may have it: both it and its owner are enabled. */
  readonly isAllowed: boolean
  readonly clientCert: string | undefined
  /** Present until the device acknowledges it, or for a day after it was first fetched. */
  readonly clientKey: string | undefined
  readonly caCert: string | undefined
}

export interface BootstrapConfigFilter {
  readonly state?: number | undefined
  readonly externalId?: string | undefined
  readonly thing?: ThingId | undefined
  /** The thing's key. */
  readonly key?: string | undefined
  /** A part of the name, case ignored. */
  readonly name?: string | undefined
}

/** A configuration of another owner is `absent` here. */
export interface BootstrapConfigs {
  /**
   * @returns its thing; `not-owned`, with nothing created, unless `by` owns the thing and every channel
   * @throws ExternalKeyTakenError; HttpError `conflict` if `by` has one for the external id or the thing already
   */
  create(by: Caller, config: NewBootstrapConfig): Promise<ThingId | 'not-owned'>
  /** @throws as `create` does for an external id and key that are taken */
  demandFree(owner: UserId, credential: ExternalCredential): Promise<void>
  find(owner: UserId, thing: ThingId): Promise<{ readonly config: BootstrapConfig; readonly version: number } | undefined>
  /** For any owner. */
  exists(thing: ThingId): Promise<boolean>
  list(owner: UserId, filter: BootstrapConfigFilter, page: PageRequest): Promise<Page<BootstrapConfig>>
  /** What it disconnects is disconnected when it resolves. `not-owned`, with nothing changed, unless `by` owns the given channels. */
  update(by: Caller, thing: ThingId, fields: BootstrapConfigUpdate, versions: Versions): Promise<WriteOutcome | 'not-owned'>
  /** Deletes only the configuration: the thing and its connections stay. */
  remove(by: Caller, thing: ThingId, versions: Versions): Promise<WriteOutcome>
  /** The configuration of the credential; undefined if there is none, after the same statement for an unknown id and a wrong key. */
  open(credential: ExternalCredential): Promise<FetchedBootstrapConfig | undefined>
  /** Erases every private key whose day is over: `create` and `noteFetch` erase some of them. */
  eraseOverdue(): Promise<void>
  /** Records that it is fetched now. */
  noteFetch(thing: ThingId): Promise<void>
  /** The device has stored the private key that it fetched: erases that key. A newer one stays. */
  acknowledge(by: Actor, thing: ThingId): Promise<void>
  /**
   * Issues a certificate for a key that the device keeps, on behalf of the owner. It replaces the configuration's certificates: the previous one is
   * revoked if it was issued here, and its stored private key is erased.
   *
   * @throws HttpError as `Certificates.issuing`; `too_many_requests` if a hundred of the device were revoked; `forbidden` if the configuration was disabled or deleted meanwhile
   */
  certify(
    by: Actor,
    config: Pick<FetchedBootstrapConfig, 'thing' | 'owner'>,
    request: Omit<IssueRequest, 'thing'>,
  ): Promise<IssuedCertificate>
}
