// Changes of policies on their way to OpenFGA.
//
// A change and its row here are committed together; then it is delivered, and the row goes. What cannot be added is undone: what the transaction made
// and its line of the audit log go, and what may have arrived is taken back. What cannot be removed stays here until it is. A process that dies between
// leaves rows that another one finishes.

import { HttpError } from '../../../config/http/errors.ts'
import type { Database, Queries, SqlRow } from '../../../config/postgres/database.ts'
import type { GroupId, UserId } from '../../ids.ts'
import { membersOf, type PoliciesOf, type Policy, type PolicyFilter } from '../policy-store.ts'
import type { OpenFgaClient, OpenFgaStore } from './client.ts'

/** A row. */
export interface PolicyChange {
  /** Of the entity that is made, which is hidden while the row is there; else of the row itself. */
  readonly id: string
  /** `made` and `changed` are undone where they cannot be delivered; `ensured` is tried again. */
  readonly kind: 'made' | 'changed' | 'ensured'
  readonly added: readonly Policy[]
  readonly removed: readonly (Policy | PoliciesOf)[]
}

export interface Outbox {
  /**
   * In the transaction of the changes, and last in it.
   *
   * @throws HttpError `unavailable` where an earlier change of the same policies is on its way: the two would arrive in any order
   */
  put(transaction: Queries, changes: readonly PolicyChange[]): Promise<void>
  /**
   * Once that transaction is committed: its changes hold when it resolves.
   *
   * @throws HttpError `unavailable` where they cannot be delivered; additions are undone then, and removals finished later
   */
  deliver(changes: readonly PolicyChange[]): Promise<void>
  /** Policies of the filter that are on their way to be added or removed. */
  pending(transaction: Queries, of: PolicyFilter): Promise<Policy[]>
  /** Finishes what is left over, now and every few seconds. */
  start(): Promise<void>
  close(): Promise<void>
}

interface Parts {
  readonly database: Database
  readonly client: OpenFgaClient
  readonly store: () => Promise<OpenFgaStore>
  /** @param rows their ids */
  readonly onFailure: (error: unknown, rows: readonly string[]) => void
  /** How long a row is left to a process that does not renew it. */
  readonly leaseSeconds: number
}

const intervalMs = 5_000
/** Rows that are finished at once. */
const rowsMax = 20
/** A write that was given up may still arrive: what is taken back is so once more. */
const settleSeconds = 5

/** Last in a transaction, so that who has it waits for no other lock. */
const lockSql = `SELECT pg_advisory_xact_lock(hashtextextended('policy outbox', 0))::text`
// Two removals of the same policy are no conflict. What has no relation stands for all policies of its object or subject.
const conflictSql = `
  WITH asked AS (
    SELECT policy, false AS is_removed FROM jsonb_array_elements($1::jsonb) AS policy
    UNION ALL SELECT policy, true FROM jsonb_array_elements($2::jsonb) AS policy
  ), pending AS (
    SELECT policy, false AS is_removed FROM control_plane.policy_outbox, jsonb_array_elements(added) AS policy
    UNION ALL SELECT policy, true FROM control_plane.policy_outbox, jsonb_array_elements(removed) AS policy
  )
  SELECT FROM asked JOIN pending USING (policy) WHERE NOT (asked.is_removed AND pending.is_removed)
  ${['object', 'subject']
    .map(
      name => `UNION ALL SELECT FROM asked JOIN pending ON asked.policy->>'${name}' = pending.policy->>'${name}'
    WHERE NOT (asked.is_removed AND pending.is_removed) AND NOT (asked.policy ? 'relation' AND pending.policy ? 'relation')`,
    )
    .join('\n')}
  LIMIT 1`
const putSql = `
  INSERT INTO control_plane.policy_outbox (id, added, removed, due_at)
  SELECT id, added, removed, clock_timestamp() + make_interval(secs => $2::float8)
  FROM json_to_recordset($1::json) AS row (id uuid, added jsonb, removed jsonb)`
