// Requests and answers of provisioning (SPEC §4, Provisioning service).

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, tokenRequired } from '../answers.ts'
import { metadataSchema } from '../entity.ts'
import { exampleIds } from '../ids.ts'

const needsToken = { tags: ['provisioning'], security: tokenRequired }
const externalId = Type.String({ description: 'The id that the device has of itself: 1 to 254 bytes.', examples: ['02:42:ac:11:00:02'] })
const ofThing = (value: unknown) => ({ examples: [{ [exampleIds.thing]: value }] })
const pem = (kind: string) => `-----BEGIN ${kind}-----\n…\n-----END ${kind}-----\n`
const pemByThing = (kind: string, description: string) =>
  Type.Optional(Type.Record(Type.String(), Type.String(), { description, ...ofThing(pem(kind)) }))
/** A dry run knows no ids and keys. */
const isUnknown = 'Absent from a dry run.'

const mapping = Type.Object(
  {
    things: Type.Array(
      Type.Object(
        {
          id: Type.Optional(Type.String({ description: isUnknown, examples: [exampleIds.thing] })),
          name: Type.String({ examples: ['gateway 7'] }),
          key: Type.Optional(Type.String({ description: isUnknown, examples: ['5f0c2b7e-8d1a-4c47-9a52-0c4d6f1be7a9'] })),
          metadata: Type.Optional(metadataSchema),
        },
        { title: 'MappedThing' },
      ),
    ),
    channels: Type.Array(
      Type.Object(
        {
          id: Type.Optional(Type.String({ description: isUnknown, examples: [exampleIds.channel] })),
          name: Type.String({ examples: ['control-channel'] }),
          metadata: Type.Optional(metadataSchema),
        },
        { title: 'MappedChannel' },
      ),
    ),
    whitelisted: Type.Optional(
      Type.Record(Type.String(), Type.Boolean(), { description: 'By thing: whether it is connected.', ...ofThing(true) }),
    ),
    certificates: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'By thing: as POST /certs answers.', ...ofThing({ Serial: '0a1b2c3d' }) }),
    ),
    client_cert: pemByThing('CERTIFICATE', 'By thing: PEM.'),
    client_key: pemByThing('PRIVATE KEY', 'By thing: PEM, in the first answer alone.'),
    ca_cert: Type.Optional(Type.String({ description: 'PEM.', examples: [pem('CERTIFICATE')] })),
  },
  { title: 'Mapping' },
)

export const makeMappingSchema = {
  ...needsToken,
  operationId: 'makeMapping',
  summary: 'Provision a device',
  description:
    'Makes the things, channels, connections, certificates and the bootstrap configuration of the layout, all or none. The same request again finds them. Needs member on users.',
  querystring: Type.Object({
    dry_run: Type.Optional(Type.Boolean({ description: 'true answers what would be made, and makes nothing.', examples: [true] })),
  }),
  body: Type.Object(
    {
      external_id: externalId,
      external_key: Type.String({ description: 'The secret that the device shows: up to 256 bytes.', examples: ['f3a1c6d0b5e84c1f'] }),
      name: Type.Optional(
        Type.String({ description: "In place of the layout's, of the thing with the external id.", examples: ['gateway 7'] }),
      ),
    },
    { title: 'NewMapping' },
  ),
  response: {
    200: { ...mapping, description: 'What was made before; of a dry run what would be made, without ids and keys.' },
    201: { ...mapping, description: 'What is made.' },
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict'),
  },
}

export const viewContentSchema = {
  ...needsToken,
  operationId: 'viewContent',
  summary: "View the layout's bootstrap content",
  description: 'Needs member on users.',
  response: {
    200: Type.Record(Type.String(), Type.Unknown(), {
      title: 'BootstrapContent',
      description: 'The content, before its placeholders are filled.',
      examples: [{ agent: { log: { level: 'info' } } }],
    }),
    ...errorAnswers('unauthenticated', 'forbidden'),
  },
}

export const removeMappingSchema = {
  ...needsToken,
  operationId: 'removeMapping',
  summary: 'Undo the provisioning of a device',
  description: 'Its owner may, with the relation delete on each thing. Things, channels, connections, configuration and certificates go.',
  params: Type.Object({ external_id: externalId }),
  response: {
    204: emptyAnswer('It is undone.'),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found'),
  },
}
