// Requests and answers of groups.

import { Type } from 'typebox'
import { bodyCodes, errorAnswers } from '../../config/http/error-schema.ts'
import { emptyAnswer, headersOf, tokenRequired } from '../answers.ts'
import { bulkItemsMax, metadataQuery, metadataSchema, nameQuery } from '../entity.ts'
import { idSchema } from '../ids.ts'
import { orderAnswer, orderQuery, pageAnswer, pageDescription, pageQuery } from '../page.ts'
import { chainMax, groupsOfMemberMax, membersOfGroupMax } from '../policies/policy-store.ts'
import { changeCodes, eTagHeader } from '../versions.ts'

export const groupNameBytesMax = 254
export const descriptionBytesMax = 1_024

const id = idSchema("The group's id.")
const member = idSchema("A user's or a thing's id.")
const params = Type.Object({ group: id })
const needsToken = { tags: ['groups'], security: tokenRequired }
const toSee = ['malformed_request', 'unauthenticated', 'forbidden', 'not_found', 'unavailable'] as const
const toChange = [...bodyCodes, 'unauthenticated', 'forbidden', 'not_found', 'conflict', 'unavailable'] as const

const newGroup = Type.Object({
  name: Type.String({ minLength: 1, description: `At most ${groupNameBytesMax} bytes in UTF-8.`, examples: ['night shift'] }),
  description: Type.Optional(
    Type.String({ description: `At most ${descriptionBytesMax} bytes in UTF-8.`, examples: ['Who is called at night'] }),
  ),
  metadata: Type.Optional(metadataSchema),
  parent_id: Type.Optional(Type.Unknown({ description: 'Refused: a group holds users or things, and no groups.' })),
})

const groupSchema = Type.Object(
  {
    id,
    name: Type.String(),
    owner_id: idSchema('Who made it.'),
    description: Type.Optional(Type.String()),
    metadata: Type.Optional(metadataSchema),
    level: Type.Integer({ description: 'Always 1.' }),
    path: Type.String({ description: 'The id.' }),
    created_at: Type.String({ description: 'RFC 3339.' }),
    updated_at: Type.String({ description: 'RFC 3339.' }),
  },
  { description: 'The group.' },
)

const groupsPage = Type.Object(
  { ...pageAnswer, ...orderAnswer, level: Type.Integer(), name: Type.String(), groups: Type.Array(groupSchema) },
  pageDescription,
)

export const createGroupSchema = {
  ...needsToken,
  summary: 'Create a group',
  description: `You are its first member. One user is a member of at most ${groupsOfMemberMax} groups.`,
  body: newGroup,
  response: {
    201: emptyAnswer('The group is created.', { Location: '/groups/<group id>' }),
    ...errorAnswers(...bodyCodes, 'unauthenticated', 'conflict', 'unavailable'),
  },
}

export const listGroupsSchema = {
  ...needsToken,
  summary: 'List your groups',
  description: 'Those that you made or are a member of.',
  querystring: Type.Object({ ...pageQuery, ...orderQuery, name: nameQuery, metadata: metadataQuery }),
  response: { 200: groupsPage, ...errorAnswers('malformed_request', 'query_too_large', 'unauthenticated', 'unavailable') },
}

export const viewGroupSchema = {
  ...needsToken,
  summary: 'View a group',
  description: 'Who made it, its members and the administrator may.',
  params,
  response: { 200: { ...groupSchema, ...headersOf(eTagHeader) }, ...errorAnswers(...toSee) },
}

export const updateGroupSchema = {
  ...needsToken,
  summary: 'Replace name, description and metadata of a group',
  description: 'Who made it and the administrator may. What is left out is empty afterwards.',
  params,
  body: newGroup,
  response: { 200: emptyAnswer('It is changed.', eTagHeader), ...errorAnswers(...bodyCodes, ...changeCodes) },
}

export const removeGroupSchema = {
  ...needsToken,
  summary: 'Delete a group',
  description: 'Who made it and the administrator may. Access that was gained through it ends at once.',
  params,
  response: { 204: emptyAnswer('It is deleted.'), ...errorAnswers('malformed_request', ...changeCodes) },
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
  summary: 'Add members to a group',
  description: `Users gain what the group has access to; to things its members gain read, write and delete. All of them or none. Who made the group and the administrator may; things are assigned by their owner. A group has at most ${membersOfGroupMax} users, and a user is in at most ${groupsOfMemberMax} groups.`,
  params,
  body: Type.Object({ members, type: kind }),
  response: { 200: emptyAnswer('They are members.'), ...errorAnswers(...toChange) },
}

export const removeMembersSchema = {
  ...needsToken,
  summary: 'Remove members from a group',
  description:
    'Access that was gained through the group ends at once. Who made the group and the administrator may; a thing also its owner, and a user themselves. Who is no member is no error.',
  params,
  body: Type.Object({ members, type: Type.Optional(kind) }),
  response: { 204: emptyAnswer('They are no members.'), ...errorAnswers(...toChange) },
}

export const listMembersSchema = {
  ...needsToken,
  summary: 'List the members of a group',
  description: 'Who made it, its members and the administrator may. Without `type` its things, where it has any, else its users.',
  params,
  querystring: Type.Object({ ...pageQuery, type: Type.Optional(kind) }),
  response: {
    200: Type.Object(
      { ...pageAnswer, level: Type.Integer(), name: Type.String(), type: kind, members: Type.Array(member) },
      pageDescription,
    ),
    ...errorAnswers(...toSee),
  },
}

export const listGroupUsersSchema = {
  ...needsToken,
  summary: 'List the users of a group',
  description: 'With their emails for who made the group and for the administrator.',
  params,
  querystring: Type.Object(pageQuery),
  response: {
    200: Type.Object(
      {
        ...pageAnswer,
        users: Type.Array(Type.Object({ id: member, email: Type.Optional(Type.String({ examples: ['ann@example.com'] })) })),
      },
      pageDescription,
    ),
    ...errorAnswers(...toSee),
  },
}

export const listGroupThingsSchema = {
  ...needsToken,
  summary: 'List the things of a group',
  description: 'Whole for the members, who may read them; for others their ids.',
  params,
  querystring: Type.Object(pageQuery),
  response: {
    200: Type.Object(
      {
        ...pageAnswer,
        things: Type.Array(
          Type.Object({
            id: member,
            name: Type.Optional(Type.String()),
            key: Type.Optional(Type.String()),
            metadata: Type.Optional(metadataSchema),
          }),
        ),
      },
      pageDescription,
    ),
    ...errorAnswers(...toSee),
  },
}

export const groupsOfMemberSchema = {
  ...needsToken,
  summary: 'List the groups of a user or of a thing',
  description: "The user themselves, the thing's owner and the administrator may.",
  params: Type.Object({ member }),
  querystring: Type.Object(pageQuery),
  response: { 200: groupsPage, ...errorAnswers(...toSee) },
}

const share = Type.Object({ thing_group_id: idSchema("The things group's id.") })

export const shareGroupSchema = {
  ...needsToken,
  summary: 'Give a users group access to a things group',
  description: `The members of this group become members of the other one. You have to have made both, or be the administrator. At most ${chainMax} groups are shared on in a row.`,
  params,
  body: share,
  response: { 200: Type.Object({}, { description: 'They are shared.' }), ...errorAnswers(...toChange) },
}

export const unshareGroupSchema = {
  ...needsToken,
  summary: "End a users group's access to a things group",
  description: 'Who made either group, and the administrator, may.',
  params,
  body: share,
  response: { 204: emptyAnswer('They are not shared.'), ...errorAnswers(...toChange) },
}
