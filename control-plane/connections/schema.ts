// Requests and answers of connections.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { channelSchema } from '../channels/schema.ts'
import { bulkItemsMax } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { deprecationHeaders, emptyAnswer, emptyObject, tokenRequired } from '../requests/answers.ts'
import { orderAnswer, orderQuery, pageAnswer, pageOptions, pageQuery } from '../requests/page.ts'
import { thingSchema } from '../things/schema.ts'

const thing = idSchema('thing', "A thing's id.")
const channel = idSchema('channel', "A channel's id.")
const ids = { minItems: 1, maxItems: bulkItemsMax }

/** Pairs of a thing and a channel in one request. The embedded database takes 15 µs for each, and does nothing else meanwhile. */
export const pairsMax = 5_000

const needsToken = { tags: ['connections'], security: tokenRequired }
const pairs = Type.Object({ channel_ids: Type.Array(channel, ids), thing_ids: Type.Array(thing, ids) }, { title: 'Connections' })
const entityCodes = ['unauthenticated', 'forbidden', 'not_found'] as const

export const connectSchema = {
  ...needsToken,
  operationId: 'connect',
  summary: 'Connect things to channels',
  description: `Each thing to each channel, at most ${pairsMax} pairs, all of them or none. You must own them all; connections that exist stay.`,
  body: pairs,
  response: { 200: emptyObject('Connected.'), ...errorAnswers(...bodyCodes, ...entityCodes) },
}

export const disconnectPairsSchema = {
  ...needsToken,
  operationId: 'disconnect',
  summary: 'Disconnect things from channels',
  description: `Each thing from each channel, at most ${pairsMax} pairs, all of them or none. You must own them all; pairs that are not connected are skipped. Once this is answered, the things can no longer publish or read there.`,
  body: pairs,
  response: { 200: emptyObject('Disconnected.'), ...errorAnswers(...bodyCodes, ...entityCodes) },
}

export const connectOneSchema = {
  ...needsToken,
  operationId: 'connectOne',
  summary: 'Connect a thing to a channel',
  description: 'Replaced by POST /connect. You must own both; a connection that exists stays.',
  deprecated: true,
  params: Type.Object({ channel, thing }),
  response: { 200: emptyAnswer('Connected.', deprecationHeaders), ...errorAnswers(...bodyCodes, ...entityCodes) },
}

export const disconnectSchema = {
  ...needsToken,
  operationId: 'disconnectOne',
  summary: 'Disconnect a thing from a channel',
  description: 'You must own both. Once this is answered, the thing can no longer publish or read there.',
  params: Type.Object({ channel, thing }),
  response: { 204: emptyAnswer('Disconnected.'), ...errorAnswers(...bodyCodes, ...entityCodes) },
}

const connectedQuery = {
  ...pageQuery,
  ...orderQuery,
  connected: Type.Optional(
    Type.Boolean({ description: 'false lists your other ones, which are not connected. The default is true.', examples: [true] }),
  ),
  disconnected: Type.Optional(Type.Boolean({ description: 'The opposite of `connected`, as older clients send it.', examples: [false] })),
  metadata_as: Type.Optional(Type.Enum(['object', 'string'], { default: 'object', description: 'string returns metadata as JSON text.' })),
}

const metadata = Type.Optional(
  Type.Unknown({
    description: 'An object; with `metadata_as=string` its JSON text, `{}` if there is none.',
    examples: [{ location: 'roof' }],
  }),
)
const connectedThing = Type.Object({ ...thingSchema.properties, metadata }, { title: 'ConnectedThing' })
const connectedChannel = Type.Object({ ...channelSchema.properties, metadata }, { title: 'ConnectedChannel' })

export const thingsOfChannelSchema = {
  ...needsToken,
  operationId: 'listThingsOfChannel',
  summary: 'List the things of a channel',
  description: "Only for the channel's owner.",
  params: Type.Object({ channel }),
  querystring: Type.Object(connectedQuery),
  response: {
    200: Type.Object({ ...pageAnswer, ...orderAnswer, things: Type.Array(connectedThing) }, pageOptions('ConnectedThingsPage')),
    ...errorAnswers(...entityCodes),
  },
}

export const channelsOfThingSchema = {
  ...needsToken,
  operationId: 'listChannelsOfThing',
  summary: 'List the channels of a thing',
  description: "Only for the thing's owner.",
  params: Type.Object({ thing }),
  querystring: Type.Object(connectedQuery),
  response: {
    200: Type.Object({ ...pageAnswer, ...orderAnswer, channels: Type.Array(connectedChannel) }, pageOptions('ConnectedChannelsPage')),
    ...errorAnswers(...entityCodes),
  },
}
