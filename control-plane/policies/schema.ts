// Requests and answers of policies.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { exampleIds, uuidPattern } from '../ids.ts'
import { emptyAnswer, emptyObject, tokenRequired } from '../requests/answers.ts'
import { relations } from './policy-store.ts'

const needsToken = { tags: ['policies'], security: tokenRequired }
const policyCodes = [...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'conflict'] as const

const subject = Type.String({
  pattern: `${uuidPattern}|^\\*$`,
  allowed: 'the id of a user, or * for everyone',
  description: 'The id of a user, or `*` for everyone.',
  examples: [exampleIds.user],
})
const object = Type.String({
  pattern: `${uuidPattern}|^(users|authorities)$`,
  allowed: 'the id of a thing or of a group, or users, or authorities',
  description: 'The id of a thing or of a group; or `users`, the platform as a place to register; or `authorities`, its administration.',
  examples: [exampleIds.thing],
})
const relation = Type.Enum([...relations], { examples: ['read'] })

const body = Type.Object(
  {
    subjects: Type.Array(subject, { minItems: 1, maxItems: 1_000 }),
    object,
    policies: Type.Array(relation, { minItems: 1, maxItems: relations.length }),
  },
  { title: 'Policies' },
)

export const addPoliciesSchema = {
  ...needsToken,
  operationId: 'addPolicies',
  summary: 'Add policies',
  description: 'Each subject gets each relation on the object. Only for the administrator.',
  body,
  response: { 201: emptyObject('The policies are added.'), ...errorAnswers(...policyCodes) },
}

export const removePoliciesSchema = {
  ...needsToken,
  operationId: 'removePolicies',
  summary: 'Remove policies',
  description: 'What the subjects have through groups stays. Only for the administrator.',
  body,
  response: { 204: emptyAnswer('Removed; policies that did not exist are skipped.'), ...errorAnswers(...policyCodes) },
}

const policy = Type.Object(
  { subject: Type.String({ examples: [exampleIds.user] }), relation, object: Type.String({ examples: [exampleIds.thing] }) },
  { title: 'Policy' },
)

export const explainPolicySchema = {
  ...needsToken,
  operationId: 'explainPolicy',
  summary: 'Explain why something is allowed or refused',
  description: 'Only for the administrator.',
  querystring: Type.Object({ subject, relation, object }),
  response: {
    200: Type.Object(
      {
        allowed: Type.Boolean({ examples: [true] }),
        because: Type.Array(policy, {
          description:
            'The chain of policies from the subject to the object; empty if there is none, or if there are too many groups in between: the explanation says which.',
        }),
        explanation: Type.String({
          description: 'The same in words.',
          examples: [`${exampleIds.user} has read on ${exampleIds.thing}: ${exampleIds.user} has read on ${exampleIds.thing}`],
        }),
      },
      { title: 'PolicyExplanation', description: 'The answer that a check gives, and why.' },
    ),
    ...errorAnswers('unauthenticated', 'forbidden'),
  },
}
