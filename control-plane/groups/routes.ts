// Groups: creating, viewing, changing and deleting them; their members; and sharing one with another (SPEC §4, §5).

import type { FastifyRequest } from 'fastify'
import { HttpError } from '../../http/errors.ts'
import type { HttpServer } from '../../http/server.ts'
import { type Authentication, callerOf, changerOf } from '../access/authentication.ts'
import type { Authorization } from '../access/authorization.ts'
import { checkMetadata, parseMetadataFilter } from '../entity.ts'
import { type GroupId, toGroupId, toThingId, toUserId, type UserId } from '../ids.ts'
import { unstored } from '../requests/answers.ts'
import { takeAnyType } from '../requests/any-type.ts'
import { type PageRequest, pageOf, searcherOf } from '../requests/page.ts'
import { refuseFaults, textFault } from '../requests/text.ts'
import type { Things } from '../things/store.ts'
import type { Users } from '../users/store.ts'
import { eTagOf, expectedVersions, writtenOrThrow } from '../versions.ts'
import type { GroupMembers } from './member-store.ts'
import {
  addMembersSchema,
  createGroupSchema,
  descriptionBytesMax,
  groupNameBytesMax,
  groupsOfMemberSchema,
  listGroupsSchema,
  listGroupThingsSchema,
  listGroupUsersSchema,
  listMembersSchema,
  noGroupsSchema,
  removeGroupSchema,
  removeMembersSchema,
  shareGroupSchema,
  unshareGroupSchema,
  updateGroupSchema,
  viewGroupSchema,
} from './schema.ts'
import type { Group, Groups, NewGroup } from './store.ts'

interface Parts {
  readonly groups: Groups
  readonly members: GroupMembers
  readonly things: Things
  readonly users: Pick<Users, 'find'>
  readonly authentication: Authentication
  readonly authorization: Authorization
}

