// Requests and answers of bootstrap configurations. Beside our names stand those that agents and SDKs of the origin read.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, headersOf, tokenRequired } from '../answers.ts'
import { channelSchema } from '../channels/schema.ts'
import { bulkItemsMax, nameQuery } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { pageAnswer, pageDescription, pageQuery } from '../page.ts'
import { changeCodes, eTagHeader } from '../versions.ts'

/** Of a configuration's content, and of each certificate and key. */
export const contentBytesMax = 65_536

const thing = idSchema("The thing's id.")
const channelIds = Type.Array(idSchema("A channel's id."), { maxItems: bulkItemsMax })
const state = Type.Integer({ minimum: 0, maximum: 1, description: '1 where the thing is connected to the channels.', examples: [1] })
const externalId = Type.String({ description: 'The id that the device has of itself: 1 to 254 bytes.', examples: ['02:42:ac:11:00:02'] })
const externalKey = Type.String({ description: 'The secret that the device shows: up to 256 bytes.', examples: ['f3a1c6d0b5e84c1f'] })

const needsToken = { tags: ['bootstrap'], security: tokenRequired }
const showsExternalKey = { tags: ['bootstrap'], security: [{ external: [] }] }
const params = Type.Object({ thing })
const ofDevice = Type.Object({ external_id: externalId })

const content = Type.Optional(Type.String({ description: 'What the device configures itself with; agents expect JSON text.' }))
const name = Type.Optional(Type.String({ description: 'At most 1024 bytes in UTF-8.', examples: ['gateway 7'] }))
const pem = (description: string) => Type.Optional(Type.String({ description }))
const certificates = {
  client_cert: pem('PEM.'),
  client_key: pem('PEM; erased here once the device has it.'),
  ca_cert: pem('PEM.'),
}

/** The same under two names each: lists of ids and of objects for those who read either. */
const ofThing = {
  thing_id: thing,
  thing_key: Type.String({ description: 'What the thing sends as `Authorization: Thing <key>`.' }),
  channels: Type.Array(Type.String(), { description: 'Ids, in order.' }),
  channel_details: Type.Array(channelSchema),
  mainflux_id: Type.String({ description: 'As `thing_id`.' }),
  mainflux_key: Type.String({ description: 'As `thing_key`.' }),
  mainflux_channels: Type.Array(channelSchema, { description: 'As `channel_details`.' }),
}

const configSchema = Type.Object(
  {
    ...ofThing,
    external_id: Type.String(),
    name: Type.Optional(Type.String()),
    content,
    state,
    enabled: Type.Boolean(),
    fetched_at: Type.Optional(Type.String({ description: 'RFC 3339, of the last fetch.' })),
  },
  { description: 'The configuration; external key, certificates and private key are not shown.' },
)

export const createConfigSchema = {
  ...needsToken,
  summary: 'Create a bootstrap configuration',
  description: 'For a thing of yours, or for one that is made. You have to own the channels.',
  body: Type.Object({
    external_id: externalId,
    external_key: externalKey,
    thing_id: Type.Optional(thing),
    channels: Type.Optional(channelIds),
    name,
    content,
    ...certificates,
  }),
  response: {
    201: emptyAnswer('It is created.', { Location: '/things/configs/<thing id>' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'unavailable'),
  },
}

export const listConfigsSchema = {
  ...needsToken,
  summary: 'List your bootstrap configurations',
  querystring: Type.Object({
    ...pageQuery,
    state: Type.Optional(state),
    external_id: Type.Optional(externalId),
    mainflux_id: Type.Optional(thing),
    mainflux_key: Type.Optional(Type.String({ description: 'The key of the thing.' })),
    name: nameQuery,
  }),
  response: {
    200: Type.Object({ ...pageAnswer, configs: Type.Array(configSchema) }, pageDescription),
    ...errorAnswers('malformed_request', 'unauthenticated', 'unavailable'),
  },
}

export const viewConfigSchema = {
  ...needsToken,
  summary: 'View a bootstrap configuration',
  description: 'Its owner may.',
  params,
  response: {
    200: { ...configSchema, ...headersOf(eTagHeader) },
    ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'not_found', 'unavailable'),
  },
}

const changed = { 200: emptyAnswer('It is changed.', eTagHeader), ...errorAnswers(...bodyCodes, ...changeCodes) }

export const updateConfigSchema = {
  ...needsToken,
  summary: 'Change name and content, or enable and disable',
  description:
    'Its owner may. What is left out stays. While it is disabled, fetching it is 403 and the thing is connected to none of its channels.',
  params,
  body: Type.Object({ name, content, enabled: Type.Optional(Type.Boolean()) }),
  response: changed,
}

export const updateCertificatesSchema = {
  ...needsToken,
  summary: 'Change the certificates that the device gets',
  description: 'Its owner may. What is left out stays, and an empty text is none.',
  params,
  body: Type.Object(certificates),
  response: changed,
}

export const updateConnectionsSchema = {
  ...needsToken,
  summary: 'Change the channels of a configuration',
  description: 'Its owner may, with channels that they own. In state 1 the thing is connected to these, and disconnected from the others.',
  params,
  body: Type.Object({ channels: channelIds }),
  response: changed,
}

export const updateStateSchema = {
  ...needsToken,
  summary: 'Connect the thing to the channels of its configuration, or disconnect it',
  description: 'Its owner may. A device fetches its configuration in either state.',
  params,
  body: Type.Object({
    state: Type.Integer({ default: 0, minimum: 0, maximum: 1, description: '1 connects, 0 disconnects.', examples: [1] }),
  }),
  response: changed,
}

export const removeConfigSchema = {
  ...needsToken,
  summary: 'Delete a bootstrap configuration',
  description: 'Its owner may. The thing and its connections stay.',
  params,
  response: { 204: emptyAnswer('It is deleted.'), ...errorAnswers('malformed_request', ...changeCodes) },
}

export const fetchConfigSchema = {
  ...showsExternalKey,
  summary: 'Fetch the configuration of a device',
  description:
    'By the device itself. An unknown id and a wrong key are the same 401; after twenty of them within a minute it is 429 for this id and network, but never for the right key.',
  params: ofDevice,
  response: {
    200: Type.Object(
      { ...ofThing, content: Type.String({ description: 'JSON text.' }), ...certificates },
      { description: 'The configuration.', ...headersOf({ ETag: 'For If-None-Match.' }) },
    ),
    304: emptyAnswer('It is as it was.'),
    ...errorAnswers('unauthenticated', 'forbidden', 'unavailable'),
  },
}

export const acknowledgeSchema = {
  ...showsExternalKey,
  summary: 'Acknowledge that the private key is stored',
  description: 'By the device itself. It is erased here, and no later fetch gives it.',
  params: ofDevice,
  response: { 204: emptyAnswer('It is erased.'), ...errorAnswers('unauthenticated', 'forbidden', 'unavailable') },
}
