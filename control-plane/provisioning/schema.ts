// Requests and answers of provisioning (SPEC §4, Provisioning service).

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { externalId, externalKey } from '../bootstrap/schema.ts'
import { pemExample, pemSchema } from '../certificates/schema.ts'
import { metadataSchema } from '../entity.ts'
import { exampleIds } from '../ids.ts'
import { emptyAnswer, tokenRequired } from '../requests/answers.ts'

const needsToken = { tags: ['provisioning'], security: tokenRequired }
const exampleByThing = (value: unknown) => ({ examples: [{ [exampleIds.thing]: value }] })
const pemByThing = (kind: 'CERTIFICATE' | 'PRIVATE KEY', description: string) =>
  Type.Optional(Type.Record(Type.String(), Type.String(), { description, ...exampleByThing(pemExample(kind)) }))
/** A dry run creates no ids and keys. */
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
          id: Type.Optional(
            Type.String({ description: 'A dry run has only those of channels that exist.', examples: [exampleIds.channel] }),
          ),
          name: Type.String({ examples: ['control-channel'] }),
          metadata: Type.Optional(metadataSchema),
        },
        { title: 'MappedChannel' },
      ),
    ),
    whitelisted: Type.Optional(
      Type.Record(Type.String(), Type.Boolean(), { description: 'By thing: whether it is connected.', ...exampleByThing(true) }),
    ),
    certificates: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), {
        description: 'By thing: as POST /certs answers.',
        ...exampleByThing({ Serial: '0a1b2c3d' }),
      }),
    ),
    client_cert: pemByThing('CERTIFICATE', 'By thing: PEM.'),
    client_key: pemByThing('PRIVATE KEY', 'By thing: PEM, only in the first answer.'),
    ca_cert: Type.Optional(pemSchema('CERTIFICATE', 'PEM.')),
    keys_shown_once: Type.Optional(
      Type.Array(Type.String(), {
        description: 'In a dry run: names of the things whose private keys are returned only when the mapping is created, if any.',
        examples: [['pump']],
      }),
    ),
  },
  { title: 'Mapping' },
)

export const makeMappingSchema = {
  ...needsToken,
  operationId: 'makeMapping',
  summary: 'Provision a device',
  description:
    'Creates the things, channels, connections, certificates and the bootstrap configuration of the layout, all or none. The same request again returns them. Needs the relation member on users, and the channels that the layout names by their ids.',
  querystring: Type.Object({
    dry_run: Type.Optional(Type.Boolean({ description: 'true returns what would be created, and creates nothing.', examples: [true] })),
  }),
  body: Type.Object(
    {
      external_id: externalId,
      external_key: externalKey,
      name: Type.Optional(
        Type.String({ description: "Name of the thing with the external id, instead of the layout's.", examples: ['gateway 7'] }),
      ),
    },
    { title: 'NewMapping' },
  ),
  response: {
    200: { ...mapping, description: 'What was created before; in a dry run what would be created, without ids and keys.' },
    201: { ...mapping, description: 'What was created.' },
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict'),
  },
}

export const viewContentSchema = {
  ...needsToken,
  operationId: 'viewContent',
  summary: "View the layout's bootstrap content",
  description: 'Needs the relation member on users.',
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
  summary: 'Delete the mapping of a device',
  description:
    'Only for its owner, who needs the relation delete on each thing. Its things, connections and configuration and the channels that it created are deleted, and its certificates are revoked.',
  params: Type.Object({ external_id: externalId }),
  response: {
    204: emptyAnswer('Deleted.'),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found'),
  },
}
