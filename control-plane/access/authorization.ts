// Authorization: whether a caller may do something, and the error if not. No other file decides either.

import { HttpError } from '../../http/errors.ts'
import type { UserId } from '../ids.ts'
import type { PolicyObject, PolicyStore, Relation } from '../policies/policy-store.ts'

export interface Authorization {
  allows(caller: UserId | '*', relation: Relation, object: PolicyObject): Promise<boolean>
  /** @throws HttpError `forbidden` if `allows` is false */
  demand(caller: UserId, relation: Relation, object: PolicyObject): Promise<void>
  /** An administrator is a member of `authorities` (SPEC §5). */
  isAdministrator(caller: UserId): Promise<boolean>
  /**
   * The error for a caller without the right. An absent entity and another user's give the same error; only an administrator
   * gets `not_found` for an absent one.
   *
   * @param exists called for administrators only
   */
  refusal(caller: UserId, exists: () => Promise<boolean>): Promise<HttpError>
}

export function openAuthorization(policies: PolicyStore): Authorization {
  const isAdministrator = (caller: UserId): Promise<boolean> => policies.allows(caller, 'member', 'authorities')
  return {
    allows: (caller, relation, object) => policies.allows(caller, relation, object),
    async demand(caller, relation, object) {
      if (!(await policies.allows(caller, relation, object))) throw new HttpError('forbidden')
    },
    isAdministrator,
    async refusal(caller, exists) {
      const absent = (await isAdministrator(caller)) && !(await exists())
      return absent
        ? new HttpError('not_found', 'no entity has this id: it was never created, or it was deleted')
        : new HttpError('forbidden')
    },
  }
}
