// Policies, set and explained by the administrator (SPEC §4).

import type { FastifyRequest } from 'fastify'
import { HttpError } from '../../http/errors.ts'
import type { HttpServer } from '../../http/server.ts'
import { type Authentication, callerOf, changerOf, demandToken } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { refuseFaults } from '../requests/text.ts'
import { type PolicyAdministration, visitedMax } from './administration.ts'
import type { Policy, PolicyObject, Subject } from './policy-store.ts'
import { addPoliciesSchema, explainPolicySchema, removePoliciesSchema } from './schema.ts'

interface Parts {
  readonly policyAdministration: PolicyAdministration
  readonly authentication: Authentication
  readonly authorization: Authorization
}

export function policyRoutes(app: HttpServer, { policyAdministration, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  app.post('/policies', { schema: addPoliciesSchema, onRequest }, async (request, reply) => {
    await authorization.demand(callerOf(request), 'member', 'authorities')
    const { subjects, object, policies: relations } = request.body
    demandTokenForAuthorities(request, object)
    if (toObject(object) === 'authorities' && subjects.includes('*'))
      refuseFaults([{ pointer: '/body/subjects', detail: 'contains *, which would make everyone an administrator: list the ids of users' }])
    if (!(await policyAdministration.add(changerOf(request), subjects.map(toSubject), relations, toObject(object))))
      throw new HttpError('not_found', 'a subject or the object does not exist: no policy is added')
    return reply.code(201).send({})
  })

  app.put('/policies', { schema: removePoliciesSchema, onRequest }, async (request, reply) => {
    await authorization.demand(callerOf(request), 'member', 'authorities')
    const { subjects, object, policies: relations } = request.body
    demandTokenForAuthorities(request, object)
    await policyAdministration.remove(changerOf(request), subjects.map(toSubject), relations, toObject(object))
    return reply.code(204).send()
  })

  app.get('/policies/explain', { schema: explainPolicySchema, onRequest }, async (request, reply) => {
    await authorization.demand(callerOf(request), 'member', 'authorities')
    const [subject, { relation }, object] = [toSubject(request.query.subject), request.query, toObject(request.query.object)]
    const allowed = await authorization.allows(subject, relation, object)
    const path = allowed ? await policyAdministration.path(subject, relation, object) : []
    const asked = `${nameOf(subject)} ${allowed ? 'has' : 'does not have'} ${relation} on ${object}`
    const why = path?.map(inWords).join('; ') ?? `it is given through more groups than are searched (${visitedMax}, within 3 s)`
    const whyNot = 'no policy gives it to them, to everyone, or to a group that they are a member of'
    return reply.send({ allowed, because: path ?? [], explanation: `${asked}: ${allowed ? why : whyNot}` })
  })
}

/** @throws HttpError `forbidden` for an API key: an administrator that it makes would outlive its revocation */
function demandTokenForAuthorities(request: FastifyRequest, object: string): void {
  if (toObject(object) === 'authorities') demandToken(request)
}

const toSubject = (text: string) => text.toLowerCase() as Exclude<Subject, `${string}#member`>
const toObject = (text: string) => text.toLowerCase() as PolicyObject

function nameOf(subject: Subject): string {
  if (subject === '*') return 'everyone'
  return subject.endsWith('#member') ? `the members of group ${subject.replace('#member', '')}` : subject
}

function inWords({ subject, relation, object }: Policy): string {
  const have = subject === '*' || !subject.endsWith('#member') ? 'has' : 'have'
  return relation === 'member' && object.length === 36
    ? `${nameOf(subject)} ${have === 'has' ? 'is a member' : 'are members'} of group ${object}`
    : `${nameOf(subject)} ${have} ${relation} on ${object}`
}
