// Requests and answers of channels.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, headersOf, tokenRequired } from '../answers.ts'
import { deprecationHeaders } from '../deprecation.ts'
import { bulkItemsMax, metadataQuery, metadataSchema, nameQuery, newEntitySchema } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { orderAnswer, orderQuery, pageAnswer, pageDescription, pageQuery } from '../page.ts'
import { changeCodes, eTagHeader } from '../versions.ts'

const id = idSchema("The channel's id.")
export const channelSchema = Type.Object(
  { id, name: Type.String({ examples: ['greenhouse'] }), metadata: Type.Optional(metadataSchema) },
  { description: 'The channel; without metadata where none was given.' },
)

const needsToken = { tags: ['channels'], security: tokenRequired }
const params = Type.Object({ channel: id })

export const createChannelSchema = {
  ...needsToken,
  summary: 'Create a channel',
  description: 'Replaced by POST /channels/bulk.',
  deprecated: true,
  body: newEntitySchema,
  response: {
    201: emptyAnswer('The channel is created.', { Location: '/channels/<channel id>', ...deprecationHeaders }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'unavailable'),
  },
}

export const createChannelsSchema = {
  ...needsToken,
  summary: 'Create channels',
  description: 'All of them or, when one is refused, none.',
  body: Type.Array(newEntitySchema, { minItems: 1, maxItems: bulkItemsMax }),
  response: {
    201: Type.Object(
      { channels: Type.Array(channelSchema) },
      { description: 'The channels, in the order of the request.', ...headersOf({ 'Access-Control-Expose-Headers': 'Location' }) },
    ),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'unavailable'),
  },
}

const channelsPage = Type.Object({ ...pageAnswer, ...orderAnswer, channels: Type.Array(channelSchema) }, pageDescription)

export const listChannelsSchema = {
  ...needsToken,
  summary: 'List your channels',
  querystring: Type.Object({ ...pageQuery, ...orderQuery, name: nameQuery, metadata: metadataQuery }),
  response: { 200: channelsPage, ...errorAnswers('malformed_request', 'query_too_large', 'unauthenticated', 'unavailable') },
}

export const viewChannelSchema = {
  ...needsToken,
  summary: 'View a channel',
  description: 'Its owner may.',
  params,
  response: {
    200: { ...channelSchema, ...headersOf(eTagHeader) },
    ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'not_found', 'unavailable'),
  },
}

export const updateChannelSchema = {
  ...needsToken,
  summary: 'Replace name and metadata of a channel',
  description: 'Its owner may. What is left out is empty afterwards.',
  params,
  body: newEntitySchema,
  response: { 200: emptyAnswer('It is changed.', eTagHeader), ...errorAnswers(...bodyCodes, ...changeCodes) },
}

export const removeChannelSchema = {
  ...needsToken,
  summary: 'Delete a channel',
  description:
    'Its owner may. Nobody publishes to it or reads it any more when this is answered, and live streams end; its messages stay until retention or `sluice erase`.',
  params,
  response: { 204: emptyAnswer('It is deleted.'), ...errorAnswers('malformed_request', ...changeCodes) },
}
