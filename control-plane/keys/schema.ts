// Requests and answers of API keys.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, tokenRequired } from '../answers.ts'
import { idSchema } from '../ids.ts'
import { pageAnswer, pageDescription, pageQuery } from '../page.ts'

const id = idSchema("The API key's id.")
const params = Type.Object({ key: id })
const needsToken = { tags: ['keys'], security: tokenRequired }

export const keyNameBytesMax = 254
/** What older clients call an API key; 0 is a login key, for which POST /tokens is, and 1 resets a password by mail. */
export const apiKeyType = 2

const expiry = Type.Optional(
  Type.String({
    format: 'date-time',
    description: 'RFC 3339; absent where it does not end by itself.',
    examples: ['2027-01-01T00:00:00Z'],
  }),
)
const issued = { id, issued_at: Type.String({ description: 'RFC 3339.', examples: ['2026-01-01T00:00:00Z'] }), expires_at: expiry }
const keySchema = Type.Object(
  {
    ...issued,
    name: Type.String(),
    type: Type.Integer({ description: 'Always 2.' }),
    issuer_id: Type.String(),
    subject: Type.String({ description: 'Your email.' }),
  },
  { description: 'The key, without its value.' },
)

export const issueKeySchema = {
  ...needsToken,
  summary: 'Issue an API key',
  description:
    'It is sent as `Authorization: Bearer <value>` where a token is, and may do what you may, but not issue keys nor change passwords. It outlives password changes, until it is revoked or you are disabled.',
  body: Type.Object(
    {
      name: Type.String({ default: '', description: `At most ${keyNameBytesMax} bytes in UTF-8.`, examples: ['nightly export'] }),
      expires_at: expiry,
      type: Type.Integer({
        default: apiKeyType,
        minimum: apiKeyType,
        maximum: apiKeyType,
        description: '2, an API key, in the words of older clients.',
      }),
      duration: Type.Optional(
        Type.Integer({
          minimum: 0,
          maximum: Number.MAX_SAFE_INTEGER,
          description: 'In place of `expires_at`: seconds, or from 10⁹ on nanoseconds; 0 is for ever.',
        }),
      ),
    },
    { optionalBody: true },
  ),
  response: {
    201: Type.Object({ ...issued, value: Type.String({ description: 'The secret, shown this once.' }) }, { description: 'The key.' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'unavailable'),
  },
}

export const listKeysSchema = {
  ...needsToken,
  summary: 'List your API keys',
  querystring: Type.Object(pageQuery),
  response: {
    200: Type.Object({ ...pageAnswer, keys: Type.Array(keySchema) }, pageDescription),
    ...errorAnswers('malformed_request', 'unauthenticated', 'unavailable'),
  },
}

export const viewKeySchema = {
  ...needsToken,
  summary: 'View an API key of yours',
  params,
  response: { 200: keySchema, ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'not_found', 'unavailable') },
}

export const revokeKeySchema = {
  ...needsToken,
  summary: 'Revoke an API key of yours',
  description: 'It opens nothing any more when this is answered. One that you do not have is no error.',
  params,
  response: { 204: emptyAnswer('You do not have it.'), ...errorAnswers('malformed_request', 'unauthenticated', 'unavailable') },
}
