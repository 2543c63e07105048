// Requests and answers of users.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, emptyObject, tokenRequired } from '../answers.ts'
import { metadataBytesMax, metadataQuery, metadataSchema } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { pageAnswer, pageOptions, pageQuery } from '../page.ts'
import { emailBytesMax, passwordBytesMax, passwordCharactersMin } from './credentials.ts'

/** Three times the longest email and password, for escapes; who asks is not known before the body is read. */
export const credentialsBytesMax = 4_096
/** With metadata. */
export const registrationBytesMax = credentialsBytesMax + metadataBytesMax
/** Of an email as it is sent: spaces around it do not count, but are read. */
const emailCharactersMax = 1_024

// The exact lengths are checked in code, where the fault can say what counts: trimmed bytes for one, characters and bytes for the other.
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
      description: `At most ${emailBytesMax} bytes; case and outer spaces do not matter.`,
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
  description: "Without a token while self-registration is open, else with the administrator's.",
  security: [{}, ...tokenRequired],
  body: Type.Object({ ...credentialsSchema.properties, metadata: Type.Optional(metadataSchema) }, { title: 'NewUser' }),
  response: {
    201: emptyAnswer('The user is registered and may create things.', { Location: '/users/<user id>' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict', 'too_many_requests'),
  },
}

const id = idSchema('user', "The user's id.")
const userSchema = Type.Object(
  { id, email: Type.String({ examples: ['user@example.com'] }), metadata: Type.Optional(metadataSchema) },
  { title: 'User', description: 'The user; without metadata where none was given.' },
)
const needsToken = { tags: ['users'], security: tokenRequired }
const params = Type.Object({ user: id })
const ofUser = ['unauthenticated', 'forbidden', 'not_found'] as const

export const listUsersSchema = {
  ...needsToken,
  operationId: 'listUsers',
  summary: 'List users',
  description: 'All for the administrator, by email; yourself for everybody else. Your own id, email and metadata stand beside the page.',
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
    ...errorAnswers('query_too_large', 'unauthenticated'),
  },
}

export const viewProfileSchema = {
  ...needsToken,
  operationId: 'viewProfile',
  summary: 'View yourself',
  response: { 200: userSchema, ...errorAnswers('unauthenticated') },
}

export const viewUserSchema = {
  ...needsToken,
  operationId: 'viewUser',
  summary: 'View a user',
  description: 'The user themselves and the administrator may.',
  params,
  response: { 200: userSchema, ...errorAnswers(...ofUser) },
}

export const updateUserSchema = {
  ...needsToken,
  operationId: 'updateUser',
  summary: 'Replace your metadata',
  body: Type.Object({ metadata: metadataSchema }, { title: 'UserChange' }),
  response: { 200: emptyAnswer('It is changed.'), ...errorAnswers(...bodyCodes, 'unauthenticated') },
}

const password = passwordSchema('another horse battery staple')

export const changePasswordSchema = {
  tags: ['users'],
  operationId: 'changePassword',
  summary: 'Change your password',
  description: 'Ends every token that you have. A wrong old password counts as a failed login.',
  security: tokenRequired,
  body: Type.Object(
    { old_password: Type.String({ ...credentialsSchema.properties.password, minLength: 1 }), password },
    { title: 'PasswordChange' },
  ),
  response: {
    201: emptyObject('It is changed: get a new token.'),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'too_many_requests'),
  },
}

export const resetPasswordSchema = {
  ...needsToken,
  operationId: 'resetPassword',
  summary: "Set a user's password",
  description: 'The administrator may. Ends every token of the user.',
  params,
  body: Type.Object({ password }, { title: 'PasswordReset' }),
  response: { 204: emptyAnswer('It is set.'), ...errorAnswers(...bodyCodes, ...ofUser, 'too_many_requests') },
}

export const disableUserSchema = {
  ...needsToken,
  operationId: 'disableUser',
  summary: 'Disable or enable a user',
  description:
    'The administrator may, but not themselves. Who is disabled cannot sign in, their tokens are refused, and their things publish and read nothing, when this is answered.',
  params,
  body: Type.Object({ disabled: Type.Boolean({ examples: [true] }) }, { title: 'UserState' }),
  response: { 204: emptyAnswer('They are.'), ...errorAnswers(...bodyCodes, ...ofUser, 'conflict') },
}
