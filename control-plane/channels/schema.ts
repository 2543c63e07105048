// Requests and answers of channels.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, headersOf, tokenRequired } from '../answers.ts'
import { deprecationHeaders } from '../deprecation.ts'
import { bulkItemsMax, metadataQuery, metadataSchema, nameQuery, newEntitySchema } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { orderAnswer, orderQuery, pageAnswer, pageOptions, pageQuery } from '../page.ts'
import { changeCodes, eTagHeader, ifMatchHeaders } from '../versions.ts'

const id = idSchema('channel', "The channel's id.")
export const channelSchema = Type.Object(
  { id, name: Type.String({ examples: ['greenhouse'] }), metadata: Type.Optional(metadataSchema) },
  { title: 'Channel', description: 'The channel; without metadata where none was given.' },
)

const newChannel = newEntitySchema('NewChannel', 'greenhouse')

const needsToken = { tags: ['channels'], security: tokenRequired }
const params = Type.Object({ channel: id })

export const createChannelSchema = {
  ...needsToken,
  operationId: 'createChannel',
  summary: 'Create a channel',
  description: 'Replaced by POST /channels/bulk.',
  deprecated: true,
  body: newChannel,
  response: {
    201: emptyAnswer('The channel is created.', { Location: '/channels/<channel id>', ...deprecationHeaders }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'conflict'),
  },
}

export const createChannelsSchema = {
  ...needsToken,
  operationId: 'createChannels',
  summary: 'Create channels',
  description: 'All of them or, when one is refused, none.',
  body: Type.Array(newChannel, { minItems: 1, maxItems: bulkItemsMax }),
  response: {
    201: Type.Object(
      { channels: Type.Array(channelSchema) },
      {
        title: 'CreatedChannels',
        description: 'The channels, in the order of the request.',
        ...headersOf({ 'Access-Control-Expose-Headers': 'Location' }),
      },
    ),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'conflict'),
  },
}

const channelsPage = Type.Object({ ...pageAnswer, ...orderAnswer, channels: Type.Array(channelSchema) }, pageOptions('ChannelsPage'))

export const listChannelsSchema = {
  ...needsToken,
  operationId: 'listChannels',
  summary: 'List your channels',
  querystring: Type.Object({ ...pageQuery, ...orderQuery, name: nameQuery, metadata: metadataQuery }),
  response: { 200: channelsPage, ...errorAnswers('unauthenticated') },
}

export const viewChannelSchema = {
  ...needsToken,
  operationId: 'viewChannel',
  summary: 'View a channel',
  description: 'Its owner may.',
  params,
  response: {
    200: { ...channelSchema, ...headersOf(eTagHeader) },
    ...errorAnswers('unauthenticated', 'forbidden', 'not_found'),
  },
}

export const updateChannelSchema = {
  ...needsToken,
  operationId: 'updateChannel',
  summary: 'Replace name and metadata of a channel',
  description: 'Its owner may. What is left out is empty afterwards.',
  params,
  headers: ifMatchHeaders,
  body: newChannel,
  response: { 200: emptyAnswer('It is changed.', eTagHeader), ...errorAnswers(...bodyCodes, ...changeCodes) },
}

export const removeChannelSchema = {
  ...needsToken,
  operationId: 'removeChannel',
  summary: 'Delete a channel',
  description:
    'Its owner may. Nobody publishes to it or reads it any more when this is answered, and live streams end; its messages stay until retention or `sluice erase`.',
  params,
  headers: ifMatchHeaders,
  response: { 204: emptyAnswer('It is deleted.'), ...errorAnswers(...bodyCodes, ...changeCodes) },
}
