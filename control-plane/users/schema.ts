// Requests and answers of users.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, tokenRequired } from '../answers.ts'
import { emailBytesMax, passwordBytesMax, passwordCharactersMin } from './credentials.ts'

// The lengths are checked in code, where the fault can say what counts: trimmed bytes for one, characters and bytes for the other.
const credentials = Type.Object(
  {
    email: Type.String({
      description: `At most ${emailBytesMax} bytes; case and outer spaces do not matter.`,
      examples: ['user@example.com'],
    }),
    password: Type.String({
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
  body: credentials,
  response: {
    201: emptyAnswer('The user is registered and may create things.', { Location: '/users/<user id>' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict', 'unavailable'),
  },
}
