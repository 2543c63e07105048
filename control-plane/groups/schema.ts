// Requests and answers of groups.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../http/openapi/error-schema.ts'
import { bulkItemsMax, metadataQuery, metadataSchema, nameQuery } from '../entity.ts'
import { exampleIds, idSchema } from '../ids.ts'
import { chainMax, groupsOfMemberMax, membersOfGroupMax } from '../policies/policy-store.ts'
import { emptyAnswer, emptyObject, headersOf, tokenRequired } from '../requests/answers.ts'
import { orderAnswer, orderQuery, pageAnswer, pageOptions, pageQuery } from '../requests/page.ts'
import { thingSchema } from '../things/schema.ts'
import { eTagHeader, ifMatchHeaders, writeCodes } from '../versions.ts'

export const groupNameBytesMax = 254
export const descriptionBytesMax = 1_024

const id = idSchema('group', "The group's id.")
const user = idSchema('user', "A user's id.")
const thing = idSchema('thing', "A thing's id.")
const member = idSchema('user', "A user's or a thing's id.")
const params = Type.Object({ group: id })
const needsToken = { tags: ['groups'], security: tokenRequired }
const toSee = ['unauthenticated', 'forbidden', 'not_found'] as const
const toRemove = [...bodyCodes, 'unauthenticated', 'forbidden', 'not_found'] as const
const toAdd = [...toRemove, 'conflict'] as const

const name = { examples: ['night shift'] }
const description = { examples: ['Who is called at night'] }
const timestamp = { description: 'RFC 3339.', examples: ['2026-01-01T08:30:00Z'] }

const newGroup = Type.Object(
  {
    name: Type.String({ minLength: 1, description: `At most ${groupNameBytesMax} bytes in UTF-8.`, ...name }),
    description: Type.Optional(Type.String({ description: `At most ${descriptionBytesMax} bytes in UTF-8.`, ...description })),
    metadata: Type.Optional(metadataSchema),
    parent_id: Type.Optional(Type.Unknown({ description: 'Refused: a group contains users or things, not groups.' })),
  },
  { title: 'NewGroup' },
)

const groupSchema = Type.Object(
  {
    id,
    name: Type.String(name),
    owner_id: idSchema('user', 'Its creator.'),
    description: Type.Optional(Type.String(description)),
    metadata: Type.Optional(metadataSchema),
    level: Type.Integer({ description: 'Always 1.', examples: [1] }),
    path: Type.String({ description: 'The id.', examples: [exampleIds.group] }),
    created_at: Type.String(timestamp),
    updated_at: Type.String(timestamp),
  },
  { title: 'Group', description: 'The group.' },
)

/** For older clients. */
const olderPage = {
  level: Type.Integer({ description: 'Always 1.', examples: [1] }),
  name: Type.String({ description: 'Always empty.', examples: [''] }),
}
const groupsPage = Type.Object({ ...pageAnswer, ...orderAnswer, ...olderPage, groups: Type.Array(groupSchema) }, pageOptions('GroupsPage'))

