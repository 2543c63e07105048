// Requests and answers of things.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, headersOf, tokenRequired } from '../answers.ts'
import { deprecationHeaders } from '../deprecation.ts'
import { bulkItemsMax, metadataSchema, newEntitySchema } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { pageAnswer, pageQuery } from '../page.ts'

const id = idSchema("The thing's id.")
const name = Type.String()
const key = Type.String({ description: 'The secret that the thing sends as `Authorization: Thing <key>`.' })

const thing = Type.Object(
  { id, name, key, metadata: Type.Optional(metadataSchema) },
  { description: 'The thing; without metadata where none was given.' },
)

const needsToken = { tags: ['things'], security: tokenRequired }

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
      { things: Type.Array(Type.Object({ id, name, key })) },
      { description: 'The things, in the order of the request.', ...headersOf({ 'Access-Control-Expose-Headers': 'Location' }) },
    ),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'unavailable'),
  },
}

export const listThingsSchema = {
  ...needsToken,
  summary: 'List your things',
  querystring: Type.Object({
    ...pageQuery,
    name: Type.Optional(Type.String({ description: 'Only things of this name.' })),
    metadata: Type.Optional(
      Type.String({ description: 'Only things whose metadata contains this JSON object.', examples: ['{"location":"roof"}'] }),
    ),
  }),
  response: {
    200: Type.Object({ ...pageAnswer, things: Type.Array(thing) }, { description: 'In the order of creation.' }),
    ...errorAnswers('malformed_request', 'unauthenticated', 'unavailable'),
  },
}

export const viewThingSchema = {
  ...needsToken,
  summary: 'View a thing',
  description: 'Needs the relation read on the thing.',
  params: Type.Object({ thing: id }),
  response: {
    200: thing,
    ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'not_found', 'unavailable'),
  },
}
