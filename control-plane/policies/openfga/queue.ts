// Changes of policies of what exists already, delivered to OpenFGA in the order of their commits.
//
// A change and its row here are committed together, and then it is delivered and the row goes. What fails in between stays and is tried again: a
// change that was begun is finished and never undone, so that access that was taken away does not come back. One process delivers at a time.

import { HttpError } from '../../../config/http/errors.ts'
import type { Database, Queries, SqlRow } from '../../../config/postgres/database.ts'
import type { PoliciesOf, Policy } from '../policy-store.ts'
import type { OpenFgaClient, OpenFgaStore } from './client.ts'

export interface PolicyChange {
  readonly removed: readonly (Policy | PoliciesOf)[]
  /** Added when the others are removed. */
  readonly added: readonly Policy[]
}

export interface PolicyQueue {
  /** Last in the transaction of the change. @returns the number of its row */
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
}

interface Parts {
  readonly database: Database
  readonly client: OpenFgaClient
  readonly store: () => Promise<OpenFgaStore>
  /** @param rows the numbers of those that could not be delivered */
  readonly onFailure: (error: unknown, rows: readonly string[]) => void
}

/** Rows in memory at once. */
const pageSize = 100
/** Of one row, without its last request and the check behind it: with those, each asked twice within 60 s, it is under five minutes. */
const rowMs = 30_000

/** Held from the number on, so that numbers are in the order of the commits. */
const orderSql = `SELECT pg_advisory_xact_lock(hashtextextended('policy changes', 0))::text`
const putSql = 'INSERT INTO control_plane.policy_changes (removed, added) VALUES ($1::jsonb, $2::jsonb) RETURNING number'
/** The server waits as long as a row may take: another process must not take over while a request of this one is under way. */
const lockSql = `
  SELECT set_config('idle_in_transaction_session_timeout', '300000', true),
         pg_advisory_xact_lock(hashtextextended('policy delivery', 0))::text`
const lastSql = 'SELECT max(number) AS last FROM control_plane.policy_changes'
const pageSql = `
  SELECT number, removed::text AS removed, added::text AS added FROM control_plane.policy_changes
  WHERE number > $1 AND number <= $2 ORDER BY number LIMIT ${pageSize}`
const doneSql = 'DELETE FROM control_plane.policy_changes WHERE number = $1'
const isLeftSql = 'SELECT FROM control_plane.policy_changes WHERE number = $1'
const pendingSql = `
  SELECT FROM control_plane.policy_changes, jsonb_array_elements(removed || added) AS policy
  WHERE policy->>'object' = ANY($1::text[]) LIMIT 1`

interface Row extends PolicyChange {
  readonly number: bigint
}

export function openQueue({ database, client, store, onFailure }: Parts): PolicyQueue {
  let current: Promise<void> = Promise.resolve()
  let next: Promise<void> | undefined

  /** A round that begins after this call; those that wait for one share it. */
  function round(): Promise<void> {
    next ??= current
      .catch(() => undefined)
      .then(() => {
        next = undefined
        return (current = deliverAll())
      })
    return next
  }

  async function deliverAll(): Promise<void> {
    const to = await store()
    const failed: Row[] = []
    let failure: unknown
    await database.transaction(async transaction => {
      await transaction.query(lockSql)
      for await (const row of rowsIn(transaction)) {
        // What comes behind a change that could not be delivered, of the same objects or subjects, waits for it.
        const [names, held] = [namesIn(row), new Set(failed.flatMap(namesIn))]
        const outcome = names.some(name => held.has(name)) ? undefined : await send(to, row).then(() => 'done', errorOf)
        if (outcome === 'done') await transaction.query(doneSql, [row.number])
        else failed.push(row)
        failure ??= outcome === 'done' ? undefined : outcome
        // Refused alone, or with all others.
        if (outcome instanceof Error && !(await answers(to))) return
      }
    })
    if (failure !== undefined)
      onFailure(
        failure,
        failed.map(({ number }) => `${number}`),
      )
  }

  async function send(to: OpenFgaStore, { removed, added }: PolicyChange): Promise<void> {
    const remove: Policy[] = []
    for (const of of removed) remove.push(...('relation' in of ? [of] : await client.read(to, of)))
    await client.write(to, { remove, add: added }, AbortSignal.timeout(rowMs))
  }

  const answers = (to: OpenFgaStore): Promise<boolean> =>
    client.check(to, '*', 'create', 'users').then(
      () => true,
      () => false,
    )

  return {
    async put(transaction, { removed, added }) {
      await transaction.query(orderSql)
      const [row] = await transaction.query<{ number: bigint }>(putSql, [JSON.stringify(removed), JSON.stringify(added)])
      return row!.number
    },

    async deliver(number) {
      const error = await round().then(() => undefined, errorOf)
      if ((await database.query(isLeftSql, [number])).length === 0) return
      const detail = 'the policy store has not taken the change yet: it is kept, and holds once the store answers'
      throw new HttpError('unavailable', detail, { cause: error })
    },

    async refusePending(queries, objects) {
      if ((await queries.query(pendingSql, [objects])).length === 0) return
      throw new HttpError('unavailable', 'an earlier change of the same policies is on its way to the policy store: try again')
    },

    async finish() {
      const [row] = await database.query<{ last: bigint | null }>(lastSql)
      if (row!.last !== null) await round()
    },
  }
}

/** In their order, those that are there when it begins. */
async function* rowsIn(queries: Queries): AsyncGenerator<Row> {
  const [newest] = await queries.query<{ last: bigint | null }>(lastSql)
  for (let after = 0n; ; ) {
    const page = await queries.query<SqlRow & { number: bigint; removed: string; added: string }>(pageSql, [after, newest!.last])
    for (const { number, removed, added } of page)
      yield { number, removed: JSON.parse(removed) as Row['removed'], added: JSON.parse(added) as Row['added'] }
    if (page.length < pageSize) return
    after = page.at(-1)!.number
  }
}

/** What two changes have in common whose order matters: an object, or the members of a group, of whom all policies may be removed. */
function namesIn({ removed, added }: PolicyChange): string[] {
  return [...removed, ...added].flatMap(of => [
    ...('object' in of ? [of.object] : []),
    ...('subject' in of && of.subject.endsWith('#member') ? [of.subject] : []),
  ])
}

function errorOf(error: unknown): Error {
  return error instanceof Error ? error : new Error(String(error))
}
