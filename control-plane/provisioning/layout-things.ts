// The things of a mapping: as the layout has them, with what the request and the channels add to the one that the external id belongs to.

import type { Channel } from '../channels/store.ts'
import type { Metadata, NewEntity } from '../entity.ts'
import type { ThingId } from '../ids.ts'
import type { Layout } from './layout.ts'

/** @param references by things; without them what is known before anything is made */
export function thingsOf(
  { things }: Layout,
  { externalId, name = '' }: { readonly externalId: string; readonly name?: string | undefined },
  references: readonly Metadata[] = [],
): NewEntity[] {
  return things.map(({ isExternal, metadata, ...thing }, at) => {
    if (!isExternal) return { name: thing.name, metadata }
    return { name: name === '' ? thing.name : name, metadata: { ...metadata, external_id: externalId, type: 'gateway', ...references[at] } }
  })
}

/** What agents find their configuration and channels by. */
export function referencesOf(thing: ThingId, channels: readonly Channel[], isProvisioned: boolean): Metadata {
  const ofType = (type: string, key: string): Metadata => {
    const channel = channels.find(({ metadata }) => metadata?.['type'] === type)
    return channel === undefined ? {} : { [key]: channel.id }
  }
  return {
    ...(isProvisioned ? { cfg_id: thing } : {}),
    ...ofType('control', 'ctrl_channel_id'),
    ...ofType('data', 'data_channel_id'),
    ...ofType('export', 'export_channel_id'),
  }
}
