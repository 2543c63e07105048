// The ids of entities: UUIDs in lower case, each kind with its own type, so that a thing's id cannot be used as a channel's.

import { randomUUID } from 'node:crypto'
import { Type } from 'typebox'
import { isUuid, uuidPattern } from '../transformers/uuid.ts'

declare const kind: unique symbol

export type UserId = string & { readonly [kind]: 'user' }
export type ThingId = string & { readonly [kind]: 'thing' }
export type ChannelId = string & { readonly [kind]: 'channel' }
export type ApiKeyId = string & { readonly [kind]: 'api-key' }
export type GroupId = string & { readonly [kind]: 'group' }

export { isUuid as isId, uuidPattern } from '../transformers/uuid.ts'

/** For examples: one id of each kind, so that examples match each other. */
export const exampleIds = {
  user: '0f8a6e7c-3c1b-4a55-9d0f-6f1f5a1f1c11',
  thing: '9b2d1c64-7a0e-4f3b-8c5d-2e6f4a1b7d90',
  channel: '3e7c5a18-42d9-4b6f-a1c0-8d9e2f7b6a54',
  group: 'c4f9b7d2-1e6a-4d83-9f20-5b7a3c8e6d11',
  'api-key': 'a61f0d3e-58b7-4c92-b3e4-7f1d9c2a8e05',
} as const

/** The schema of an id in a path or a body; `toThingId` and its like turn a text that matched it into the typed id. */
export function idSchema(of: keyof typeof exampleIds, description: string) {
  return Type.String({ pattern: uuidPattern, description, allowed: 'a UUID', examples: [exampleIds[of]] })
}

export const toUserId = (text: string): UserId => lowerCase(text) as UserId
export const toThingId = (text: string): ThingId => lowerCase(text) as ThingId
export const toChannelId = (text: string): ChannelId => lowerCase(text) as ChannelId
export const toApiKeyId = (text: string): ApiKeyId => lowerCase(text) as ApiKeyId
export const toGroupId = (text: string): GroupId => lowerCase(text) as GroupId

/** New ids are random (RFC 9562 §5.4): they reveal neither when nor in which order they were created. */
export const newUserId = (): UserId => randomUUID() as string as UserId
export const newThingId = (): ThingId => randomUUID() as string as ThingId
export const newChannelId = (): ChannelId => randomUUID() as string as ChannelId
export const newApiKeyId = (): ApiKeyId => randomUUID() as string as ApiKeyId
export const newGroupId = (): GroupId => randomUUID() as string as GroupId

/** @throws TypeError if the text is not an id; the schema of a request refuses such a text before */
function lowerCase(text: string): string {
  if (!isUuid(text)) throw new TypeError('an id is a UUID')
  return text.toLowerCase()
}
