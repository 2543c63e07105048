// What was made in the database and whose policies are on their way to OpenFGA: hidden until these have arrived.
//
// An entity and its row here are committed together. Then its policies are delivered, and the row goes; or they cannot be, and the entity goes,
// while the row stays until what may have arrived is taken back. A process that dies between leaves rows that the next one finishes.

import { HttpError } from '../../../config/http/errors.ts'
import type { Database, Queries, SqlRow } from '../../../config/postgres/database.ts'
import type { Policy } from '../policy-store.ts'
import type { OpenFgaClient, OpenFgaStore } from './client.ts'
import type { Alone } from './queue.ts'

/** An entity whose policies are not delivered. */
export interface Made {
  readonly entity: string
  readonly policies: readonly Policy[]
}

export interface Outbox {
  /** In the transaction that makes the entities. Each policy is of the entity that it names. */
  put(transaction: Queries, policies: readonly Policy[], entities: readonly string[]): Promise<Made[]>
  /**
   * Once that transaction is committed: the entities are there when it resolves.
   *
   * @throws HttpError `unavailable` where the policies cannot be delivered; the entities are gone then
   */
  deliver(made: readonly Made[]): Promise<void>
  /** Finishes what is left over by processes that died, under the lock of the queue. */
  finish(): Promise<void>
}

interface Parts {
  readonly database: Database
  readonly client: OpenFgaClient
  readonly store: () => Promise<OpenFgaStore>
  readonly alone: Alone
  /** @param rows the entities whose policies could not be delivered */
  readonly onFailure: (error: unknown, rows: readonly string[]) => void
}

/** In which the policies of all that one request made are delivered, but for the last hundred. */
const deliveryMs = 30_000
/** Younger rows belong to requests that are under way: after `deliveryMs` one more answer is waited for, twice 60 s at most. */
const leftOverSeconds = 180
/** Rows in memory at once. */
const rowsMax = 100

const putSql = `
  INSERT INTO control_plane.policy_outbox (entity, policies)
  SELECT entity, policies FROM json_to_recordset($1::json) AS row (entity uuid, policies jsonb)`
const doneSql = 'DELETE FROM control_plane.policy_outbox WHERE entity = ANY($1::uuid[])'
// The lines of the audit log have the instant of the transaction, as the rows have: earlier ones of an id that was given again stay.
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

export function openOutbox({ database, client, store, alone, onFailure }: Parts): Outbox {
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
          throw new HttpError('unavailable', 'the policy store takes too long for as many: make fewer at once')
        })
      } catch (error) {
        await database.query(undoSql, [entities])
        throw error
      }
      await database.query(doneSql, [entities])
    },

    async finish() {
      const to = await store()
      // Where it was undone meanwhile, the row stays for what is to be taken back.
      const finishedSql = 'DELETE FROM control_plane.policy_outbox WHERE entity = $1 AND is_undone = $2'
      for (;;) {
        const rows = await database.query<LeftOverRow>(leftOverSql, [leftOverSeconds])
        if (rows.length === 0) return
        const failed: string[] = []
        let failure: unknown
        await alone(async isOurs => {
          // Each by itself, so that one that the server refuses holds up no others.
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
