// Requests and answers of connections.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, emptyObject, tokenRequired } from '../answers.ts'
import { channelSchema } from '../channels/schema.ts'
import { deprecationHeaders } from '../deprecation.ts'
import { bulkItemsMax } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { orderAnswer, orderQuery, pageAnswer, pageOptions, pageQuery } from '../page.ts'
import { thingSchema } from '../things/schema.ts'

const thing = idSchema('thing', "A thing's id.")
const channel = idSchema('channel', "A channel's id.")
const ids = { minItems: 1, maxItems: bulkItemsMax }

/** Every thing with every channel. The embedded database takes 15 µs for each, and does nothing else meanwhile. */
export const pairsMax = 5_000

const needsToken = { tags: ['connections'], security: tokenRequired }
const pairs = Type.Object({ channel_ids: Type.Array(channel, ids), thing_ids: Type.Array(thing, ids) }, { title: 'Connections' })
const ofEntities = ['unauthenticated', 'forbidden', 'not_found'] as const

export const connectSchema = {
  ...needsToken,
  operationId: 'connect',
  summary: 'Connect things to channels',
  description: `Each thing to each channel, at most ${pairsMax} pairs, all of them or none. You have to own them all; what is connected stays so.`,
  body: pairs,
  response: { 200: emptyObject('They are connected.'), ...errorAnswers(...bodyCodes, ...ofEntities) },
}

export const disconnectPairsSchema = {
  ...needsToken,
  operationId: 'disconnect',
  summary: 'Disconnect things from channels',
  description: `Each thing from each channel, at most ${pairsMax} pairs, all of them or none. You have to own them all; what is not connected stays so. The things may no longer publish or read there when this is answered.`,
  body: pairs,
  response: { 200: emptyObject('They are disconnected.'), ...errorAnswers(...bodyCodes, ...ofEntities) },
}

export const connectOneSchema = {
  ...needsToken,
  operationId: 'connectOne',
  summary: 'Connect a thing to a channel',
  description: 'Replaced by POST /connect. You have to own both; what is connected stays so.',
  deprecated: true,
  params: Type.Object({ channel, thing }),
  response: { 200: emptyAnswer('It is connected.', deprecationHeaders), ...errorAnswers(...bodyCodes, ...ofEntities) },
}

export const disconnectSchema = {
  ...needsToken,
  operationId: 'disconnectOne',
  summary: 'Disconnect a thing from a channel',
  description: 'You have to own both. The thing may no longer publish or read when this is answered.',
  params: Type.Object({ channel, thing }),
  response: { 204: emptyAnswer('It is disconnected.'), ...errorAnswers(...bodyCodes, ...ofEntities) },
}

const connectedQuery = {
  ...pageQuery,
  ...orderQuery,
  connected: Type.Optional(
    Type.Boolean({ description: 'false lists those of yours that are not connected. Without it: true.', examples: [true] }),
  ),
  disconnected: Type.Optional(
    Type.Boolean({ description: 'The opposite of `connected`, in the words of older clients.', examples: [false] }),
  ),
  metadata_as: Type.Optional(Type.Enum(['object', 'string'], { default: 'object', description: 'string gives metadata as JSON text.' })),
}

const metadata = Type.Optional(
  Type.Unknown({
    description: 'An object; with `metadata_as=string` its JSON text, `{}` where there is none.',
    examples: [{ location: 'roof' }],
  }),
)
const connectedThing = Type.Object({ ...thingSchema.properties, metadata }, { title: 'ConnectedThing' })
const connectedChannel = Type.Object({ ...channelSchema.properties, metadata }, { title: 'ConnectedChannel' })

export const thingsOfChannelSchema = {
  ...needsToken,
  operationId: 'listThingsOfChannel',
  summary: 'List the things of a channel',
  description: "The channel's owner may.",
  params: Type.Object({ channel }),
  querystring: Type.Object(connectedQuery),
  response: {
    200: Type.Object({ ...pageAnswer, ...orderAnswer, things: Type.Array(connectedThing) }, pageOptions('ConnectedThingsPage')),
    ...errorAnswers(...ofEntities),
  },
}

export const channelsOfThingSchema = {
  ...needsToken,
  operationId: 'listChannelsOfThing',
  summary: 'List the channels of a thing',
  description: "The thing's owner may.",
  params: Type.Object({ thing }),
  querystring: Type.Object(connectedQuery),
  response: {
    200: Type.Object({ ...pageAnswer, ...orderAnswer, channels: Type.Array(connectedChannel) }, pageOptions('ConnectedChannelsPage')),
    ...errorAnswers(...ofEntities),
  },
}
