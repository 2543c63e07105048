// Requests and answers of policies.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, tokenRequired } from '../answers.ts'
import { uuidPattern } from '../ids.ts'
import { relations } from './policy-store.ts'

const needsToken = { tags: ['policies'], security: tokenRequired }
const toChange = [...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'unavailable'] as const

const exampleId = '0f8a6e7c-3c1b-4a55-9d0f-6f1f5a1f1c11'
const subject = Type.String({
  pattern: `${uuidPattern}|^\\*$`,
  allowed: 'the id of a user, or * for everybody',
  description: 'The id of a user, or `*` for everybody.',
  examples: [exampleId],
})
const object = Type.String({
  pattern: `${uuidPattern}|^(users|authorities)$`,
  allowed: 'the id of a thing or of a group, or users, or authorities',
  description: 'The id of a thing or of a group; or `users`, the platform as a place to register; or `authorities`, its administration.',
  examples: [exampleId],
})
const relation = Type.Enum([...relations], { examples: ['read'] })

const body = Type.Object({
  subjects: Type.Array(subject, { minItems: 1, maxItems: 1_000 }),
  object,
  policies: Type.Array(relation, { minItems: 1, maxItems: relations.length }),
})

export const addPoliciesSchema = {
  ...needsToken,
  summary: 'Add policies',
  description: 'Each subject gets each relation on the object. The administrator may.',
  body,
  response: { 201: Type.Object({}, { description: 'They hold.' }), ...errorAnswers(...toChange) },
}

export const removePoliciesSchema = {
  ...needsToken,
  summary: 'Remove policies',
  description: 'What the subjects have through groups stays. The administrator may.',
  body,
  response: { 204: emptyAnswer('They hold no more; those that did not are no error.'), ...errorAnswers(...toChange) },
}

export const explainPolicySchema = {
  ...needsToken,
  summary: 'Explain why something is allowed or refused',
  description: 'The administrator may.',
  querystring: Type.Object({ subject, relation, object }),
  response: {
    200: Type.Object(
      {
        allowed: Type.Boolean(),
        because: Type.Array(Type.Object({ subject: Type.String(), relation, object: Type.String() }), {
          description:
            'The policies that lead from the subject to the object, in this order; empty where there are none, or where too many groups would have to be looked through: the explanation says which.',
        }),
        explanation: Type.String({ description: 'The same in words.' }),
      },
      { description: 'The answer that a check gives, and why.' },
    ),
    ...errorAnswers('malformed_request', 'unauthenticated', 'forbidden', 'unavailable'),
  },
}
