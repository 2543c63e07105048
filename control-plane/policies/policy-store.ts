// The contract of a policy store: who has which relation on what (SPEC §2, §5).

import type { Transaction } from '../../config/postgres/database.ts'
import type { GroupId, ThingId, UserId } from '../ids.ts'

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

/** Policies of one object, or that name one subject; with more given, those that have all of it. */
export type PolicyFilter = Partial<Policy> & ({ readonly object: PolicyObject } | { readonly subject: Subject })

export interface PolicyStore {
  /**
   * True where a policy says so of the subject itself, of everybody, or of the members of a group that the subject is a
   * member of, be it through further groups. Groups that hold each other are no error. One question to the store.
   */
  allows(subject: UserId | '*', relation: Relation, object: PolicyObject): Promise<boolean>

  /**
   * Adds policies; those that exist already are no error. They hold at the latest when the transaction is committed, and
   * none does when this throws. A store inside the database writes in the transaction; another writes at once, so callers
   * do this last: what an aborted transaction leaves there speaks of entities that do not exist.
   */
  add(policies: readonly Policy[], transaction: Transaction): Promise<void>

  /** Removes policies; those that do not exist are no error. Otherwise as `add`: without the store, nothing changes. */
  remove(policies: readonly Policy[], transaction: Transaction): Promise<void>

  /** Removes every policy of an object, or that names a subject. Otherwise as `remove`. */
  removeAll(of: { readonly object: PolicyObject } | { readonly subject: Subject }, transaction: Transaction): Promise<void>

  /**
   * In no particular order and without what groups add. Who owns many things is named by three policies on each: say which relation is wanted.
   * A store inside the database reads in the transaction, where one is given.
   */
  list(of: PolicyFilter, transaction?: Transaction): Promise<Policy[]>
}

/** The subject that stands for whoever is a member of the group. */
export function membersOf(group: GroupId): Subject {
  return `${group}#member`
}
