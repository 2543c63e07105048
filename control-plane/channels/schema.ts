// Requests and answers of channels.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { bulkItemsMax, metadataQuery, metadataSchema, nameQuery, newEntitySchema } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { deprecationHeaders, emptyAnswer, headersOf, tokenRequired } from '../requests/answers.ts'
import { orderAnswer, orderQuery, pageAnswer, pageOptions, pageQuery } from '../requests/page.ts'
import { eTagHeader, ifMatchHeaders, writeCodes } from '../versions.ts'

const id = idSchema('channel', "The channel's id.")
export const channelSchema = Type.Object(
  { id, name: Type.String({ examples: ['greenhouse'] }), metadata: Type.Optional(metadataSchema) },
  { title: 'Channel', description: 'The channel; without metadata if none was given.' },
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
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict'),
  },
}

export const createChannelsSchema = {
  ...needsToken,
  operationId: 'createChannels',
  summary: 'Create channels',
  description: 'Creates all of them, or none if one is refused.',
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
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict'),
  },
}

const channelsPage = Type.Object({ ...pageAnswer, ...orderAnswer, channels: Type.Array(channelSchema) }, pageOptions('ChannelsPage'))

export const listChannelsSchema = {
  ...needsToken,
  operationId: 'listChannels',
  summary: 'List your channels',
  querystring: Type.Object({ ...pageQuery, ...orderQuery, name: nameQuery, metadata: metadataQuery }),
  response: { 200: channelsPage, ...errorAnswers('query_too_large', 'unauthenticated', 'forbidden') },
}

export const viewChannelSchema = {
  ...needsToken,
  operationId: 'viewChannel',
  summary: 'View a channel',
  description: 'Only for its owner.',
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
  description: 'Only for its owner. Omitted fields become empty.',
  params,
  headers: ifMatchHeaders,
  body: newChannel,
  response: { 200: emptyAnswer('Changed.', eTagHeader), ...errorAnswers(...bodyCodes, ...writeCodes) },
}

export const removeChannelSchema = {
  ...needsToken,
  operationId: 'removeChannel',
  summary: 'Delete a channel',
  description:
    'Only for its owner. Once this is answered, publishing to it and reading it are refused, and live streams have ended; its messages stay in the stores until their retention ends.',
  params,
  headers: ifMatchHeaders,
  response: { 204: emptyAnswer('Deleted.'), ...errorAnswers(...bodyCodes, ...writeCodes) },
}
