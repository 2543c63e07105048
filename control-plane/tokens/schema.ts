// Requests and answers of tokens.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { credentialsSchema } from '../users/schema.ts'

export const createTokenSchema = {
  tags: ['tokens'],
  summary: 'Exchange email and password for a token',
  security: [],
  body: credentialsSchema,
  response: {
    201: Type.Object({ token: Type.String() }, { description: 'Send it as `Authorization: Bearer <token>`.' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'too_many_requests', 'unavailable'),
  },
}
