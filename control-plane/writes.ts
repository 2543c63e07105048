// A write: rows, policies and the audit log change together or not at all, and caches of grants are notified of the accesses that it ends.

import { DatabaseError, type Queries } from '../database/database.ts'
import type { AccessChanges } from './access-changes.ts'
import type { Actor, AuditAction, AuditLog } from './audit/store.ts'
import type { AccessChange } from './client.ts'
import type { UserId } from './ids.ts'
import type { PolicyStore, PolicyWriter, Relation } from './policies/policy-store.ts'
import { openChangeBound } from './users/bounds.ts'

export type { Actor } from './audit/store.ts'

/** The program itself, at a first start or a command of the operator. */
export const itself: Actor = { user: undefined, address: undefined, request: undefined }

/** An actor who is signed in. */
export interface Caller extends Actor {
  readonly user: UserId
}

/** The transaction of a write, and its actor: a store that gets a write in place of an actor takes part in it. */
export interface Write extends Queries, Actor {
  readonly policies: PolicyWriter
  /** Adds a line to the audit log: the action, the objects (ids, `users`, `authorities`, `*`), and the relations. Never pass a secret, and do not call it if nothing changed. */
  note(action: AuditAction, objects: readonly string[], relations?: readonly Relation[]): void
  /** Announces accesses that may end with this write: other instances are notified with the commit, and this process before the write resolves. */
  ends(...changes: AccessChange[]): void
}

/**
 * `work` runs again if all of it was rolled back, after a deadlock or to check a policy store elsewhere first, so its only effect may be its result.
 *
 * @param by the actor, or an open write: then `work` runs inside it, and both are committed together, or neither
 * @throws DatabaseError, and whatever `work` throws; nothing has changed then
 * @throws HttpError `unavailable` as `PolicyStore.transaction`; `too_many_requests` before `work` as `ChangeBound.demand`
 */
export type Writes = <By extends Actor, Result>(by: By, work: (write: Write & By) => Promise<Result>) => Promise<Result>

interface Parts {
  readonly policies: PolicyStore
  readonly audit: AuditLog
  readonly accessChanges: AccessChanges
}

/** SQLSTATEs of deadlocks and of transactions that conflict with another one: on the next attempt the other one is finished. */
const undoneStates: ReadonlySet<string> = new Set(['40P01', '40001'])
const attemptsMax = 5

export function openWrites({ policies, audit, accessChanges }: Parts): Writes {
  const changeBound = openChangeBound()

  const attempt: Writes = async (by, work) => {
    const ended: AccessChange[] = []
    let named = 0
    const written = policies.transaction(async (transaction, policyWriter) => {
      ended.length = 0
      named = 0
      if (by.user !== undefined) await changeBound.demand(transaction, by.user)
      const noted: Parameters<Write['note']>[] = []
      const outcome = await work({
        ...by,
        query: (sql, values) => transaction.query(sql, values),
        policies: policyWriter,
        note: (...entry) => void noted.push(entry),
        ends: (...accesses) => void ended.push(...accesses),
      })
      for (const [, objects] of noted) named += objects.length
      for (const entry of noted) await audit.add(transaction, by, ...entry)
      await accessChanges.announceAll(ended, transaction)
      return outcome
    })
    // Also if it throws: it may be committed nevertheless, with policies that a store elsewhere has not accepted yet.
    return written.finally(() => {
      if (by.user !== undefined) changeBound.note(by.user, named)
      for (const change of ended) accessChanges.emit(change)
    })
  }

  return async (by, work) => {
    if (isOpen(by)) return work(by)
    for (let count = 1; ; count++) {
      try {
        return await attempt(by, work)
      } catch (error) {
        const isUndone = error instanceof DatabaseError && undoneStates.has(error.sqlState)
        if (!isUndone || count === attemptsMax) throw error
      }
    }
  }
}

function isOpen<By extends Actor>(by: By): by is Write & By {
  return 'query' in by
}
