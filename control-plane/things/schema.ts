// Requests and answers of things.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { bulkItemsMax, metadataQuery, metadataSchema, nameQuery, newEntitySchema } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { deprecationHeaders, emptyAnswer, emptyObject, headersOf, tokenRequired } from '../requests/answers.ts'
import { orderAnswer, orderQuery, pageAnswer, pageOptions, pageQuery } from '../requests/page.ts'
import { eTagHeader, ifMatchHeaders, writeCodes } from '../versions.ts'

const id = idSchema('thing', "The thing's id.")
const name = Type.String({ examples: ['weather station'] })
const key = Type.Optional(
  Type.String({
    description: 'The secret that the thing sends as `Authorization: Thing <key>`. Absent for an API key with a scope.',
    examples: ['5f0c2b7e-8d1a-4c47-9a52-0c4d6f1be7a9'],
  }),
)

export const thingSchema = Type.Object(
  { id, name, key, metadata: Type.Optional(metadataSchema) },
  { title: 'Thing', description: 'The thing; without metadata if none was given.' },
)

const newThing = newEntitySchema('NewThing', 'weather station')

const needsToken = { tags: ['things'], security: tokenRequired }
const params = Type.Object({ thing: id })
/** The longest grace period. A day reaches devices that wake up once a day; a month reaches those that are away. */
const graceSecondsMax = 30 * 86_400

export const createThingSchema = {
  ...needsToken,
  operationId: 'createThing',
  summary: 'Create a thing',
  description: 'Replaced by POST /things/bulk, which also returns the key.',
  deprecated: true,
  body: newThing,
  response: {
    201: emptyAnswer('The thing is created.', { Location: '/things/<thing id>', ...deprecationHeaders }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict'),
  },
}

export const createThingsSchema = {
  ...needsToken,
  operationId: 'createThings',
  summary: 'Create things',
  description: 'Creates all of them, or none if one is refused.',
  body: Type.Array(newThing, { minItems: 1, maxItems: bulkItemsMax }),
  response: {
    201: Type.Object(
      { things: Type.Array(thingSchema) },
      {
        title: 'CreatedThings',
        description: 'The things, in the order of the request.',
        ...headersOf({ 'Access-Control-Expose-Headers': 'Location' }),
      },
    ),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict'),
  },
}

const thingsPage = Type.Object({ ...pageAnswer, ...orderAnswer, things: Type.Array(thingSchema) }, pageOptions('ThingsPage'))

/** An empty one counts as left out. */
const externalIdQuery = Type.Optional(
  Type.String({
    description: 'Only the things of your device with this external id: of its mapping and of its bootstrap configuration.',
    examples: ['02:42:ac:11:00:02'],
  }),
)

export const listThingsSchema = {
  ...needsToken,
  operationId: 'listThings',
  summary: 'List your things',
  querystring: Type.Object({
    ...pageQuery,
    ...orderQuery,
    name: nameQuery,
    metadata: metadataQuery,
    external_id: externalIdQuery,
    shared: Type.Optional(
      Type.Boolean({
        description: 'true also lists the things of others that you may read: shared with you, with your groups, or with everyone.',
        examples: [true],
      }),
    ),
  }),
  response: { 200: thingsPage, ...errorAnswers('query_too_large', 'unauthenticated', 'forbidden') },
}

export const searchThingsSchema = {
  ...needsToken,
  operationId: 'searchThings',
  summary: 'Search your things',
  description: 'Like GET /things, with the filters in a body of any content type.',
  body: Type.Object(
    { ...pageQuery, ...orderQuery, name: nameQuery, metadata: Type.Optional(metadataSchema), external_id: externalIdQuery },
    { title: 'ThingsSearch', optionalBody: true },
  ),
  response: { 200: thingsPage, ...errorAnswers(...bodyCodes, 'query_too_large', 'unauthenticated', 'forbidden') },
}

export const viewThingSchema = {
  ...needsToken,
  operationId: 'viewThing',
  summary: 'View a thing',
  description: 'Needs the relation read on the thing.',
  params,
  response: {
    200: { ...thingSchema, ...headersOf(eTagHeader) },
    ...errorAnswers('unauthenticated', 'forbidden', 'not_found'),
  },
}

export const updateThingSchema = {
  ...needsToken,
  operationId: 'updateThing',
  summary: 'Replace name and metadata of a thing',
  description: 'Needs the relation write on the thing. Omitted fields become empty.',
  params,
  headers: ifMatchHeaders,
  body: newThing,
  response: { 200: emptyAnswer('Changed.', eTagHeader), ...errorAnswers(...bodyCodes, ...writeCodes) },
}

export const removeThingSchema = {
  ...needsToken,
  operationId: 'removeThing',
  summary: 'Delete a thing',
  description: 'Needs the relation delete on the thing. Once this is answered its key is refused everywhere; its messages stay.',
  params,
  headers: ifMatchHeaders,
  response: { 204: emptyAnswer('Deleted.'), ...errorAnswers(...bodyCodes, ...writeCodes) },
}

const share = Type.Object(
  {
    user_ids: Type.Array(idSchema('user', "A user's id."), { minItems: 1, maxItems: 100 }),
    policies: Type.Array(Type.Enum(['read', 'write', 'delete']), { minItems: 1, maxItems: 3, examples: [['read']] }),
  },
  { title: 'ThingShare' },
)
const sharing = { ...needsToken, tags: ['sharing'] }

export const shareThingSchema = {
  ...sharing,
  operationId: 'shareThing',
  summary: 'Share a thing',
  description:
    'Gives users rights on the thing; with read they also see its key. Needs the relation write; a caller who does not own the thing can give only the rights that they have.',
  params,
  body: share,
  response: {
    200: emptyObject('Shared.'),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found'),
  },
}

export const unshareThingSchema = {
  ...sharing,
  operationId: 'unshareThing',
  summary: 'Stop sharing a thing',
  description:
    'Removes rights that users were given directly; rights through a group stay, and so do those of the owner. Who could read the thing knows its key, until that is replaced.',
  params,
  querystring: Type.Object({
    rotate_key: Type.Optional(
      Type.Boolean({
        description:
          "true also replaces the thing's key, in the same step: the old one is refused at once, and GET /things/{thing} has the new one. Only for the thing's owner.",
        examples: [true],
      }),
    ),
  }),
  body: share,
  response: {
    204: emptyAnswer('No longer shared.'),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
  },
}

export const rotateKeySchema = {
  ...needsToken,
  operationId: 'rotateKey',
  summary: 'Replace the key of a thing',
  description: "Only for the thing's owner. The previous key stays valid for the requested seconds; without them it ends at once.",
  params,
  headers: ifMatchHeaders,
  body: Type.Object(
    {
      grace_seconds: Type.Integer({
        default: 0,
        minimum: 0,
        maximum: graceSecondsMax,
        description: 'How many seconds the previous key stays valid.',
        examples: [86_400],
      }),
    },
    { title: 'KeyRotation', optionalBody: true },
  ),
  response: {
    200: Type.Object({ key }, { title: 'RotatedKey', description: 'The new key.', ...headersOf(eTagHeader) }),
    ...errorAnswers(...bodyCodes, ...writeCodes, 'conflict'),
  },
}
