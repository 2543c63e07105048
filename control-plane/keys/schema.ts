// Requests and answers of API keys.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { exampleIds, idSchema } from '../ids.ts'
import { emptyAnswer, tokenRequired } from '../requests/answers.ts'
import { pageAnswer, pageOptions, pageQuery } from '../requests/page.ts'
import { keyAccesses } from './store.ts'

const id = idSchema('api-key', "The API key's id.")
const params = Type.Object({ key: id })
const user = idSchema('user', "The user's id.")
const needsToken = { tags: ['keys'], security: tokenRequired }

export const keyNameBytesMax = 254
const keyChannelsMax = 100
/** What older clients call an API key; 0 is a login key, for which there is POST /tokens, and 1 resets a password by mail. */
export const apiKeyType = 2

const expiry = Type.Optional(
  Type.String({
    format: 'date-time',
    description: 'RFC 3339; absent if the key does not expire.',
    examples: ['2027-01-01T00:00:00Z'],
  }),
)
const channels = (description: string) =>
  Type.Optional(Type.Array(idSchema('channel', "A channel's id."), { minItems: 1, maxItems: keyChannelsMax, description }))
const issued = { id, issued_at: Type.String({ description: 'RFC 3339.', examples: ['2026-01-01T00:00:00Z'] }), expires_at: expiry }
const keySchema = Type.Object(
  {
    ...issued,
    name: Type.String({ examples: ['nightly export'] }),
    access: Type.Enum(keyAccesses, { description: 'What it may do.', examples: ['read'] }),
    channels: channels('The channels that it is for, also deleted ones; absent for all.'),
    type: Type.Integer({ description: 'Always 2.', examples: [apiKeyType] }),
    issuer_id: Type.String({ examples: [exampleIds.user] }),
    subject: Type.String({ description: "Its user's email.", examples: ['user@example.com'] }),
  },
  { title: 'ApiKey', description: 'The key, without its value.' },
)

export const issueKeySchema = {
  ...needsToken,
  operationId: 'issueKey',
  summary: 'Issue an API key',
  description:
    'Send it as `Authorization: Bearer <value>` instead of a token. It can do what you can, except issue keys and change passwords, and publishes to your channels too; `access` and `channels` narrow this. It stays valid after a password change without `revoke_keys`, until it is revoked; while you are disabled it is refused.',
  body: Type.Object(
    {
      name: Type.String({ default: '', description: `At most ${keyNameBytesMax} bytes in UTF-8.`, examples: ['nightly export'] }),
      access: Type.Enum(keyAccesses, {
        default: 'all',
        description:
          '`read` changes nothing: messages, streams, and lists of channels and of things, without the keys of these. `publish` only publishes. `all` with `channels` does both, and nothing else.',
        examples: ['read'],
      }),
      channels: channels('The only channels of yours that it sees, reads and publishes to; all of them by default.'),
      expires_at: expiry,
      type: Type.Integer({
        default: apiKeyType,
        minimum: apiKeyType,
        maximum: apiKeyType,
        description: '2, an API key, as older clients send it.',
      }),
      duration: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          description: 'Instead of `expires_at`: seconds, or from 10⁹ on nanoseconds; with 0 the key does not expire.',
        }),
      ),
    },
    { title: 'NewApiKey', optionalBody: true },
  ),
  response: {
    201: Type.Object(
      {
        ...issued,
        value: Type.String({
          description: 'The secret, returned only this once.',
          examples: ['sluice_Yk3vT0m8QdW5xRz1bN7uHc4sLfE9aGpJ2oKiVtXyMwA'],
        }),
      },
      { title: 'IssuedApiKey', description: 'The key.' },
    ),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'conflict'),
  },
}

const keysPage = Type.Object({ ...pageAnswer, keys: Type.Array(keySchema) }, pageOptions('ApiKeysPage'))

export const listKeysSchema = {
  ...needsToken,
  operationId: 'listKeys',
  summary: 'List your API keys',
  querystring: Type.Object(pageQuery),
  response: { 200: keysPage, ...errorAnswers('unauthenticated', 'forbidden') },
}

export const viewKeySchema = {
  ...needsToken,
  operationId: 'viewKey',
  summary: 'View one of your API keys',
  params,
  response: { 200: keySchema, ...errorAnswers('unauthenticated', 'forbidden', 'not_found') },
}

export const revokeKeySchema = {
  ...needsToken,
  operationId: 'revokeKey',
  summary: 'Revoke one of your API keys',
  description: 'The answer comes once the key is refused everywhere. Revoking a key that you do not have succeeds.',
  params,
  response: { 204: emptyAnswer('You no longer have this key.'), ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden') },
}

export const listUserKeysSchema = {
  ...needsToken,
  operationId: 'listUserKeys',
  summary: "List a user's API keys",
  description: 'Only for the administrator.',
  params: Type.Object({ user }),
  querystring: Type.Object(pageQuery),
  response: { 200: keysPage, ...errorAnswers('unauthenticated', 'forbidden', 'not_found') },
}

export const revokeUserKeySchema = {
  ...needsToken,
  operationId: 'revokeUserKey',
  summary: "Revoke a user's API key",
  description:
    'Only for the administrator. The answer comes once the key is refused everywhere. Revoking a key that the user does not have succeeds.',
  params: Type.Object({ user, key: id }),
  response: {
    204: emptyAnswer('The user no longer has this key.'),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'not_found'),
  },
}
