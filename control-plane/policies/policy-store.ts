// The contract of a policy store: who has which relation on what (SPEC §2, §5).

import type { Queries, Transaction } from '../../database/database.ts'
import type { ChannelId, GroupId, ThingId, UserId } from '../ids.ts'

export const relations = ['member', 'read', 'write', 'delete', 'create'] as const
export type Relation = (typeof relations)[number]

/** A user, everyone (`*`, also callers who are not signed in), or the members of a group. */
export type Subject = UserId | '*' | `${GroupId}#member`

/** `users` is the platform as a place to register and to create things; `authorities` is its administration. */
export type PolicyObject = ThingId | GroupId | 'users' | 'authorities'

/** A policy: `subject` has `relation` on `object`. */
export interface Policy {
  readonly subject: Subject
  readonly relation: Relation
  readonly object: PolicyObject
}

/** Bounds of a check and of a list. */
export const groupsOfMemberMax = 1_000
export const membersOfGroupMax = 10_000
/** The longest chain of groups from a user to a thing. */
export const chainMax = 10

/** The policies that a transaction changes: they are in effect when `PolicyStore.transaction` resolves, and none of them is if `work` throws. */
export interface PolicyWriter {
  /**
   * Policies that exist already are not errors.
   *
   * @throws HttpError `conflict` beyond the bounds above, in a store that enforces them
   * @returns the policies that did not exist before; all of them, from a store that does not know
   * @param entities that the policies name, if the transaction creates them: they are hidden until their policies are in effect (`isDelivered`). A
   * channel has no policies; it is deleted with the things that it was created for if theirs cannot be delivered
   */
  add(policies: readonly Policy[], entities?: readonly (ThingId | GroupId | UserId | ChannelId)[]): Promise<readonly Policy[]>
  /** Policies that do not exist are not errors. @returns those that existed; all of them, from a store that does not know */
  remove(policies: readonly Policy[]): Promise<readonly Policy[]>
  /** Removes every policy of an object, or every one that names a subject. */
  removeAll(of: PoliciesOf): Promise<void>
}

/** The policies of one object, or those that name one subject. */
export type PoliciesOf = { readonly object: PolicyObject } | { readonly subject: Subject }

/** Policies of one object, or that name one subject; with more fields, those that match all of them. */
export type PolicyFilter = Partial<Policy> & ({ readonly object: PolicyObject } | { readonly subject: Subject })

/** How many objects of others are listed for one subject at most. */
export const objectsMax = 10_000

export interface PolicyStore {
  /** True where policies are rows of `control_plane.tuples`: lists of members join them; with other stores they ask for the ids first. */
  readonly isInDatabase?: boolean

  /**
   * True if a policy allows it to the subject itself, to everyone, or to the members of a group that the subject is a
   * member of, also through further groups, up to `chainMax` in all. Groups that contain each other are not errors. One request to the store.
   */
  allows(subject: UserId | '*', relation: Relation, object: PolicyObject): Promise<boolean>

  /**
   * A transaction of the database that also changes policies: all of it happens, or nothing. `work` may run twice.
   *
   * @throws HttpError `unavailable` from a store elsewhere. Nothing has changed, unless it stopped answering after the commit: then creations are
   * undone, and any other change is kept and takes effect once the store answers.
   */
  transaction<Result>(work: (transaction: Transaction, policies: PolicyWriter) => Promise<Result>): Promise<Result>

  /**
   * Objects of others on which the subject has the relation, directly, through groups or as everyone does: at most `objectsMax`. A store elsewhere
   * includes and counts the subject's own things, and leaves out those that it does not find within its own deadline.
   */
  objects(subject: UserId, relation: Relation, signal?: AbortSignal): Promise<PolicyObject[]>

  /**
   * In no particular order and without what groups add. The owner of many things has three policies on each, so give the relation that is wanted.
   * A store inside the database reads in the transaction, if one is given; one elsewhere throws HttpError `unavailable` while changes of policies
   * on the object are under way.
   */
  list(of: PolicyFilter, transaction?: Queries): Promise<Policy[]>
}

/** In SQL: whether the policies of a new entity are in effect. Until then it is hidden from everyone. */
export function isDelivered(id: string): string {
  return `NOT EXISTS (SELECT FROM control_plane.policy_outbox WHERE policy_outbox.entity = ${id})`
}

/** In SQL: a subject or an object of a policy as an id, or NULL if it is not one. */
export function idIn(column: string): string {
  return `CASE WHEN ${column} ~ '^[0-9a-f-]{36}$' THEN ${column}::uuid END`
}

/** The subject for the members of the group. */
export function membersOf(group: GroupId): Subject {
  return `${group}#member`
}

/** Policies on an object as a line of the audit log names them: the object with the subjects, and the relations. */
export function namedBy(object: PolicyObject, policies: readonly Policy[]): [objects: string[], relations: Relation[]] {
  return [[object, ...new Set(policies.map(({ subject }) => subject))], [...new Set(policies.map(({ relation }) => relation))]]
}
