// A write: rows, policies and the audit log change together or not at all, and those who remember grants hear what it ends.

import { DatabaseError, type Queries } from '../config/postgres/database.ts'
import type { AuditAction, AuditLog } from './audit/store.ts'
import type { Changes } from './changes.ts'
import type { AccessChange } from './client.ts'
import type { UserId } from './ids.ts'
import type { PolicyChanges, PolicyStore, Relation } from './policies/policy-store.ts'

/** Who changes something, and from where: what the audit log keeps of them. */
export interface Actor {
  /** undefined for who is not signed in, and for the program itself. */
  readonly user: UserId | undefined
  /** The client's; undefined for the program itself. */
  readonly address: string | undefined
  /** The id of the request. */
  readonly request: string | undefined
}

/** The program itself: a first start, a command of the operator. */
export const itself: Actor = { user: undefined, address: undefined, request: undefined }

/** An actor who is signed in. */
export interface Caller extends Actor {
  readonly user: UserId
}

/** The transaction that a write is, and its actor: a store that gets one in place of an actor takes part in it. */
export interface Write extends Queries, Actor {
  readonly policies: PolicyChanges
  /** A line of the audit log: what happened, to which (ids, `users`, `authorities`, `*`), and with which relations. Never a secret, and nothing where nothing changed. */
  note(action: AuditAction, objects: readonly string[], relations?: readonly Relation[]): void
  /** Accesses that may end with it: other instances hear of them with the commit, and this process before the write resolves. */
  ends(...changes: AccessChange[]): void
}

/**
 * `work` runs again where all of it was undone, for a deadlock or to ask a policy store elsewhere first, so it keeps nothing but what it returns.
 *
 * @param by an open write has `work` done inside it: both are committed together, or neither
 * @throws DatabaseError, and whatever `work` throws; nothing has changed then
 * @throws HttpError `unavailable` as `PolicyStore.transaction`
 */
export type Writes = <By extends Actor, Result>(by: By, work: (write: Write & By) => Promise<Result>) => Promise<Result>

interface Parts {
  readonly policies: PolicyStore
  readonly audit: AuditLog
  readonly changes: Changes
}

/** Deadlocks, and transactions that cannot stand beside another (SQLSTATE): the next time the other one is done. */
const undoneStates: ReadonlySet<string> = new Set(['40P01', '40001'])
const attemptsMax = 5

export function openWrites({ policies, audit, changes }: Parts): Writes {
  const attempt: Writes = async (by, work) => {
    const ended: AccessChange[] = []
    const changed = policies.transaction(async (transaction, policyChanges) => {
      ended.length = 0
      const noted: Parameters<Write['note']>[] = []
      const outcome = await work({
        ...by,
        query: (sql, values) => transaction.query(sql, values),
        policies: policyChanges,
        note: (...entry) => void noted.push(entry),
        ends: (...accesses) => void ended.push(...accesses),
      })
      for (const entry of noted) await audit.add(transaction, by, ...entry)
      await changes.announceAll(ended, transaction)
      return outcome
    })
    // Also where it throws: it may be committed by then, with policies that a store elsewhere has not taken.
    return changed.finally(() => {
      for (const change of ended) changes.emit(change)
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
