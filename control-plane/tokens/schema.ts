// Requests and answers of tokens.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'

export const createTokenSchema = {
  tags: ['tokens'],
  summary: 'Exchange email and password for a token',
  security: [],
  body: Type.Object(
    { email: Type.String({ examples: ['user@example.com'] }), password: Type.String({ examples: ['correct horse battery staple'] }) },
    { additionalProperties: false },
  ),
  response: {
    201: Type.Object({ token: Type.String() }, { description: 'Send it as `Authorization: Bearer <token>`.' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'unavailable'),
  },
}
