// Changes of policies of what exists already, delivered to OpenFGA in the order of their commits.
//
// A change and its row here are committed together, and then it is delivered and the row goes. What fails in between stays and is tried again: a
// change that was begun is finished and never undone, so that access that was taken away does not come back. One process delivers at a time.

import { HttpError } from '../../../config/http/errors.ts'
import type { Database, Queries, SqlRow } from '../../../config/postgres/database.ts'
import { openNextRun } from '../../next-run.ts'
import { OutsideError } from '../../outside-requests.ts'
import type { PoliciesOf, Policy } from '../policy-store.ts'
import type { OpenFgaClient, OpenFgaStore } from './client.ts'

export interface PolicyChange {
  readonly removed: readonly (Policy | PoliciesOf)[]
  /** Added when the others are removed. */
  readonly added: readonly Policy[]
}

/** @throws DatabaseError where the lock is another process's by now */
type IsOurs = () => Promise<unknown>

/** While no other process delivers. @param work asks `isOurs` before each request to the server */
export type Alone = <Result>(work: (isOurs: IsOurs, transaction: Queries) => Promise<Result>) => Promise<Result>

export interface PolicyQueue {
  /**
   * Last in the transaction of the change.
   *
   * @returns the number of its row
   * @throws HttpError `unavailable` where an earlier change of the same policies has not been delivered for long: what is tried again adds no rows
   */
  put(transaction: Queries, change: PolicyChange): Promise<bigint>
  /**
   * Once that transaction is committed: the change holds when it resolves.
   *
   * @throws HttpError `unavailable` where it does not hold yet: it is tried again until it does
   */
  deliver(number: bigint): Promise<void>
  /** @throws HttpError `unavailable` while a change of policies on one of these objects is on its way */
  refusePending(queries: Queries, objects: readonly string[]): Promise<void>
  /** Delivers what is left over. */
  finish(): Promise<void>
  readonly alone: Alone
}

interface Parts {
  readonly database: Database
  readonly client: OpenFgaClient
  readonly store: () => Promise<OpenFgaStore>
  /** Milliseconds that one answer of the server may take; it is asked twice at most. */
  readonly timeoutMs: number
  /** @param rows the numbers of those that could not be delivered */
  readonly onFailure: (error: unknown, rows: readonly string[]) => void
}

/** An earlier change that is as old holds up later ones of the same policies before they are committed. */
const lateSeconds = 10

/** Held from the number on, so that numbers are in the order of the commits. */
const orderSql = `SELECT pg_advisory_xact_lock(hashtextextended('policy changes', 0))::text`
const putSql = 'INSERT INTO control_plane.policy_changes (removed, added) VALUES ($1::jsonb, $2::jsonb) RETURNING number'
const lockSql = `
  SELECT set_config('idle_in_transaction_session_timeout', $1::text, true), pg_advisory_xact_lock(hashtextextended('policy delivery', 0))::text`
const lastSql = 'SELECT max(number) AS last FROM control_plane.policy_changes'
const nextSql = `
  SELECT number, removed::text AS removed, added::text AS added FROM control_plane.policy_changes
  WHERE number > $1 AND number <= $2 ORDER BY number LIMIT 1`
const doneSql = 'DELETE FROM control_plane.policy_changes WHERE number = $1'
const isLeftSql = 'SELECT FROM control_plane.policy_changes WHERE number = $1'
const pendingSql = `
  SELECT FROM control_plane.policy_changes, jsonb_array_elements(removed || added) AS policy
  WHERE (policy->>'object' = ANY($1::text[]) OR policy->>'subject' = ANY($1::text[])) AND since <= now() - make_interval(secs => $2::int4) LIMIT 1`

