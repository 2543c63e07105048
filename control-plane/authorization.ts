// Whether a caller may do what they ask, and what a refused one is told: the one place of both.

import { HttpError } from '../config/http/errors.ts'
import type { UserId } from './ids.ts'
import type { PolicyObject, PolicyStore, Relation } from './policies/policy-store.ts'

export interface Authorization {
  allows(caller: UserId | '*', relation: Relation, object: PolicyObject): Promise<boolean>
  /** @throws HttpError `forbidden` where `allows` is false */
  demand(caller: UserId, relation: Relation, object: PolicyObject): Promise<void>
  /** An administrator is a member of `authorities` (SPEC §5). */
  isAdministrator(caller: UserId): Promise<boolean>
  /**
   * The error for a caller without the right: what is absent and what is another's look the same, but to an administrator,
   * who is told what is absent.
   *
   * @param exists asked for administrators only
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
      return absent ? new HttpError('not_found', 'no entity has this id: it was never made, or it is deleted') : new HttpError('forbidden')
    },
  }
}
