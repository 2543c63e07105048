// Requests and answers of tokens.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { credentialsSchema } from '../users/schema.ts'

export const createTokenSchema = {
  tags: ['tokens'],
  operationId: 'createToken',
  summary: 'Exchange email and password for a token',
  security: [],
  body: credentialsSchema,
  response: {
    201: Type.Object(
      { token: Type.String({ examples: ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIwZjhhNmU3YyJ9.kHf3v0Yh2b7J5k1XcWq8Zt4Rm6Np9sLd0uEo2aGiBxQ'] }) },
      { title: 'Token', description: 'Send it as `Authorization: Bearer <token>`.' },
    ),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'too_many_requests'),
  },
}