export function groupRoutes(app: HttpServer, { groups, members, things, users, authentication, authorization }: Parts): void {
  const onRequest = authentication.required

  /** Whether the caller is its creator or the administrator. */
  async function controls(caller: UserId, group: GroupId): Promise<boolean> {
    const found = await groups.find(group)
    return found !== undefined && (found.group.owner === caller || (await authorization.isAdministrator(caller)))
  }
  const refusal = (caller: UserId, group: GroupId) => authorization.refusal(caller, async () => (await groups.find(group)) !== undefined)

  /** @throws HttpError for everyone else */
  async function demandControl(caller: UserId, group: GroupId): Promise<void> {
    if (!(await controls(caller, group))) throw await refusal(caller, group)
  }

  /** The group, for its creator, its members and the administrator. @throws HttpError for everyone else */
  async function findReadable(request: FastifyRequest, group: GroupId) {
    const caller = callerOf(request)
    const found = await groups.find(group)
    const isOwner = found?.group.owner === caller
    const isMember = found !== undefined && (await authorization.allows(caller, 'member', group))
    const isAdministrator = found !== undefined && !isOwner && (await authorization.isAdministrator(caller))
    if (found === undefined || !(isOwner || isMember || isAdministrator)) throw await refusal(caller, group)
    return { ...found, isMember, controls: isOwner || isAdministrator }
  }

  app.post('/groups', { schema: createGroupSchema, onRequest }, async (request, reply) => {
    checkGroup(request.body)
    const id = await groups.create(changerOf(request), request.body)
    return reply.code(201).header('location', `/groups/${id}`).send()
  })

  app.get('/groups', { schema: listGroupsSchema, onRequest }, async (request, reply) => {
    const { name, metadata } = request.query
    const filter = { name, metadata: parseMetadataFilter(metadata) }
    const by = searcherOf(callerOf(request), reply)
    return reply.send(groupsPageOf(await groups.list(by, filter, request.query), request.query))
  })

  app.get('/groups/:group', { schema: viewGroupSchema, onRequest }, async (request, reply) => {
    const { group, version } = await findReadable(request, toGroupId(request.params.group))
    return reply.header('etag', eTagOf(version)).send(answerOf(group))
  })

  app.put('/groups/:group', { schema: updateGroupSchema, onRequest }, async (request, reply) => {
    checkGroup(request.body)
    const id = toGroupId(request.params.group)
    const caller = callerOf(request)
    await demandControl(caller, id)
    const outcome = await groups.update(changerOf(request), id, request.body, expectedVersions(request))
    const { version } = await writtenOrThrow(outcome, () => refusal(caller, id))
    return reply.header('etag', eTagOf(version)).send()
  })

  app.delete('/groups/:group', { schema: removeGroupSchema, onRequest }, async (request, reply) => {
    const id = toGroupId(request.params.group)
    const caller = callerOf(request)
    await demandControl(caller, id)
    await writtenOrThrow(await groups.remove(changerOf(request), id, expectedVersions(request)), () => refusal(caller, id))
    return reply.code(204).send()
  })

  for (const [path, operationId] of [
    ['/groups/:group/children', 'listGroupChildren'],
    ['/groups/:group/parents', 'listGroupParents'],
  ] as const) {
    app.get(path, { schema: { ...noGroupsSchema, operationId }, onRequest }, async (request, reply) => {
      await findReadable(request, toGroupId(request.params.group))
      return reply.send(groupsPageOf({ total: 0, items: [] }, request.query))
    })
  }

  takeAnyType(app, scope => {
    scope.post('/groups/:group/members', { schema: addMembersSchema, onRequest }, async (request, reply) => {
      const { members: ids, type } = request.body
      const group = toGroupId(request.params.group)
      const caller = callerOf(request)
      await demandControl(caller, group)
      const owner = (await authorization.isAdministrator(caller)) ? undefined : caller
      const added =
        type === 'users'
          ? await members.addUsers(changerOf(request), group, ids.map(toUserId))
          : await members.addThings(changerOf(request), group, ids.map(toThingId), owner)
      // Something in the request is absent, or does not belong to the caller.
      if (!added) throw await authorization.refusal(caller, async () => false)
      return reply.send()
    })

    scope.delete('/groups/:group/members', { schema: removeMembersSchema, onRequest }, async (request, reply) => {
      const { type } = request.body
      const group = toGroupId(request.params.group)
      const caller = callerOf(request)
      const ids = request.body.members.map(id => id.toLowerCase())
      const inGroup = await members.thingsIn(group, ids)
      // Owners may always remove their things, and users may leave.
      const areOwn = ids.every(id => id === caller || inGroup.get(id) === caller)
      if (!areOwn) await demandControl(caller, group)
      const found = ids.filter(id => inGroup.has(id))
      const others = ids.filter(id => !inGroup.has(id))
      if (type === 'users' && found.length > 0)
        refuseFaults([{ pointer: '/body/type', detail: 'is users, but one of the members is a thing' }])
      if (type === 'things' && (await members.usersIn(group, others)).length > 0)
        refuseFaults([{ pointer: '/body/type', detail: 'is things, but one of the members is a user' }])
      const users = type === 'things' ? [] : others
      await members.removeMembers(changerOf(request), group, users.map(toUserId), found.map(toThingId))
      return reply.code(204).send()
    })
  })

  app.get('/groups/:group/members', { schema: listMembersSchema, onRequest }, async (request, reply) => {
    const id = toGroupId(request.params.group)
    const { group } = await findReadable(request, id)
    const by = searcherOf(callerOf(request), reply)
    const thingsPage = request.query.type === 'users' ? undefined : await members.things(id, {}, request.query, by)
    const type = thingsPage !== undefined && (thingsPage.total > 0 || request.query.type === 'things') ? 'things' : 'users'
    const { total, items } = type === 'things' ? thingsPage! : idsOf(await members.users(id, {}, request.query, by))
    const { offset, limit } = request.query
    return reply.send({ total, offset, limit, level: 1, name: group.name, type, members: [...items] })
  })

  app.get('/groups/users/:group', { schema: listGroupUsersSchema, onRequest }, async (request, reply) => {
    const id = toGroupId(request.params.group)
    const { offset, limit, metadata: json } = request.query
    const metadata = parseMetadataFilter(json)
    const { controls: seesEmails } = await findReadable(request, id)
    if (metadata !== undefined) await authorization.demand(callerOf(request), 'member', 'authorities')
    const { total, items } = await members.users(id, { metadata }, request.query, searcherOf(callerOf(request), reply))
    return reply.send({ total, offset, limit, users: items.map(user => (seesEmails ? user : { id: user.id })) })
  })

  app.get('/groups/things/:group', { schema: listGroupThingsSchema, onRequest }, async (request, reply) => {
    const id = toGroupId(request.params.group)
    const { offset, limit, metadata: json } = request.query
    const metadata = parseMetadataFilter(json)
    const { isMember } = await findReadable(request, id)
    if (metadata !== undefined && !isMember) throw new HttpError('forbidden')
    const { total, items } = await members.things(id, { metadata }, request.query, searcherOf(callerOf(request), reply))
    const listed = isMember ? await things.findAll(items) : items.map(thing => ({ id: thing }))
    return reply.headers(unstored).send({ total, offset, limit, things: [...listed] })
  })

  app.get('/members/:member/groups', { schema: groupsOfMemberSchema, onRequest }, async (request, reply) => {
    const caller = callerOf(request)
    const user = toUserId(request.params.member)
    const thing = toThingId(request.params.member)
    const owner = await things.ownerOf(thing)
    const isOwn = user === caller || owner === caller
    const exists = async (): Promise<boolean> => owner !== undefined || (await users.find(user)) !== undefined
    const mayAsk = isOwn || ((await authorization.isAdministrator(caller)) && (await exists()))
    if (!mayAsk) throw await authorization.refusal(caller, exists)
    const by = searcherOf(caller, reply)
    return reply.send(groupsPageOf(await groups.listOf(owner === undefined ? { user } : { thing }, request.query, by), request.query))
  })

  app.post('/groups/:group/share', { schema: shareGroupSchema, onRequest }, async (request, reply) => {
    const [userGroup, thingGroup] = [toGroupId(request.params.group), toGroupId(request.body.thing_group_id)]
    const caller = callerOf(request)
    await demandControl(caller, userGroup)
    await demandControl(caller, thingGroup)
    if (!(await members.share(changerOf(request), userGroup, thingGroup, true))) throw await refusal(caller, userGroup)
    return reply.send({})
  })

  app.delete('/groups/:group/share', { schema: unshareGroupSchema, onRequest }, async (request, reply) => {
    const [userGroup, thingGroup] = [toGroupId(request.params.group), toGroupId(request.body.thing_group_id)]
    const caller = callerOf(request)
    const controlled = [await controls(caller, userGroup), await controls(caller, thingGroup)]
    // Another user's group that is not shared returns the same answer as an absent one.
    const mayEnd = controlled.every(Boolean) || (controlled.some(Boolean) && (await members.areShared(userGroup, thingGroup)))
    if (!mayEnd) throw await refusal(caller, controlled[0] ? thingGroup : userGroup)
    if (!(await members.share(changerOf(request), userGroup, thingGroup, false))) throw await refusal(caller, userGroup)
    return reply.code(204).send()
  })
}