export function openQueue({ database, client, store, timeoutMs, onFailure }: Parts): PolicyQueue {
  const undelivered = new Map<bigint, () => void>()
  /** A round that begins after this call. */
  const round = openNextRun(deliverAll)

  async function deliverAll(): Promise<void> {
    const to = await store()
    const [newest] = await database.query<{ last: bigint | null }>(lastSql)
    const failed: string[] = []
    // What comes behind a change that was refused, of the same objects or groups, waits for it.
    const held = new Set<string>()
    let failure: unknown
    for (let after = 0n; ; ) {
      const row = await deliverNext(to, { after, last: newest!.last, held })
      if (row === undefined) break
      const { number, names, error } = row
      after = number
      if (names === undefined) undelivered.get(number)?.()
      else {
        failed.push(`${number}`)
        for (const name of names) held.add(name)
        failure ??= error
        // Another error is one of the server, and of all others.
        if (error !== undefined && !isRefusal(error)) break
      }
    }
    if (failure !== undefined) onFailure(failure, failed)
  }

  interface Outcome {
    readonly number: bigint
    /** Of what is not delivered, with the error unless it waits for another; undefined for what is. */
    readonly names?: string[]
    readonly error?: Error | undefined
  }

  /** In a transaction of its own, so that its request need not wait for the others. */
  async function deliverNext(
    to: OpenFgaStore,
    { after, last, held }: { readonly after: bigint; readonly last: bigint | null; readonly held: ReadonlySet<string> },
  ): Promise<Outcome | undefined> {
    return alone(async (isOurs, transaction) => {
      const [row] = await transaction.query<SqlRow & { number: bigint; removed: string; added: string }>(nextSql, [after, last])
      if (row === undefined) return undefined
      const { number } = row
      const change = { removed: JSON.parse(row.removed), added: JSON.parse(row.added) } as PolicyChange
      const names = namesIn(change)
      if (names.some(name => held.has(name))) return { number, names }
      const error = await send(to, change, isOurs).then(() => undefined, errorOf)
      if (error !== undefined) return { number, names, error }
      await transaction.query(doneSql, [number])
      return { number }
    })
  }

  async function send(to: OpenFgaStore, { removed, added }: PolicyChange, isOurs: IsOurs): Promise<void> {
    const remove: Policy[] = []
    for (const of of removed) remove.push(...('relation' in of ? [of] : await client.read(to, of, isOurs)))
    await client.write(to, { remove, add: added }, isOurs)
  }

  const alone: Alone = work =>
    database.transaction(async transaction => {
      // Of a process that is gone the lock is free again after as long as it may have waited for one answer.
      await transaction.query(lockSql, [`${2 * timeoutMs + 10_000}`])
      return work(() => transaction.query('SELECT'), transaction)
    })

  async function refusePending(queries: Queries, names: readonly string[], seconds: number): Promise<void> {
    if ((await queries.query(pendingSql, [names, seconds])).length === 0) return
    throw new HttpError('unavailable', 'an earlier change of the same policies is on its way to the policy store: try again later')
  }

  return {
    async put(transaction, change) {
      await refusePending(transaction, namesIn(change), lateSeconds)
      await transaction.query(orderSql)
      const [row] = await transaction.query<{ number: bigint }>(putSql, [JSON.stringify(change.removed), JSON.stringify(change.added)])
      return row!.number
    },

    async deliver(number) {
      const delivered = new Promise<void>(resolve => undelivered.set(number, resolve))
      const ended = round().then(() => undefined, errorOf)
      const error = await Promise.race([delivered, ended]).finally(() => undelivered.delete(number))
      if ((await database.query(isLeftSql, [number])).length === 0) return
      const detail = 'the policy store has not taken the change yet: it is kept, and holds once the store takes it'
      throw new HttpError('unavailable', detail, { cause: new Error(`change ${number} of policies is not delivered`, { cause: error }) })
    },

    refusePending: (queries, objects) => refusePending(queries, objects, 0),

    async finish() {
      const [row] = await database.query<{ last: bigint | null }>(lastSql)
      if (row!.last !== null) await round()
    },

    alone,
  }
}

/** What two changes have in common whose order matters: an object, or the members of a group, of whom all policies may be removed. */
function namesIn({ removed, added }: PolicyChange): string[] {
  return [...removed, ...added].flatMap(of => [
    ...('object' in of ? [of.object] : []),
    ...('subject' in of && of.subject.endsWith('#member') ? [of.subject] : []),
  ])
}

/** The server was asked, and says no: asking again is of no use. */
function isRefusal({ cause }: Error): boolean {
  return cause instanceof OutsideError && cause.status === 400
}

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
