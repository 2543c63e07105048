// The contract of a policy store: who has which relation on what (SPEC §2, §5).

import type { Queries, Transaction } from '../../config/postgres/database.ts'
import type { ChannelId, GroupId, ThingId, UserId } from '../ids.ts'

export const relations = ['member', 'read', 'write', 'delete', 'create'] as const
export type Relation = (typeof relations)[number]

/** A user, everybody (`*`, also who is not signed in), or whoever is a member of a group. */
export type Subject = UserId | '*' | `${GroupId}#member`

/** `users` is the platform as a place to register and to make things; `authorities` is its administration. */
export type PolicyObject = ThingId | GroupId | 'users' | 'authorities'

/** A policy: `subject` has `relation` on `object`. */
export interface Policy {
  readonly subject: Subject
  readonly relation: Relation
  readonly object: PolicyObject
}

/** Bounds of what one check walks through, and of what one list counts. */
export const groupsOfMemberMax = 1_000
export const membersOfGroupMax = 10_000
/** Groups that lead from a user to a thing. */
export const chainMax = 10

/** The policies that a transaction changes: when `PolicyStore.transaction` resolves they hold, and none of them where `work` throws. */
export interface PolicyChanges {
  /**
   * Those that exist already are no error.
   *
   * @throws HttpError `conflict` beyond the bounds above, in a store that keeps them
   * @returns those that were not there before; all of them, from a store that does not know
   * @param entities of which the policies speak, where the transaction makes them: they are hidden until their policies hold (`isDelivered`). A channel
   * has none, and goes with the things that it was made for where theirs cannot be delivered
   */
  add(policies: readonly Policy[], entities?: readonly (ThingId | GroupId | UserId | ChannelId)[]): Promise<readonly Policy[]>
  /** Those that do not exist are no error. @returns those that were there; all of them, from a store that does not know */
  remove(policies: readonly Policy[]): Promise<readonly Policy[]>
  /** Every policy of an object, or that names a subject. */
  removeAll(of: PoliciesOf): Promise<void>
}

/** The policies of one object, or those that name one subject. */
export type PoliciesOf = { readonly object: PolicyObject } | { readonly subject: Subject }

/** Policies of one object, or that name one subject; with more given, those that have all of it. */
export type PolicyFilter = Partial<Policy> & ({ readonly object: PolicyObject } | { readonly subject: Subject })

/** Of what one subject may of others: more are not listed. */
export const objectsMax = 10_000

export interface PolicyStore {
  /** True where policies are rows of `control_plane.tuples`: lists of members join them, and others ask for the ids first. */
  readonly isInDatabase?: boolean

  /**
   * True where a policy says so of the subject itself, of everybody, or of the members of a group that the subject is a
   * member of, be it through further groups, `chainMax` in all. Groups that hold each other are no error. One question to the store.
   */
  allows(subject: UserId | '*', relation: Relation, object: PolicyObject): Promise<boolean>

  /**
   * A transaction of the database that changes policies too: all of it happens, or nothing. `work` may run twice.
   *
   * @throws HttpError `unavailable` from a store elsewhere. Nothing has changed, but where it stops answering after the commit: what was made is
   * undone then, and any other change is kept, and holds once the store answers.
   */
  transaction<Result>(work: (transaction: Transaction, policies: PolicyChanges) => Promise<Result>): Promise<Result>

  /**
   * On what of others the subject has the relation, by itself, through groups or as everybody has: `objectsMax` at most. In a store elsewhere
   * the subject's own things are among them and count, and those that it takes longer to find than its own deadline are left out.
   */
  objects(subject: UserId, relation: Relation): Promise<PolicyObject[]>

  /**
   * In no particular order and without what groups add. Who owns many things is named by three policies on each: say which relation is wanted.
   * A store inside the database reads in the transaction, where one is given; one elsewhere throws HttpError `unavailable` while changes of policies
   * on the object are on their way.
   */
  list(of: PolicyFilter, transaction?: Queries): Promise<Policy[]>
}

/** In SQL: whether the policies of an entity that was made hold. Until then it is there for nobody. */
export function isDelivered(id: string): string {
  return `NOT EXISTS (SELECT FROM control_plane.policy_outbox WHERE policy_outbox.entity = ${id})`
}

/** In SQL: a subject or an object of a policy as the id that it is, else NULL. */
export function idIn(column: string): string {
  return `CASE WHEN ${column} ~ '^[0-9a-f-]{36}$' THEN ${column}::uuid END`
}

/** The subject that stands for whoever is a member of the group. */
export function membersOf(group: GroupId): Subject {
  return `${group}#member`
}

/** Policies on an object as a line of the audit log names them: the object and who has them, and what they have. */
export function namedBy(object: PolicyObject, policies: readonly Policy[]): [objects: string[], relations: Relation[]] {
  return [[object, ...new Set(policies.map(({ subject }) => subject))], [...new Set(policies.map(({ relation }) => relation))]]
}
