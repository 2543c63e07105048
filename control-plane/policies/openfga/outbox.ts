// New entities in the database whose policies are not yet delivered to OpenFGA: hidden until the policies have arrived.
//
// An entity and its row here are committed together. Then its policies are delivered, and the row is deleted. If they cannot be delivered, the entity
// is deleted, and the row stays until the policies that may have arrived are removed. If a process dies in between, another one finishes its rows.

import type { Database, Queries, SqlRow } from '../../../database/database.ts'
import { HttpError } from '../../../http/errors.ts'
import type { Policy } from '../policy-store.ts'
import type { OpenFgaClient, OpenFgaStore } from './client.ts'
import type { Exclusive } from './queue.ts'

/** An entity whose policies are not delivered. */
export interface Made {
  readonly entity: string
  readonly policies: readonly Policy[]
}

export interface Outbox {
  /** Call it in the transaction that creates the entities. Each policy belongs to the entity that it names. */
  put(transaction: Queries, policies: readonly Policy[], entities: readonly string[]): Promise<Made[]>
  /**
   * Call it once that transaction is committed: the entities are visible when it resolves.
   *
   * @throws HttpError `unavailable` if the policies cannot be delivered; the entities are deleted then
   */
  deliver(made: readonly Made[]): Promise<void>
  /** Finishes the rows of processes that died, under the lock of the queue. */
  finish(): Promise<void>
}

interface Parts {
  readonly database: Database
  readonly client: OpenFgaClient
  readonly store: () => Promise<OpenFgaStore>
  readonly exclusive: Exclusive
  /** @param rows the entities whose policies could not be delivered */
  readonly onFailure: (error: unknown, rows: readonly string[]) => void
}

/** Time limit for delivering the policies of one request, except the last hundred. */
const deliveryMs = 30_000
/** Younger rows belong to requests under way: after `deliveryMs` they wait for one more answer, at most twice 60 s. */
const leftOverSeconds = 180
/** Rows in memory at a time. */
const rowsMax = 100

const putSql = `
  INSERT INTO control_plane.policy_outbox (entity, policies)
  SELECT entity, policies FROM json_to_recordset($1::json) AS row (entity uuid, policies jsonb)`
const doneSql = 'DELETE FROM control_plane.policy_outbox WHERE entity = ANY($1::uuid[])'
// The lines of the audit log have the same time as the transaction's rows. Earlier lines of an id that was given again stay.
const undoSql = `
  WITH undone AS (
    UPDATE control_plane.policy_outbox SET is_undone = true WHERE entity = ANY($1::uuid[]) RETURNING entity, since
  ), things AS (
    DELETE FROM control_plane.things WHERE id IN (SELECT entity FROM undone)
  ), groups AS (
    DELETE FROM control_plane.groups WHERE id IN (SELECT entity FROM undone)
  ), channels AS (
    DELETE FROM control_plane.channels WHERE id IN (SELECT entity FROM undone)
  ), lines AS (
    DELETE FROM control_plane.audit USING undone WHERE objects && ARRAY[entity::text] AND at = since
  )
  DELETE FROM control_plane.users WHERE id IN (SELECT entity FROM undone)`
const leftOverSql = `
  SELECT entity, policies::text AS policies, is_undone FROM control_plane.policy_outbox
  WHERE is_undone OR since < now() - make_interval(secs => $1::int4) ORDER BY since LIMIT ${rowsMax}`

type LeftOverRow = SqlRow & { entity: string; policies: string; is_undone: boolean }

export function openOutbox({ database, client, store, exclusive, onFailure }: Parts): Outbox {
  return {
    async put(transaction, policies, entities) {
      const made = entities.map(entity => ({
        entity,
        policies: policies.filter(({ subject, object }) => subject === entity || object === entity),
      }))
      await transaction.query(putSql, [JSON.stringify(made)])
      return made
    },

    async deliver(made) {
      if (made.length === 0) return
      const entities = made.map(({ entity }) => entity)
      try {
        const add = made.flatMap(({ policies }) => policies)
        const endsMs = performance.now() + deliveryMs
        await client.write(await store(), { add }, () => {
          if (performance.now() < endsMs) return
          throw new HttpError('unavailable', 'the policy store is too slow for so many: create fewer in one request')
        })
      } catch (error) {
        await database.query(undoSql, [entities])
        throw error
      }
      await database.query(doneSql, [entities])
    },

    async finish() {
      const to = await store()
      // If it was undone meanwhile, the row stays until the delivered policies are removed.
      const finishedSql = 'DELETE FROM control_plane.policy_outbox WHERE entity = $1 AND is_undone = $2'
      for (;;) {
        const rows = await database.query<LeftOverRow>(leftOverSql, [leftOverSeconds])
        if (rows.length === 0) return
        const failed: string[] = []
        let failure: unknown
        await exclusive(async isOurs => {
          // One by one, so that one that the server refuses does not delay the others.
          for (const { entity, policies, is_undone: isUndone } of rows) {
            const all = JSON.parse(policies) as Policy[]
            try {
              await client.write(to, isUndone ? { remove: all } : { add: all }, isOurs)
            } catch (error) {
              failure = error
              failed.push(entity)
              continue
            }
            await database.query(finishedSql, [entity, isUndone])
          }
        })
        if (failure !== undefined) onFailure(failure, failed)
        if (rows.length < rowsMax || failed.length === rows.length) return
      }
    },
  }
}
