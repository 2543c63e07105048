// Requests and answers of bootstrap configurations, with the field names that agents and SDKs of the origin read beside ours.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { csrSchema, issuedSchema, pemSchema, ttlSchema } from '../certificates/schema.ts'
import { channelSchema } from '../channels/schema.ts'
import { bulkItemsMax, nameQuery } from '../entity.ts'
import { exampleIds, idSchema } from '../ids.ts'
import { emptyAnswer, headersOf, tokenRequired } from '../requests/answers.ts'
import { pageAnswer, pageOptions, pageQuery } from '../requests/page.ts'
import { eTagHeader, ifMatchHeaders, writeCodes } from '../versions.ts'

/** Bytes of a configuration's content, and of each certificate and key. */
export const contentBytesMax = 65_536

const thing = idSchema('thing', "The thing's id.")
const channelIds = Type.Array(idSchema('channel', "A channel's id."), { maxItems: bulkItemsMax })
const state = Type.Integer({ minimum: 0, maximum: 1, description: '1 if the thing is connected to the channels.', examples: [1] })
export const externalId = Type.String({
  description: "The device's own id: 1 to 254 bytes.",
  examples: ['02:42:ac:11:00:02'],
})
export const externalKey = Type.String({
  description: 'The secret that the device sends: up to 256 bytes.',
  examples: ['f3a1c6d0b5e84c1f'],
})

const needsToken = { tags: ['bootstrap'], security: tokenRequired }
const showsExternalKey = { tags: ['bootstrap'], security: [{ external: [] }] }
const params = Type.Object({ thing })
const deviceParams = Type.Object({ external_id: externalId })

const content = Type.Optional(
  Type.String({
    description: 'What the device configures itself with; agents expect JSON text.',
    examples: ['{"agent":{"log":{"level":"info"}}}'],
  }),
)
const name = Type.Optional(Type.String({ description: 'At most 1024 bytes in UTF-8.', examples: ['gateway 7'] }))
const certificates = {
  client_cert: Type.Optional(pemSchema('CERTIFICATE', 'PEM.')),
  client_key: Type.Optional(pemSchema('PRIVATE KEY', 'PEM; erased here once the device has it.')),
  ca_cert: Type.Optional(pemSchema('CERTIFICATE', 'PEM.')),
}

const key = '5f0c2b7e-8d1a-4c47-9a52-0c4d6f1be7a9'
/** Each under two names: clients read either lists of ids or lists of objects. */
const thingFields = {
  thing_id: thing,
  thing_key: Type.String({ description: 'What the thing sends as `Authorization: Thing <key>`.', examples: [key] }),
  channels: Type.Array(Type.String({ examples: [exampleIds.channel] }), { description: 'Ids, in order.' }),
  channel_details: Type.Array(channelSchema),
  mainflux_id: Type.String({ description: 'As `thing_id`.', examples: [exampleIds.thing] }),
  mainflux_key: Type.String({ description: 'As `thing_key`.', examples: [key] }),
  mainflux_channels: Type.Array(channelSchema, { description: 'As `channel_details`.' }),
}

const bootstrapConfigSchema = Type.Object(
  {
    ...thingFields,
    external_id: externalId,
    name,
    content,
    state,
    enabled: Type.Boolean({ description: 'Whether the device may fetch it.', examples: [true] }),
    fetched_at: Type.Optional(Type.String({ description: 'RFC 3339, of the last fetch.', examples: ['2026-01-01T08:30:00Z'] })),
  },
  { title: 'BootstrapConfiguration', description: 'The configuration; external key, certificates and private key are not shown.' },
)

