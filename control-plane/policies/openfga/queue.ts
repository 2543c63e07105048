// Changes of policies of existing entities, delivered to OpenFGA in the order of their commits.
//
// A change and its row here are committed together; then the change is delivered and the row is deleted. A delivery that fails is retried: a change
// that was begun is finished and never undone, so that access that was removed does not come back. One process delivers at a time.

import type { Database, Queries, SqlRow } from '../../../database/database.ts'
import { HttpError } from '../../../http/errors.ts'
import { openNextRun } from '../../next-run.ts'
import { OutsideError } from '../../outside/requests.ts'
import type { PoliciesOf, Policy } from '../policy-store.ts'
import type { OpenFgaClient, OpenFgaStore } from './client.ts'

export interface QueuedPolicyChange {
  readonly removed: readonly (Policy | PoliciesOf)[]
  /** Added when the others are removed. */
  readonly added: readonly Policy[]
}

/** @throws DatabaseError if another process has the lock by now */
type IsOurs = () => Promise<unknown>

/** Runs work while no other process delivers. @param work calls `isOurs` before each request to the server */
export type Exclusive = <Result>(work: (isOurs: IsOurs, transaction: Queries) => Promise<Result>) => Promise<Result>

export interface PolicyQueue {
  /**
   * Call it last in the transaction of the change.
   *
   * @returns the number of its row
   * @throws HttpError `unavailable` if an earlier change of the same policies has been waiting for long, so that repeated requests add no rows
   */
  put(transaction: Queries, change: QueuedPolicyChange): Promise<bigint>
  /**
   * Call it once that transaction is committed: the change is in effect when it resolves.
   *
   * @throws HttpError `unavailable` if it is not in effect yet: it is retried until it is
   */
  deliver(number: bigint): Promise<void>
  /** @throws HttpError `unavailable` while a change of policies on one of these objects is under way */
  refusePending(queries: Queries, objects: readonly string[]): Promise<void>
  /** Delivers the changes that are left over. */
  finish(): Promise<void>
  readonly exclusive: Exclusive
}

interface Parts {
  readonly database: Database
  readonly client: OpenFgaClient
  readonly store: () => Promise<OpenFgaStore>
  /** Milliseconds that one answer of the server may take; at most two requests are sent. */
  readonly timeoutMs: number
  /** @param rows the numbers of the changes that could not be delivered */
  readonly onFailure: (error: unknown, rows: readonly string[]) => void
}

/** An earlier change of this age makes later ones of the same policies fail before they are committed. */
const lateSeconds = 10

/** Locked before the number is taken, so that numbers are in the order of the commits. */
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
  const deliveryRound = openNextRun(deliverAll)

  async function deliverAll(): Promise<void> {
    const to = await store()
    const [newest] = await database.query<{ last: bigint | null }>(lastSql)
    const failed: string[] = []
    // Later changes of the same objects or groups wait for a change that was refused.
    const blocked = new Set<string>()
    let failure: unknown
    for (let after = 0n; ; ) {
      const row = await deliverNext(to, { after, last: newest!.last, blocked })
      if (row === undefined) break
      const { number, names, error } = row
      after = number
      if (names === undefined) undelivered.get(number)?.()
      else {
        failed.push(`${number}`)
        for (const name of names) blocked.add(name)
        failure ??= error
        // Any other error is the server's, and applies to all changes.
        if (error !== undefined && !isRefusal(error)) break
      }
    }
    if (failure !== undefined) onFailure(failure, failed)
  }

  interface Outcome {
    readonly number: bigint
    /** Names of a change that is not delivered; `error` is absent if it waits for another. undefined for one that is delivered. */
    readonly names?: string[]
    readonly error?: Error | undefined
  }

  /** In a separate transaction, so that its request need not wait for the others. */
  async function deliverNext(
    to: OpenFgaStore,
    { after, last, blocked }: { readonly after: bigint; readonly last: bigint | null; readonly blocked: ReadonlySet<string> },
  ): Promise<Outcome | undefined> {
    return exclusive(async (isOurs, transaction) => {
      const [row] = await transaction.query<SqlRow & { number: bigint; removed: string; added: string }>(nextSql, [after, last])
      if (row === undefined) return undefined
      const { number } = row
      const change = { removed: JSON.parse(row.removed), added: JSON.parse(row.added) } as QueuedPolicyChange
      const names = namesIn(change)
      if (names.some(name => blocked.has(name))) return { number, names }
      const error = await send(to, change, isOurs).then(() => undefined, errorOf)
      if (error !== undefined) return { number, names, error }
      await transaction.query(doneSql, [number])
      return { number }
    })
  }

  async function send(to: OpenFgaStore, { removed, added }: QueuedPolicyChange, isOurs: IsOurs): Promise<void> {
    const remove: Policy[] = []
    for (const of of removed) remove.push(...('relation' in of ? [of] : await client.read(to, of, isOurs)))
    await client.write(to, { remove, add: added }, isOurs)
  }

  const exclusive: Exclusive = work =>
    database.transaction(async transaction => {
      // The lock of a process that died is free again after the time for which it may have waited for one answer.
      await transaction.query(lockSql, [`${2 * timeoutMs + 10_000}`])
      return work(() => transaction.query('SELECT'), transaction)
    })

  async function refusePending(queries: Queries, names: readonly string[], seconds: number): Promise<void> {
    if ((await queries.query(pendingSql, [names, seconds])).length === 0) return
    throw new HttpError('unavailable', 'an earlier change of the same policies is still being stored: retry later')
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
      const ended = deliveryRound().then(() => undefined, errorOf)
      const error = await Promise.race([delivered, ended]).finally(() => undelivered.delete(number))
      if ((await database.query(isLeftSql, [number])).length === 0) return
      const detail = 'the policy store has not accepted the change yet: it is queued, and takes effect when the store accepts it'
      throw new HttpError('unavailable', detail, { cause: new Error(`change ${number} of policies is not delivered`, { cause: error }) })
    },

    refusePending: (queries, objects) => refusePending(queries, objects, 0),

    async finish() {
      const [row] = await database.query<{ last: bigint | null }>(lastSql)
      if (row!.last !== null) await deliveryRound()
    },

    exclusive,
  }
}

/** Two changes with a name in common must keep their order: an object, or the members of a group, whose policies may all be removed. */
function namesIn({ removed, added }: QueuedPolicyChange): string[] {
  return [...removed, ...added].flatMap(of => [
    ...('object' in of ? [of.object] : []),
    ...('subject' in of && of.subject.endsWith('#member') ? [of.subject] : []),
  ])
}

/** The server has refused the request, so retrying it is of no use. */
function isRefusal({ cause }: Error): boolean {
  return cause instanceof OutsideError && cause.status === 400
}

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
