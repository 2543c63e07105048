// Requests and answers of groups.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, emptyObject, headersOf, tokenRequired } from '../answers.ts'
import { bulkItemsMax, metadataQuery, metadataSchema, nameQuery } from '../entity.ts'
import { exampleIds, idSchema } from '../ids.ts'
import { orderAnswer, orderQuery, pageAnswer, pageOptions, pageQuery } from '../page.ts'
import { chainMax, groupsOfMemberMax, membersOfGroupMax } from '../policies/policy-store.ts'
import { thingSchema } from '../things/schema.ts'
import { changeCodes, eTagHeader, ifMatchHeaders } from '../versions.ts'

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
const instant = { description: 'RFC 3339.', examples: ['2026-01-01T08:30:00Z'] }

const newGroup = Type.Object(
  {
    name: Type.String({ minLength: 1, description: `At most ${groupNameBytesMax} bytes in UTF-8.`, ...name }),
    description: Type.Optional(Type.String({ description: `At most ${descriptionBytesMax} bytes in UTF-8.`, ...description })),
    metadata: Type.Optional(metadataSchema),
    parent_id: Type.Optional(Type.Unknown({ description: 'Refused: a group holds users or things, and no groups.' })),
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
    created_at: Type.String(instant),
    updated_at: Type.String(instant),
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
  description: `You are its first member. A user owns, and is a member of, at most ${groupsOfMemberMax} groups each.`,
  body: newGroup,
  response: {
    201: emptyAnswer('The group is created.', { Location: '/groups/<group id>' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'conflict'),
  },
}

export const listGroupsSchema = {
  ...needsToken,
  operationId: 'listGroups',
  summary: 'List your groups',
  description: 'Those that you made or are a member of.',
  querystring: Type.Object({ ...pageQuery, ...orderQuery, name: nameQuery, metadata: metadataQuery }),
  response: { 200: groupsPage, ...errorAnswers('query_too_large', 'unauthenticated') },
}

export const viewGroupSchema = {
  ...needsToken,
  operationId: 'viewGroup',
  summary: 'View a group',
  description: 'Who made it, its members and the administrator may.',
  params,
  response: { 200: { ...groupSchema, ...headersOf(eTagHeader) }, ...errorAnswers(...toSee) },
}

export const updateGroupSchema = {
  ...needsToken,
  operationId: 'updateGroup',
  summary: 'Replace name, description and metadata of a group',
  description: 'Who made it and the administrator may. What is left out is empty afterwards.',
  params,
  headers: ifMatchHeaders,
  body: newGroup,
  response: { 200: emptyAnswer('It is changed.', eTagHeader), ...errorAnswers(...bodyCodes, ...changeCodes) },
}

export const removeGroupSchema = {
  ...needsToken,
  operationId: 'removeGroup',
  summary: 'Delete a group',
  description: 'Who made it and the administrator may. Access that was gained through it ends at once.',
  params,
  headers: ifMatchHeaders,
  response: { 204: emptyAnswer('It is deleted.'), ...errorAnswers(...bodyCodes, ...changeCodes) },
}

export const noGroupsSchema = {
  ...needsToken,
  summary: 'List the groups above or below a group',
  description: 'There are none: an empty page, for clients that ask.',
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
  description: `Users gain what the group has access to; to things its members gain read, write and delete. All of them or none. For the group's creator and the administrator; things are assigned by their owner. A group has at most ${membersOfGroupMax} users, and a user is in at most ${groupsOfMemberMax} groups.`,
  params,
  body: Type.Object({ members, type: kind }, { title: 'NewMembers' }),
  response: { 200: emptyAnswer('They are members.'), ...errorAnswers(...toAdd) },
}

export const removeMembersSchema = {
  ...needsToken,
  operationId: 'removeGroupMembers',
  summary: 'Remove members from a group',
  description:
    "Access gained through the group ends at once. For the group's creator and the administrator; the owner of a thing may remove it, and users may leave. An id that is not a member is ignored; one of the other kind than `type` is refused.",
  params,
  body: Type.Object({ members, type: Type.Optional(kind) }, { title: 'FormerMembers' }),
  response: { 204: emptyAnswer('They are removed.'), ...errorAnswers(...toRemove) },
}

export const listMembersSchema = {
  ...needsToken,
  operationId: 'listGroupMembers',
  summary: 'List the members of a group',
  description: 'Who made it, its members and the administrator may. Without `type` its things, where it has any, else its users.',
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
  description: 'Whole for members, who may read them; ids for others. Only members may filter by metadata.',
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
              key: Type.Optional(thingSchema.properties.key),
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
  description: "The user themselves, the thing's owner and the administrator may.",
  params: Type.Object({ member }),
  querystring: Type.Object(pageQuery),
  response: { 200: groupsPage, ...errorAnswers(...toSee) },
}

const share = Type.Object({ thing_group_id: idSchema('group', "The things group's id.") }, { title: 'GroupShare' })

export const shareGroupSchema = {
  ...needsToken,
  operationId: 'shareGroup',
  summary: 'Give a users group access to a things group',
  description: `The members of this group become members of the other one. You have to have made both, or be the administrator. At most ${chainMax} groups are shared on in a row.`,
  params,
  body: share,
  response: { 200: emptyObject('They are shared.'), ...errorAnswers(...toAdd) },
}

export const unshareGroupSchema = {
  ...needsToken,
  operationId: 'unshareGroup',
  summary: "End a users group's access to a things group",
  description: 'Who made either group, and the administrator, may.',
  params,
  body: share,
  response: { 204: emptyAnswer('They are not shared.'), ...errorAnswers(...toRemove) },
}