const pendingSql = `
  SELECT policy::text AS policy FROM control_plane.policy_outbox, jsonb_array_elements(added || removed) AS policy WHERE policy @> $1::jsonb`
const renewSql = `
  UPDATE control_plane.policy_outbox SET due_at = clock_timestamp() + make_interval(secs => $2::float8) WHERE id = ANY($1::uuid[])`
const claimSql = `
  UPDATE control_plane.policy_outbox SET due_at = now() + make_interval(secs => $1::float8)
  WHERE id IN (
    SELECT id FROM control_plane.policy_outbox WHERE due_at <= now() ORDER BY due_at LIMIT ${rowsMax} FOR UPDATE SKIP LOCKED
  )
  RETURNING id, added::text AS added, removed::text AS removed`
const doneSql = 'DELETE FROM control_plane.policy_outbox WHERE id = ANY($1::uuid[])'
// The line of the audit log has the instant of the transaction, as the row has. What it put into a group are the things whose policies are taken back.
const undoSql = `
  WITH undone AS (
    UPDATE control_plane.policy_outbox
    SET added = '[]', removed = row.removed, due_at = clock_timestamp() + make_interval(secs => ${settleSeconds})
    FROM json_to_recordset($1::json) AS row (id uuid, about text[], removed jsonb) WHERE policy_outbox.id = row.id
    RETURNING policy_outbox.id, made_at, about, row.removed
  ), things AS (
    DELETE FROM control_plane.things WHERE id IN (SELECT id FROM undone)
  ), groups AS (
    DELETE FROM control_plane.groups WHERE id IN (SELECT id FROM undone)
  ), users AS (
    DELETE FROM control_plane.users WHERE id IN (SELECT id FROM undone)
  ), lines AS (
    DELETE FROM control_plane.audit USING undone WHERE audit.at = made_at AND audit.objects && about
    RETURNING CASE WHEN action = 'group.add-members' THEN objects[1]::uuid END AS group_id, removed
  )
  DELETE FROM control_plane.group_things USING lines, jsonb_array_elements(lines.removed) AS policy
  WHERE group_things.group_id = lines.group_id AND group_things.thing::text = policy->>'object'`

type ClaimedRow = SqlRow & { id: string; added: string; removed: string }