export const createGroupSchema = {
  ...needsToken,
  operationId: 'createGroup',
  summary: 'Create a group',
  description: `You become its first member. A user can own at most ${groupsOfMemberMax} groups, and be a member of as many.`,
  body: newGroup,
  response: {
    201: emptyAnswer('The group is created.', { Location: '/groups/<group id>' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'forbidden', 'conflict'),
  },
}

export const listGroupsSchema = {
  ...needsToken,
  operationId: 'listGroups',
  summary: 'List your groups',
  description: 'Those that you created or are a member of.',
  querystring: Type.Object({ ...pageQuery, ...orderQuery, name: nameQuery, metadata: metadataQuery }),
  response: { 200: groupsPage, ...errorAnswers('query_too_large', 'unauthenticated', 'forbidden') },
}

export const viewGroupSchema = {
  ...needsToken,
  operationId: 'viewGroup',
  summary: 'View a group',
  description: 'For its creator, its members and the administrator.',
  params,
  response: { 200: { ...groupSchema, ...headersOf(eTagHeader) }, ...errorAnswers(...toSee) },
}

export const updateGroupSchema = {
  ...needsToken,
  operationId: 'updateGroup',
  summary: 'Replace name, description and metadata of a group',
  description: 'For its creator and the administrator. Omitted fields become empty.',
  params,
  headers: ifMatchHeaders,
  body: newGroup,
  response: { 200: emptyAnswer('Changed.', eTagHeader), ...errorAnswers(...bodyCodes, ...writeCodes) },
}

export const removeGroupSchema = {
  ...needsToken,
  operationId: 'removeGroup',
  summary: 'Delete a group',
  description: 'For its creator and the administrator. Access that was gained through it ends at once.',
  params,
  headers: ifMatchHeaders,
  response: { 204: emptyAnswer('Deleted.'), ...errorAnswers(...bodyCodes, ...writeCodes) },
}

export const noGroupsSchema = {
  ...needsToken,
  summary: 'List the groups above or below a group',
  description: 'Always an empty page, for clients that ask: groups do not contain groups.',
  params,
  querystring: Type.Object(pageQuery),
  response: { 200: groupsPage, ...errorAnswers(...toSee) },
}

const kind = Type.Enum(['users', 'things'], { description: 'What the members are.', examples: ['users'] })
const members = Type.Array(member, { minItems: 1, maxItems: bulkItemsMax })

export const addMembersSchema = {
  ...needsToken,
  operationId: 'addGroupMembers',
  summary: 'Add members to a group',
  description: `Users who are added gain the group's access; on things that are added its members gain read, write and delete. All of them or none. For the group's creator and the administrator; a thing only for its owner and the administrator. A group has at most ${membersOfGroupMax} users, and a user is in at most ${groupsOfMemberMax} groups.`,
  params,
  body: Type.Object({ members, type: kind }, { title: 'NewMembers' }),
  response: { 200: emptyAnswer('Added.'), ...errorAnswers(...toAdd) },
}

export const removeMembersSchema = {
  ...needsToken,
  operationId: 'removeGroupMembers',
  summary: 'Remove members from a group',
  description:
    "Access gained through the group ends at once. For the group's creator and the administrator; the owner of a thing may remove it, and users may leave. An id that is not a member is ignored; one of the other kind than `type` is refused.",
  params,
  body: Type.Object({ members, type: Type.Optional(kind) }, { title: 'FormerMembers' }),
  response: { 204: emptyAnswer('Removed.'), ...errorAnswers(...toRemove) },
}

export const listMembersSchema = {
  ...needsToken,
  operationId: 'listGroupMembers',
  summary: 'List the members of a group',
  description: 'For its creator, its members and the administrator. Without `type`: its things if it has any, otherwise its users.',
  params,
  querystring: Type.Object({ ...pageQuery, type: Type.Optional(kind) }),
  response: {
    200: Type.Object(
      {
        ...pageAnswer,
        level: olderPage.level,
        name: Type.String({ description: "The group's.", ...name }),
        type: kind,
        members: Type.Array(member),
      },
      pageOptions('MembersPage'),
    ),
    ...errorAnswers(...toSee),
  },
}

export const listGroupUsersSchema = {
  ...needsToken,
  operationId: 'listGroupUsers',
  summary: 'List the users of a group',
  description: "With their emails for the group's creator and the administrator. Only the administrator may filter by metadata.",
  params,
  querystring: Type.Object({ ...pageQuery, metadata: metadataQuery }),
  response: {
    200: Type.Object(
      {
        ...pageAnswer,
        users: Type.Array(
          Type.Object({ id: user, email: Type.Optional(Type.String({ examples: ['ann@example.com'] })) }, { title: 'GroupUser' }),
        ),
      },
      pageOptions('GroupUsersPage'),
    ),
    ...errorAnswers('query_too_large', ...toSee),
  },
}

export const listGroupThingsSchema = {
  ...needsToken,
  operationId: 'listGroupThings',
  summary: 'List the things of a group',
  description: 'Whole things for members, who may read them; only ids for others. Only members may filter by metadata.',
  params,
  querystring: Type.Object({ ...pageQuery, metadata: metadataQuery }),
  response: {
    200: Type.Object(
      {
        ...pageAnswer,
        things: Type.Array(
          Type.Object(
            {
              id: thing,
              name: Type.Optional(thingSchema.properties.name),
              key: thingSchema.properties.key,
              metadata: Type.Optional(metadataSchema),
            },
            { title: 'GroupThing' },
          ),
        ),
      },
      pageOptions('GroupThingsPage'),
    ),
    ...errorAnswers('query_too_large', ...toSee),
  },
}

export const groupsOfMemberSchema = {
  ...needsToken,
  operationId: 'listGroupsOfMember',
  summary: 'List the groups of a user or of a thing',
  description: "For the user themselves, the thing's owner and the administrator.",
  params: Type.Object({ member }),
  querystring: Type.Object(pageQuery),
  response: { 200: groupsPage, ...errorAnswers(...toSee) },
}

const share = Type.Object({ thing_group_id: idSchema('group', "The things group's id.") }, { title: 'GroupShare' })

export const shareGroupSchema = {
  ...needsToken,
  operationId: 'shareGroup',
  summary: 'Give a users group access to a things group',
  description: `The members of this group become members of the other one. You must have created both, or be the administrator. At most ${chainMax} groups can be shared in a chain.`,
  params,
  body: share,
  response: { 200: emptyObject('Shared.'), ...errorAnswers(...toAdd) },
}

export const unshareGroupSchema = {
  ...needsToken,
  operationId: 'unshareGroup',
  summary: "End a users group's access to a things group",
  description: 'For the creator of either group and the administrator.',
  params,
  body: share,
  response: { 204: emptyAnswer('No longer shared.'), ...errorAnswers(...toRemove) },
}
