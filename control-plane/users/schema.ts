// Requests and answers of users.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, tokenRequired } from '../answers.ts'
import { emailBytesMax, passwordBytesMax, passwordCharactersMin } from './credentials.ts'

/** Three times the longest email and password, for escapes; who asks is not known before the body is read. */
export const credentialsBytesMax = 4_096
/** Of an email as it is sent: spaces around it do not count, but are read. */
const emailCharactersMax = 1_024

// The exact lengths are checked in code, where the fault can say what counts: trimmed bytes for one, characters and bytes for the other.
export const credentialsSchema = Type.Object(
  {
    email: Type.String({
      maxLength: emailCharactersMax,
      description: `At most ${emailBytesMax} bytes; case and outer spaces do not matter.`,
      examples: ['user@example.com'],
    }),
    password: Type.String({
      maxLength: passwordBytesMax,
      description: `At least ${passwordCharactersMin} characters, at most ${passwordBytesMax} bytes in UTF-8.`,
      examples: ['correct horse battery staple'],
    }),
  },
  { additionalProperties: false },
)

export const createUserSchema = {
  tags: ['users'],
  summary: 'Register a user',
  description: "Without a token while self-registration is open, else with the administrator's.",
  security: [{}, ...tokenRequired],
  body: credentialsSchema,
  response: {
    201: emptyAnswer('The user is registered and may create things.', { Location: '/users/<user id>' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict', 'too_many_requests', 'unavailable'),
  },
}