export function openOutbox({ database, client, store, onFailure, leaseSeconds }: Parts): Outbox {
  let timer: NodeJS.Timeout | undefined
  let finishing = Promise.resolve()

  /** No other process takes the rows over meanwhile. */
  async function whileRenewed<Result>(ids: readonly string[], work: () => Promise<Result>): Promise<Result> {
    let renewing: Promise<unknown> = Promise.resolve()
    const renewal = setInterval(
      () => {
        renewing = database.query(renewSql, [ids, leaseSeconds]).catch((error: unknown) => onFailure(error, ids))
      },
      (leaseSeconds * 1_000) / 3,
    )
    try {
      return await work()
    } finally {
      clearInterval(renewal)
      await renewing
    }
  }

  async function send(changes: readonly Pick<PolicyChange, 'added' | 'removed'>[]): Promise<void> {
    const to = await store()
    const remove: Policy[] = []
    for (const of of changes.flatMap(({ removed }) => removed)) {
      if ('relation' in of) remove.push(of)
      else remove.push(...(await client.read(to, of)))
    }
    await client.write(to, { remove, add: changes.flatMap(({ added }) => added) })
  }

  /** With those additions alone that are not there: what was there before is not taken back with the others. */
  async function withoutStored(change: PolicyChange): Promise<PolicyChange> {
    return change.kind === 'changed' ? { ...change, added: await client.missing(await store(), change.added) } : change
  }

  /** @param sent what may have arrived; undefined where nothing has been sent */
  async function giveUp(changes: readonly PolicyChange[], sent: readonly PolicyChange[] | undefined): Promise<void> {
    const isUndone = ({ kind, added }: PolicyChange): boolean => kind !== 'ensured' && added.length > 0
    const arrived = new Map(sent?.filter(isUndone).map(({ id, added }) => [id, added]))
    const undone = changes.filter(isUndone).map(({ id, kind, added, removed }) => ({
      id,
      about: kind === 'made' ? [id] : namesIn(added),
      removed: kind === 'made' ? everythingOf(id) : [...removed, ...(arrived.get(id) ?? [])],
    }))
    await database.query(undoSql, [JSON.stringify(undone)])
    const others = changes.filter(change => !isUndone(change))
    await database.query(renewSql, [others.map(({ id }) => id), 0])
    await client.write(await store(), { remove: [...arrived.values()].flat() })
  }

  async function finish(): Promise<void> {
    for (;;) {
      const rows = await database.query<ClaimedRow>(claimSql, [leaseSeconds])
      if (rows.length === 0) return
      const ids = rows.map(({ id }) => id)
      // Each by itself, so that one that OpenFGA refuses does not hold up the others.
      const outcomes = await whileRenewed(ids, () => Promise.allSettled(rows.map(finishRow)))
      const failure = outcomes.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
      const failed = ids.filter((_, at) => outcomes[at]!.status === 'rejected')
      if (failure !== undefined) onFailure(failure.reason, failed)
      if (failed.length === rows.length) return
    }
  }

  async function finishRow({ id, added, removed }: ClaimedRow): Promise<void> {
    await send([{ added: JSON.parse(added) as PolicyChange['added'], removed: JSON.parse(removed) as PolicyChange['removed'] }])
    await database.query(doneSql, [[id]])
  }

  return {
    async put(transaction, changes) {
      if (changes.length === 0) return
      // What is made is locked by being made.
      if (changes.some(({ kind }) => kind !== 'made')) await transaction.query(lockSql)
      const [added, removed] = [changes.flatMap(change => change.added), changes.flatMap(change => change.removed)]
      if ((await transaction.query(conflictSql, [JSON.stringify(added), JSON.stringify(removed)])).length > 0) {
        const detail = 'an earlier change of the same policies is on its way to the policy store: try again'
        throw new HttpError('unavailable', detail, { retryAfterSeconds: settleSeconds })
      }
      await transaction.query(putSql, [JSON.stringify(changes), leaseSeconds])
    },

    async deliver(changes) {
      if (changes.length === 0) return
      const ids = changes.map(({ id }) => id)
      await whileRenewed(ids, async () => {
        let sent: PolicyChange[] | undefined
        try {
          sent = await Promise.all(changes.map(withoutStored))
          await send(sent)
        } catch (error) {
          // What fails here is left to `finish`.
          await giveUp(changes, sent).catch((failure: unknown) => onFailure(failure, ids))
          throw error
        }
      })
      await database.query(doneSql, [ids])
    },

    async pending(transaction, of) {
      const rows = await transaction.query<{ policy: string }>(pendingSql, [JSON.stringify(of)])
      return rows.map(({ policy }) => JSON.parse(policy) as Policy)
    },

    async start() {
      await finish()
      timer = setInterval(() => {
        finishing = finishing.then(finish).catch((error: unknown) => onFailure(error, []))
      }, intervalMs)
      timer.unref()
    },

    async close() {
      clearInterval(timer)
      await finishing
    },
  }
}

/** Every policy that an entity may have, whatever it is. */
function everythingOf(id: string): PoliciesOf[] {
  return [{ object: id as GroupId }, { subject: id as UserId }, { subject: membersOf(id as GroupId) }]
}

/** What lines of the audit log about these policies name. */
function namesIn(policies: readonly Policy[]): string[] {
  return [...new Set(policies.flatMap(({ subject, object }) => [object, subject.replace('#member', '')]))]
}
