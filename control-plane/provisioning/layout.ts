// A layout: the things, channels and bootstrap content that a mapping creates (SPEC §2, provisioning layout), and the things with what the request and
// the channels add to the one that the external id belongs to.

import type { KeyType, RsaBits } from '../certificates/csr.ts'
import type { Channel } from '../channels/store.ts'
import type { Metadata, NewEntity } from '../entity.ts'
import type { ChannelId, ThingId } from '../ids.ts'
import { fillName, hasRequestName, type RequestNames } from './names.ts'

/** A thing of the layout. */
export interface LayoutThing {
  readonly name: string
  readonly metadata: Metadata
  /** The one that the external id belongs to: its metadata has the key `external_id`. One thing of a layout, or none if it has no bootstrap configuration. */
  readonly isExternal: boolean
}

export interface LayoutChannel {
  readonly name: string
  /** `type` is `control`, `data` or `export` for the edge agent. */
  readonly metadata: Metadata
  /** Of a channel that exists, and that things of many mappings share; absent for one that each mapping creates. */
  readonly id?: ChannelId
}

/** A JSON tree that keeps the types of the TOML file: text, integers, booleans, arrays, tables. */
export type ContentTree = { readonly [key: string]: unknown }

export interface Layout {
  readonly things: readonly LayoutThing[]
  readonly channels: readonly LayoutChannel[]
  readonly bootstrap: {
    /** Whether a bootstrap configuration is created. */
    readonly isProvisioned: boolean
    /** Whether the things are connected to the channels, which is state 1 of the configuration. */
    readonly isWhitelisted: boolean
    /** Whether a certificate is issued for each thing. */
    readonly hasCertificates: boolean
    /** Absent if there is none. */
    readonly content?: ContentTree
  }
  /** `rsaBits` is used only for `rsa`. */
  readonly certificate: { readonly ttlSeconds: number; readonly keyType: KeyType; readonly rsaBits: RsaBits }
}

/** The values of the placeholders in the content. */
export interface ContentValues {
  readonly externalId: string
  readonly thing: { readonly id: string; readonly key: string; readonly name: string }
  /** In the order of the layout. */
  readonly channels: readonly { readonly id: string; readonly name: string; readonly metadata: Metadata }[]
}

/** Without a layout file: one thing, and the two channels that the edge agent needs (SPEC §2). */
export const defaultLayout: Layout = {
  things: [{ name: 'thing', metadata: { external_id: '' }, isExternal: true }],
  channels: [
    { name: 'control-channel', metadata: { type: 'control' } },
    { name: 'data-channel', metadata: { type: 'data' } },
  ],
  bootstrap: { isProvisioned: true, isWhitelisted: true, hasCertificates: false },
  certificate: { ttlSeconds: 2_400 * 3_600, keyType: 'ec', rsaBits: 4096 },
}

/** What a mapping will create. */
export interface Preview {
  readonly things: readonly NewEntity[]
  readonly channels: readonly NewEntity[]
  /** Names of the things whose private keys only the first answer will contain: no bootstrap configuration keeps them. */
  readonly keysShownOnce: readonly string[]
}

/** @throws HttpError `malformed_request` if a name would be too long */
export function previewOf(layout: Layout, request: RequestNames): Preview {
  const { isProvisioned, hasCertificates } = layout.bootstrap
  const channels = layout.channels
    .filter(({ id }) => id === undefined)
    .map(({ name, metadata }) => ({ name: fillName(name, request), metadata }))
  const things = layout.things.map(thing => filled(thing, request))
  const unkept = hasCertificates ? things.filter((_, at) => !isProvisioned || !layout.things[at]!.isExternal) : []
  return { things, channels, keysShownOnce: unkept.map(({ name }) => name) }
}

function filled({ isExternal, metadata, name }: LayoutThing, request: RequestNames): NewEntity {
  const own = fillName(name, request)
  if (!isExternal) return { name: own, metadata }
  const { externalId, name: requested = '' } = request
  const isReplaced = requested !== '' && !hasRequestName(name)
  return { name: isReplaced ? requested : own, metadata: { ...metadata, external_id: externalId, type: 'gateway' } }
}

/** The channels of a mapping in the order of the layout. @param existing all those that the layout names */
export function inOrder<New>(layout: Layout, created: readonly New[], existing: readonly Channel[]): (New | Channel)[] {
  const left = [...created]
  return layout.channels.map(({ id }) => existing.find(channel => channel.id === id) ?? left.shift()!)
}

/** The metadata by which agents find their configuration and channels. */
export function referencesOf(thing: ThingId, channels: readonly Channel[], isProvisioned: boolean): Metadata {
  const channelReference = (type: string, key: string): Metadata => {
    const channel = channels.find(({ metadata }) => metadata?.['type'] === type)
    return channel === undefined ? {} : { [key]: channel.id }
  }
  return {
    ...(isProvisioned ? { cfg_id: thing } : {}),
    ...channelReference('control', 'ctrl_channel_id'),
    ...channelReference('data', 'data_channel_id'),
    ...channelReference('export', 'export_channel_id'),
  }
}
