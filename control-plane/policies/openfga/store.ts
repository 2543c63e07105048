// The policy store in an OpenFGA server: a change is committed in the database and delivered then, so that no transaction waits for the server.

import { randomUUID } from 'node:crypto'
import type { Logger } from '../../../config/logger.ts'
import { factOf } from '../../../config/outage.ts'
import type { Database, Transaction } from '../../../config/postgres/database.ts'
import type { PoliciesOptions } from '../options.ts'
import type { PoliciesOf, Policy, PolicyChanges, PolicyStore } from '../policy-store.ts'
import { type OpenFgaClient, type OpenFgaStore, openClient } from './client.ts'
import { openOutbox, type PolicyChange } from './outbox.ts'
import { openRequests } from './requests.ts'

export interface OpenFgaPolicies extends PolicyStore {
  /**
   * Makes its store on the first start, and from then on finishes what was not delivered, now and again.
   *
   * @throws HttpError `unavailable` while the server or the database cannot be asked
   */
  start(): Promise<void>
  /** @throws HttpError `unavailable` while the server does not answer */
  check(): Promise<void>
  close(): Promise<void>
}

interface Parts {
  readonly database: Database
  readonly client: OpenFgaClient
  /** Of what could not be delivered, which is tried again. @param rows of the outbox */
  readonly onFailure: (error: unknown, rows: readonly string[]) => void
  /** How long a row of the outbox is left to a process that does not renew it; 30 where it is left out. */
  readonly leaseSeconds?: number
}

/** A removal is not undone, so the store must answer before one is committed; it is asked outside the transaction, which runs again then. */
const unasked = new Error('policies are to be removed, and the store has not been asked')

export function openOpenFga(database: Database, options: PoliciesOptions['openfga'], logger: Logger): OpenFgaPolicies {
  const requests = openRequests(options)
  const policies = openOpenFgaPolicies({
    database,
    client: openClient(requests),
    onFailure: (error, rows) =>
      logger.warn({ reason: factOf(error), rows }, 'policies that were not delivered wait for their store: they are tried again'),
  })
  return {
    ...policies,
    async close() {
      await policies.close()
      await requests.close()
    },
  }
}

export function openOpenFgaPolicies({ database, client, onFailure, leaseSeconds = 30 }: Parts): OpenFgaPolicies {
  let known: Promise<OpenFgaStore> | undefined
  const outbox = openOutbox({ database, client, store, onFailure, leaseSeconds })

  /** One store for all instances on the database, made by the first of them. */
  async function findStore(): Promise<OpenFgaStore> {
    return database.transaction(async transaction => {
      await transaction.query('LOCK TABLE control_plane.openfga_store IN EXCLUSIVE MODE')
      const sql = 'SELECT store_id, model_id FROM control_plane.openfga_store'
      const [row] = await transaction.query<{ store_id: string; model_id: string }>(sql)
      if (row !== undefined) return { storeId: row.store_id, modelId: row.model_id }
      const made = await client.makeStore()
      await transaction.query('INSERT INTO control_plane.openfga_store (store_id, model_id) VALUES ($1, $2)', [made.storeId, made.modelId])
      return made
    })
  }

  function store(): Promise<OpenFgaStore> {
    known ??= findStore().catch((error: unknown) => {
      known = undefined
      throw error
    })
    return known
  }

  const check = async (): Promise<void> => void (await client.check(await store(), '*', 'create', 'users'))

  /** @throws `unasked`, with nothing committed, where policies are removed and the store has not been asked */
  function commit<Result>(
    work: (transaction: Transaction, policies: PolicyChanges) => Promise<Result>,
    isThere: boolean,
  ): Promise<{ result: Result; changes: PolicyChange[] }> {
    return database.transaction(async transaction => {
      const changes: PolicyChange[] = []
      const [added, ensured, removed]: [Policy[], Policy[], (Policy | PoliciesOf)[]] = [[], [], []]
      const result = await work(transaction, {
        async add(policies, made) {
          if (made === undefined) added.push(...policies)
          for (const id of made ?? []) {
            const ofEntity = policies.filter(({ subject, object }) => subject === id || object === id)
            changes.push({ id, kind: 'made', added: ofEntity, removed: [] })
          }
          return policies
        },
        async ensure(policies) {
          ensured.push(...policies)
          return policies
        },
        async remove(policies) {
          removed.push(...policies)
          return policies
        },
        removeAll: async of => void removed.push(of),
      })
      if (removed.length > 0 && !isThere) throw unasked
      if (added.length + removed.length > 0) changes.push({ id: randomUUID(), kind: 'changed', added, removed })
      if (ensured.length > 0) changes.push({ id: randomUUID(), kind: 'ensured', added: ensured, removed: [] })
      await outbox.put(transaction, changes)
      return { result, changes }
    })
  }

  return {
    async start() {
      await store()
      await outbox.start()
    },

    allows: async (subject, relation, object) => client.check(await store(), subject, relation, object),
    objects: async (subject, relation) => client.objects(await store(), subject, relation),

    async list(of, transaction) {
      // Before the store is asked: what is delivered between is in its answer.
      const pending = transaction === undefined ? [] : await outbox.pending(transaction, of)
      const isPending = ({ subject, relation, object }: Policy): boolean =>
        pending.some(policy => policy.subject === subject && policy.relation === relation && policy.object === object)
      return (await client.read(await store(), of)).filter(policy => !isPending(policy))
    },

    async transaction(work) {
      const { result, changes } = await commit(work, false).catch(async (error: unknown) => {
        if (error !== unasked) throw error
        await check()
        return commit(work, true)
      })
      await outbox.deliver(changes)
      return result
    },

    check,
    close: () => outbox.close(),
  }
}
