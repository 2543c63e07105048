// Requests and answers of users.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { metadataBytesMax, metadataQuery, metadataSchema } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { emptyAnswer, emptyObject, tokenRequired } from '../requests/answers.ts'
import { pageAnswer, pageOptions, pageQuery } from '../requests/page.ts'
import { emailBytesMax, passwordBytesMax, passwordCharactersMin } from './credentials.ts'

/** Three times the longest email and password, for escapes. Small, because the caller is not known before the body is read. */
export const credentialsBytesMax = 4_096
/** The same with metadata. */
export const registrationBytesMax = credentialsBytesMax + metadataBytesMax
/** The longest email as it is sent: outer spaces are removed, but have to be read. */
const emailCharactersMax = 1_024

// The exact lengths are checked in code, where the fault can say what is counted: trimmed bytes for an email, characters and bytes for a password.
function passwordSchema(example: string) {
  return Type.String({
    maxLength: passwordBytesMax,
    description: `At least ${passwordCharactersMin} characters, at most ${passwordBytesMax} bytes in UTF-8.`,
    examples: [example],
  })
}

export const credentialsSchema = Type.Object(
  {
    email: Type.String({
      maxLength: emailCharactersMax,
      description: `At most ${emailBytesMax} bytes; case and surrounding spaces are ignored.`,
      examples: ['user@example.com'],
    }),
    password: passwordSchema('correct horse battery staple'),
  },
  { title: 'Credentials' },
)

export const createUserSchema = {
  tags: ['users'],
  operationId: 'createUser',
  summary: 'Register a user',
  description: "Without a token while self-registration is open, otherwise with an administrator's.",
  security: [{}, ...tokenRequired],
  body: Type.Object({ ...credentialsSchema.properties, metadata: Type.Optional(metadataSchema) }, { title: 'NewUser' }),
  response: {
    201: emptyAnswer('The user is registered and may create things.', { Location: '/users/<user id>' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict', 'too_many_requests'),
  },
}

const id = idSchema('user', "The user's id.")
const userSchema = Type.Object(
  {
    id,
    email: Type.String({ examples: ['user@example.com'] }),
    metadata: Type.Optional(metadataSchema),
    bounded: Type.Optional(Type.Boolean({ description: 'True for a user with bounds; absent without.', examples: [true] })),
  },
  { title: 'User', description: 'The user; without metadata if none was given.' },
)
const needsToken = { tags: ['users'], security: tokenRequired }
const params = Type.Object({ user: id })
const userCodes = ['unauthenticated', 'forbidden', 'not_found'] as const

export const listUsersSchema = {
  ...needsToken,
  operationId: 'listUsers',
  summary: 'List users',
  description:
    'All users, by email, for the administrator; only yourself for everyone else. Your own id, email and metadata are beside the page.',
  querystring: Type.Object({
    ...pageQuery,
    email: Type.Optional(
      Type.String({
        maxLength: emailCharactersMax,
        description: 'Only those with this in their email, case ignored.',
        examples: ['@example.com'],
      }),
    ),
    metadata: metadataQuery,
  }),
  response: {
    200: Type.Object({ ...userSchema.properties, ...pageAnswer, users: Type.Array(userSchema) }, pageOptions('UsersPage')),
    ...errorAnswers('query_too_large', 'unauthenticated', 'forbidden'),
  },
}

export const viewProfileSchema = {
  ...needsToken,
  operationId: 'viewProfile',
  summary: 'View yourself',
  response: { 200: userSchema, ...errorAnswers('unauthenticated', 'forbidden') },
}

export const viewUserSchema = {
  ...needsToken,
  operationId: 'viewUser',
  summary: 'View a user',
  description: 'For the user themselves and the administrator.',
  params,
  response: { 200: userSchema, ...errorAnswers(...userCodes) },
}

export const updateUserSchema = {
  ...needsToken,
  operationId: 'updateUser',
  summary: 'Replace your metadata',
  body: Type.Object({ metadata: metadataSchema }, { title: 'UserChange' }),
  response: { 200: emptyAnswer('Changed.'), ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden') },
}

const password = passwordSchema('another horse battery staple')
const passwordQuery = Type.Object({
  revoke_keys: Type.Optional(
    Type.Boolean({ description: 'true also revokes every API key of the user, in the same step.', examples: [true] }),
  ),
})

export const changePasswordSchema = {
  tags: ['users'],
  operationId: 'changePassword',
  summary: 'Change your password',
  description: 'Ends all your tokens; API keys stay valid without `revoke_keys`. A wrong old password counts as a failed login.',
  security: tokenRequired,
  querystring: passwordQuery,
  body: Type.Object(
    { old_password: Type.String({ ...credentialsSchema.properties.password, minLength: 1 }), password },
    { title: 'PasswordChange' },
  ),
  response: {
    201: emptyObject('Changed: get a new token.'),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'too_many_requests'),
  },
}

export const resetPasswordSchema = {
  ...needsToken,
  operationId: 'resetPassword',
  summary: "Set a user's password",
  description: 'Only for the administrator. Ends all tokens of the user; API keys stay valid without `revoke_keys`.',
  params,
  querystring: passwordQuery,
  body: Type.Object({ password }, { title: 'PasswordReset' }),
  response: { 204: emptyAnswer('Set.'), ...errorAnswers(...bodyCodes, ...userCodes, 'too_many_requests') },
}

export const disableUserSchema = {
  ...needsToken,
  operationId: 'disableUser',
  summary: 'Disable or enable a user',
  description:
    'Only for the administrator, and not on themselves. Once this is answered, a disabled user cannot sign in, their tokens are refused, and their things can neither publish nor read.',
  params,
  body: Type.Object({ disabled: Type.Boolean({ examples: [true] }) }, { title: 'UserState' }),
  response: { 204: emptyAnswer('The user is disabled or enabled.'), ...errorAnswers(...bodyCodes, ...userCodes, 'conflict') },
}

export const boundUserSchema = {
  ...needsToken,
  operationId: 'boundUser',
  summary: 'Lift the bounds of a user, or set them',
  description:
    'Only for the administrator. Users who registered themselves have bounds: of things, channels and API keys, and of the bytes and formats that their things publish.',
  params,
  body: Type.Object({ bounded: Type.Boolean({ examples: [false] }) }, { title: 'UserBounds' }),
  response: { 204: emptyAnswer('The user has bounds, or none.'), ...errorAnswers(...bodyCodes, ...userCodes) },
}