export const createBootstrapConfigSchema = {
  ...needsToken,
  operationId: 'createConfiguration',
  summary: 'Create a bootstrap configuration',
  description: 'For one of your things; if none is given, a thing is created. You must own the channels.',
  body: Type.Object(
    {
      external_id: externalId,
      external_key: externalKey,
      thing_id: Type.Optional(thing),
      channels: Type.Optional(channelIds),
      name,
      content,
      ...certificates,
    },
    { title: 'NewBootstrapConfiguration' },
  ),
  response: {
    201: emptyAnswer('Created.', { Location: '/things/configs/<thing id>' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
  },
}

export const listBootstrapConfigsSchema = {
  ...needsToken,
  operationId: 'listConfigurations',
  summary: 'List your bootstrap configurations',
  querystring: Type.Object({
    ...pageQuery,
    state: Type.Optional(state),
    external_id: Type.Optional(externalId),
    mainflux_id: Type.Optional(thing),
    mainflux_key: Type.Optional(Type.String({ description: 'The key of the thing.', examples: [key] })),
    name: nameQuery,
  }),
  response: {
    200: Type.Object({ ...pageAnswer, configs: Type.Array(bootstrapConfigSchema) }, pageOptions('ConfigurationsPage')),
    ...errorAnswers('unauthenticated', 'forbidden'),
  },
}

export const viewBootstrapConfigSchema = {
  ...needsToken,
  operationId: 'viewConfiguration',
  summary: 'View a bootstrap configuration',
  description: 'Only for its owner.',
  params,
  response: {
    200: { ...bootstrapConfigSchema, ...headersOf(eTagHeader) },
    ...errorAnswers('unauthenticated', 'forbidden', 'not_found'),
  },
}

const updateAnswers = { 200: emptyAnswer('Changed.', eTagHeader), ...errorAnswers(...bodyCodes, ...writeCodes) }

export const updateBootstrapConfigSchema = {
  ...needsToken,
  operationId: 'updateConfiguration',
  summary: 'Change name and content, or enable and disable',
  description:
    'Only for its owner. Omitted fields stay unchanged. While it is disabled, a fetch returns 403 and the thing is connected to none of its channels.',
  params,
  headers: ifMatchHeaders,
  body: Type.Object(
    { name, content, enabled: Type.Optional(Type.Boolean({ description: 'Whether the device may fetch it.', examples: [false] })) },
    { title: 'ConfigurationChange' },
  ),
  response: updateAnswers,
}

export const updateCertificatesSchema = {
  ...needsToken,
  operationId: 'updateConfigurationCertificates',
  summary: 'Change the certificates that the device gets',
  description: 'Only for its owner. Omitted fields stay unchanged; an empty text removes one.',
  params,
  headers: ifMatchHeaders,
  body: Type.Object(certificates, { title: 'ConfigurationCertificates' }),
  response: updateAnswers,
}

export const updateConnectionsSchema = {
  ...needsToken,
  operationId: 'updateConfigurationChannels',
  summary: 'Change the channels of a configuration',
  description:
    'Only for its owner, who must also own the channels. In state 1 the thing is connected to these and disconnected from the others.',
  params,
  headers: ifMatchHeaders,
  body: Type.Object({ channels: channelIds }, { title: 'ConfigurationChannels' }),
  response: updateAnswers,
}

export const updateStateSchema = {
  ...needsToken,
  operationId: 'setConfigurationState',
  summary: 'Connect the thing to the channels of its configuration, or disconnect it',
  description: 'Only for its owner. A device can fetch its configuration in either state.',
  params,
  headers: ifMatchHeaders,
  body: Type.Object(
    { state: Type.Integer({ default: 0, minimum: 0, maximum: 1, description: '1 connects, 0 disconnects.', examples: [1] }) },
    { title: 'ConfigurationState' },
  ),
  response: updateAnswers,
}

export const removeBootstrapConfigSchema = {
  ...needsToken,
  operationId: 'removeConfiguration',
  summary: 'Delete a bootstrap configuration',
  description: 'Only for its owner. The thing and its connections stay.',
  params,
  headers: ifMatchHeaders,
  response: { 204: emptyAnswer('Deleted.'), ...errorAnswers(...bodyCodes, ...writeCodes) },
}

export const fetchBootstrapConfigSchema = {
  ...showsExternalKey,
  operationId: 'fetchConfiguration',
  summary: 'Fetch the configuration of a device',
  description:
    'For the device itself. An unknown id and a wrong key return the same 401; after twenty of them within a minute this id and network get 429, but the right key never does.',
  params: deviceParams,
  headers: Type.Object({
    'if-none-match': Type.Optional(
      Type.String({ description: 'An `ETag` of an earlier answer: 304 if nothing has changed.', examples: ['"3f2a"'] }),
    ),
  }),
  response: {
    200: Type.Object(
      {
        ...thingFields,
        content: Type.String({ description: 'JSON text.', examples: ['{"agent":{"log":{"level":"info"}}}'] }),
        ...certificates,
      },
      { title: 'FetchedConfiguration', description: 'The configuration.', ...headersOf({ ETag: 'For If-None-Match.' }) },
    ),
    304: emptyAnswer('Not changed.'),
    ...errorAnswers('unauthenticated', 'forbidden'),
  },
}

export const acknowledgeSchema = {
  ...showsExternalKey,
  operationId: 'acknowledgePrivateKey',
  summary: 'Acknowledge that the private key is stored',
  description: 'For the device itself. The private key is erased here, and no later fetch returns it.',
  params: deviceParams,
  response: { 204: emptyAnswer('Erased.'), ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden') },
}

export const certifySchema = {
  ...showsExternalKey,
  operationId: 'certifyDevice',
  summary: 'Issue a certificate for a key that the device keeps',
  description:
    'For the device itself. Later fetches return this certificate; the previous one is revoked (not in mode `development`), and its private key is erased.',
  params: deviceParams,
  body: Type.Object({ csr: csrSchema, ttl: ttlSchema }, { title: 'DeviceCertificateRequest' }),
  response: { 201: issuedSchema, ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict') },
}
