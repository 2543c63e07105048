// Requests and answers of connections.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, tokenRequired } from '../answers.ts'
import { bulkItemsMax } from '../entity.ts'
import { idSchema } from '../ids.ts'

const thing = idSchema("A thing's id.")
const channel = idSchema("A channel's id.")
const ids = { minItems: 1, maxItems: bulkItemsMax }

/** Every thing with every channel. The embedded database takes 15 µs for each, and does nothing else meanwhile. */
export const pairsMax = 5_000

const needsToken = { tags: ['connections'], security: tokenRequired }

export const connectSchema = {
  ...needsToken,
  summary: 'Connect things to channels',
  description: `Each thing to each channel, at most ${pairsMax} pairs, all of them or none. You have to own them all; what is connected stays so.`,
  body: Type.Object({ channel_ids: Type.Array(channel, ids), thing_ids: Type.Array(thing, ids) }, { additionalProperties: false }),
  response: {
    200: Type.Object({}, { description: 'They are connected.' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'unavailable'),
  },
}

export const disconnectSchema = {
  ...needsToken,
  summary: 'Disconnect a thing from a channel',
  description: 'You have to own both. The thing may no longer publish or read when this is answered.',
  params: Type.Object({ channel, thing }),
  response: {
    204: emptyAnswer('It is disconnected.'),
    ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'not_found', 'unavailable'),
  },
}