/** @throws HttpError `malformed_request` for what the schema cannot express */
function checkGroup(group: NewGroup & { readonly parent_id?: unknown }): void {
  const faults = [
    { pointer: '/body/name', detail: textFault(group.name, groupNameBytesMax) },
    { pointer: '/body/description', detail: textFault(group.description ?? '', descriptionBytesMax) },
    {
      pointer: '/body/parent_id',
      detail: (group.parent_id ?? '') === '' ? undefined : 'is refused: a group contains users or things, not groups; omit it',
    },
  ]
  refuseFaults(faults.flatMap(({ pointer, detail }) => (detail === undefined ? [] : [{ pointer, detail }])))
  if (group.metadata !== undefined) checkMetadata(group.metadata, '/body/metadata')
}

function answerOf({ id, owner, name, description, metadata, createdAt, updatedAt }: Group) {
  const optional = { ...(description === undefined ? {} : { description }), ...(metadata === undefined ? {} : { metadata }) }
  return { id, name, owner_id: owner, ...optional, level: 1, path: id, created_at: createdAt, updated_at: updatedAt }
}

function groupsPageOf(page: { readonly total: number; readonly items: readonly Group[] }, request: PageRequest) {
  const { items, ...rest } = pageOf(page, request)
  return { ...rest, level: 1, name: '', groups: items.map(answerOf) }
}

function idsOf({ total, items }: { readonly total: number; readonly items: readonly { readonly id: string }[] }) {
  return { total, items: items.map(({ id }) => id) }
}
