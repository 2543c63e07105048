// What was made in the database and whose policies are on their way to OpenFGA: hidden until these have arrived.
//
// An entity and its row here are committed together. Then its policies are delivered, and the row goes; or they cannot be, and the entity goes,
// while the row stays until what may have arrived is taken back. A process that dies between leaves rows that the next one finishes.

import type { Database, Queries, SqlRow } from '../../../config/postgres/database.ts'
import type { MadeEntities, Policy } from '../policy-store.ts'
import type { OpenFgaClient, OpenFgaStore } from './client.ts'

/** An entity whose policies are not delivered. */
export interface Made {
  readonly entity: string
  readonly policies: readonly Policy[]
}

export interface Outbox {
  /** In the transaction that makes the entities. Each policy is of the entity that it names. */
  put(transaction: Queries, policies: readonly Policy[], entities: MadeEntities): Promise<Made[]>
  /**
   * Once that transaction is committed: the entities are there when it resolves.
   *
   * @throws HttpError `unavailable` where the policies cannot be delivered; the entities are gone then
   */
  deliver(made: readonly Made[]): Promise<void>
  /** Finishes what is left over, now and every few seconds. */
  start(): Promise<void>
  close(): Promise<void>
}

interface Parts {
  readonly database: Database
  readonly client: OpenFgaClient
  readonly store: () => Promise<OpenFgaStore>
  readonly onFailure: (error: unknown) => void
}

const intervalMs = 5_000
/** A request that is under way finishes its own: none takes as long. */
const leftOverSeconds = 60
/** Rows that are finished at once. */
const rowsMax = 100

const putSql = `
  INSERT INTO control_plane.policy_outbox (entity, kind, policies)
  SELECT entity, $1, policies FROM json_to_recordset($2::json) AS row (entity uuid, kind text, policies jsonb)`
const doneSql = 'DELETE FROM control_plane.policy_outbox WHERE entity = ANY($1::uuid[])'
const undoSql = `
  WITH undone AS (
    UPDATE control_plane.policy_outbox SET is_undone = true WHERE entity = ANY($1::uuid[]) RETURNING entity
  ), things AS (
    DELETE FROM control_plane.things WHERE id IN (SELECT entity FROM undone)
  ), groups AS (
    DELETE FROM control_plane.groups WHERE id IN (SELECT entity FROM undone)
  ), channels AS (
    DELETE FROM control_plane.channels WHERE id IN (SELECT entity FROM undone)
  ), lines AS (
    DELETE FROM control_plane.audit
    WHERE objects && ARRAY(SELECT entity::text FROM undone)
      AND action IN ('thing.create', 'group.create', 'user.register', 'channel.create', 'connect', 'bootstrap.create', 'mapping.create')
  )
  DELETE FROM control_plane.users WHERE id IN (SELECT entity FROM undone)`
const leftOverSql = `
  SELECT entity, policies::text AS policies, is_undone FROM control_plane.policy_outbox
  WHERE is_undone OR since < now() - make_interval(secs => $1::int4) ORDER BY since LIMIT ${rowsMax}`

type LeftOverRow = SqlRow & { entity: string; policies: string; is_undone: boolean }

export function openOutbox({ database, client, store, onFailure }: Parts): Outbox {
  let timer: NodeJS.Timeout | undefined
  let finishing = Promise.resolve()

  async function finish(): Promise<void> {
    const to = await store()
    for (;;) {
      const rows = await database.query<LeftOverRow>(leftOverSql, [leftOverSeconds])
      const policiesOf = (isUndone: boolean): Policy[] =>
        rows.filter(row => row.is_undone === isUndone).flatMap(row => JSON.parse(row.policies) as Policy[])
      await client.write(to, { remove: policiesOf(true), add: policiesOf(false) })
      await database.query(doneSql, [rows.map(({ entity }) => entity)])
      if (rows.length < rowsMax) return
    }
  }

  return {
    async put(transaction, policies, { kind, ids }) {
      const made = ids.map(entity => ({
        entity,
        policies: policies.filter(({ subject, object }) => subject === entity || object === entity),
      }))
      await transaction.query(putSql, [kind, JSON.stringify(made)])
      return made
    },

    async deliver(made) {
      if (made.length === 0) return
      const entities = made.map(({ entity }) => entity)
      try {
        await client.write(await store(), { add: made.flatMap(({ policies }) => policies) })
      } catch (error) {
        await database.query(undoSql, [entities])
        throw error
      }
      await database.query(doneSql, [entities])
    },

    async start() {
      await finish()
      timer = setInterval(() => {
        finishing = finishing.then(finish).catch(onFailure)
      }, intervalMs)
      timer.unref()
    },

    async close() {
      clearInterval(timer)
      await finishing
    },
  }
}
