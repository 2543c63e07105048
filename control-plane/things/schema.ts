// Requests and answers of things.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, headersOf, tokenRequired } from '../answers.ts'
import { deprecationHeaders } from '../deprecation.ts'
import { bulkItemsMax, metadataQuery, metadataSchema, nameQuery, newEntitySchema } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { orderAnswer, orderQuery, pageAnswer, pageDescription, pageQuery } from '../page.ts'
import { changeCodes, eTagHeader } from '../versions.ts'

const id = idSchema("The thing's id.")
const name = Type.String({ examples: ['weather station'] })
const key = Type.String({
  description: 'The secret that the thing sends as `Authorization: Thing <key>`.',
  examples: ['5f0c2b7e-8d1a-4c47-9a52-0c4d6f1be7a9'],
})

export const thingSchema = Type.Object(
  { id, name, key, metadata: Type.Optional(metadataSchema) },
  { description: 'The thing; without metadata where none was given.' },
)

const needsToken = { tags: ['things'], security: tokenRequired }
const params = Type.Object({ thing: id })
/** A day is enough to reach devices that wake once in it, and a month those that are away. */
const graceSecondsMax = 30 * 86_400

export const createThingSchema = {
  ...needsToken,
  summary: 'Create a thing',
  description: 'Replaced by POST /things/bulk, which also answers the key.',
  deprecated: true,
  body: newEntitySchema,
  response: {
    201: emptyAnswer('The thing is created.', { Location: '/things/<thing id>', ...deprecationHeaders }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'unavailable'),
  },
}

export const createThingsSchema = {
  ...needsToken,
  summary: 'Create things',
  description: 'All of them or, when one is refused, none.',
  body: Type.Array(newEntitySchema, { minItems: 1, maxItems: bulkItemsMax }),
  response: {
    201: Type.Object(
      { things: Type.Array(thingSchema) },
      { description: 'The things, in the order of the request.', ...headersOf({ 'Access-Control-Expose-Headers': 'Location' }) },
    ),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'unavailable'),
  },
}

const thingsPage = Type.Object({ ...pageAnswer, ...orderAnswer, things: Type.Array(thingSchema) }, pageDescription)

export const listThingsSchema = {
  ...needsToken,
  summary: 'List your things',
  querystring: Type.Object({
    ...pageQuery,
    ...orderQuery,
    name: nameQuery,
    metadata: metadataQuery,
    shared: Type.Optional(
      Type.Boolean({
        description: 'true also lists the things of others that you may read: shared with you, with your groups, or with everybody.',
      }),
    ),
  }),
  response: { 200: thingsPage, ...errorAnswers('malformed_request', 'query_too_large', 'unauthenticated', 'unavailable') },
}

export const searchThingsSchema = {
  ...needsToken,
  summary: 'Search your things',
  description: 'As GET /things, with what is asked in the body, whose content type may be any.',
  body: Type.Object({ ...pageQuery, ...orderQuery, name: nameQuery, metadata: Type.Optional(metadataSchema) }, { optionalBody: true }),
  response: { 200: thingsPage, ...errorAnswers('malformed_request', 'query_too_large', 'too_large', 'unauthenticated', 'unavailable') },
}

export const viewThingSchema = {
  ...needsToken,
  summary: 'View a thing',
  description: 'Needs the relation read on the thing.',
  params,
  response: {
    200: { ...thingSchema, ...headersOf(eTagHeader) },
    ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'not_found', 'unavailable'),
  },
}

export const updateThingSchema = {
  ...needsToken,
  summary: 'Replace name and metadata of a thing',
  description: 'Needs the relation write on the thing. What is left out is empty afterwards.',
  params,
  body: newEntitySchema,
  response: { 200: emptyAnswer('It is changed.', eTagHeader), ...errorAnswers(...bodyCodes, ...changeCodes) },
}

export const removeThingSchema = {
  ...needsToken,
  summary: 'Delete a thing',
  description: 'Needs the relation delete on the thing. Its key opens nothing any more when this is answered; its messages stay.',
  params,
  response: { 204: emptyAnswer('It is deleted.'), ...errorAnswers('malformed_request', ...changeCodes) },
}

const share = Type.Object({
  user_ids: Type.Array(idSchema("A user's id."), { minItems: 1, maxItems: 100 }),
  policies: Type.Array(Type.Enum(['read', 'write', 'delete']), { minItems: 1, maxItems: 3, examples: [['read']] }),
})

export const shareThingSchema = {
  ...needsToken,
  summary: 'Share a thing',
  description: 'Gives users rights on it. Needs the relation write; who does not own the thing gives only what they hold.',
  params,
  body: share,
  response: {
    200: Type.Object({}, { description: 'They have these rights.' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'unavailable'),
  },
}

export const unshareThingSchema = {
  ...needsToken,
  summary: 'Stop sharing a thing',
  description: 'Takes rights back that users were given by name; those they have through a group stay. The owner keeps theirs.',
  params,
  body: share,
  response: {
    204: emptyAnswer('They have these rights no more.'),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'unavailable'),
  },
}

export const rotateKeySchema = {
  ...needsToken,
  summary: 'Give a thing another key',
  description: "The thing's owner may. The key before is good for as many seconds as asked, and ends at once without any.",
  params,
  body: Type.Object(
    {
      grace_seconds: Type.Integer({
        default: 0,
        minimum: 0,
        maximum: graceSecondsMax,
        description: 'How long the key before stays good.',
        examples: [86_400],
      }),
    },
    { optionalBody: true },
  ),
  response: {
    200: Type.Object({ key }, { description: 'The new key.', ...headersOf(eTagHeader) }),
    ...errorAnswers(...bodyCodes, ...changeCodes),
  },
}
