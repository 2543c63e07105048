// Requests and answers of provisioning (SPEC §4, Provisioning service).

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, tokenRequired } from '../answers.ts'
import { metadataSchema } from '../entity.ts'

const needsToken = { tags: ['provisioning'], security: tokenRequired }
const externalId = Type.String({ description: 'The id that the device has of itself: 1 to 254 bytes.', examples: ['02:42:ac:11:00:02'] })
const byThing = (description: string) => Type.Optional(Type.Record(Type.String(), Type.String(), { description }))
/** A dry run knows no ids and keys. */
const entity = { id: Type.Optional(Type.String()), name: Type.String(), metadata: Type.Optional(metadataSchema) }

const mapping = (description: string) =>
  Type.Object(
    {
      things: Type.Array(Type.Object({ ...entity, key: Type.Optional(Type.String()) })),
      channels: Type.Array(Type.Object(entity)),
      whitelisted: Type.Optional(Type.Record(Type.String(), Type.Boolean(), { description: 'By thing: whether it is connected.' })),
      certificates: Type.Optional(Type.Record(Type.String(), Type.Unknown(), { description: 'By thing: as POST /certs answers.' })),
      client_cert: byThing('By thing: PEM.'),
      client_key: byThing('By thing: PEM, in the first answer alone.'),
      ca_cert: Type.Optional(Type.String({ description: 'PEM.' })),
    },
    { description },
  )

export const makeMappingSchema = {
  ...needsToken,
  summary: 'Provision a device',
  description:
    'Makes the things, channels, connections, certificates and the bootstrap configuration of the layout, all or none. The same request again finds them. Needs member on users.',
  querystring: Type.Object({
    dry_run: Type.Optional(Type.Boolean({ description: 'true answers what would be made, and makes nothing.' })),
  }),
  body: Type.Object({
    external_id: externalId,
    external_key: Type.String({ description: 'The secret that the device shows: up to 256 bytes.', examples: ['f3a1c6d0b5e84c1f'] }),
    name: Type.Optional(
      Type.String({ description: "In place of the layout's, of the thing with the external id.", examples: ['gateway 7'] }),
    ),
  }),
  response: {
    200: mapping('What was made before; of a dry run what would be made, without ids and keys.'),
    201: mapping('What is made.'),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict', 'unavailable'),
  },
}

export const viewContentSchema = {
  ...needsToken,
  summary: "View the layout's bootstrap content",
  description: 'Needs member on users.',
  response: {
    200: Type.Record(Type.String(), Type.Unknown(), { description: 'The content, before its placeholders are filled.' }),
    ...errorAnswers('unauthenticated', 'forbidden', 'unavailable'),
  },
}

export const removeMappingSchema = {
  ...needsToken,
  summary: 'Undo the provisioning of a device',
  description: 'Its owner may, with the relation delete on each thing. Things, channels, connections, configuration and certificates go.',
  params: Type.Object({ external_id: externalId }),
  response: {
    204: emptyAnswer('It is undone.'),
    ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'not_found', 'unavailable'),
  },
}
