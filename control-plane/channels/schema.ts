// Requests and answers of channels.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, headersOf, tokenRequired } from '../answers.ts'
import { deprecationHeaders } from '../deprecation.ts'
import { bulkItemsMax, newEntitySchema } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { pageAnswer, pageQuery } from '../page.ts'

const channel = Type.Object({ id: idSchema("The channel's id."), name: Type.String() })

const needsToken = { tags: ['channels'], security: tokenRequired }

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
      { channels: Type.Array(channel) },
      { description: 'The channels, in the order of the request.', ...headersOf({ 'Access-Control-Expose-Headers': 'Location' }) },
    ),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'unavailable'),
  },
}

export const listChannelsSchema = {
  ...needsToken,
  summary: 'List your channels',
  querystring: Type.Object(pageQuery),
  response: {
    200: Type.Object({ ...pageAnswer, channels: Type.Array(channel) }, { description: 'In the order of creation.' }),
    ...errorAnswers('malformed_request', 'unauthenticated', 'unavailable'),
  },
}
