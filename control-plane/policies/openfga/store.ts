// The policy store in an OpenFGA server: a change is committed in the database, and then delivered.

import type { Logger } from '../../../config/logger.ts'
import { factOf } from '../../../config/outage.ts'
import type { Database, Transaction } from '../../../database/database.ts'
import type { PoliciesOptions } from '../options.ts'
import type { PoliciesOf, Policy, PolicyStore, PolicyWriter } from '../policy-store.ts'
import { type OpenFgaClient, type OpenFgaStore, openClient } from './client.ts'
import { type Made, openOutbox } from './outbox.ts'
import { openQueue } from './queue.ts'
import { openRequests } from './requests.ts'

export interface OpenFgaPolicies extends PolicyStore {
  /**
   * Creates its store on the first start. Then delivers what is left over, now and every few seconds.
   *
   * @throws HttpError `unavailable` while the server or the database does not answer
   */
  start(): Promise<void>
  /** @throws HttpError `unavailable` while the server does not answer */
  check(): Promise<void>
  close(): Promise<void>
}

interface Parts {
  readonly database: Database
  readonly client: OpenFgaClient
  /** Milliseconds that one of its answers may take. */
  readonly timeoutMs: number
  /** Called when a delivery fails, which is retried. @param rows of the outbox or the queue */
  readonly onFailure: (error: unknown, rows: readonly string[]) => void
}

type Work<Result> = (transaction: Transaction, policies: PolicyWriter) => Promise<Result>

const intervalMs = 5_000
/** A committed change is not undone, so the server has to answer before the commit: outside the transaction, which then runs again. */
const notChecked = new Error('policies are to be changed, but the server has not been checked')

export function openOpenFga(database: Database, options: PoliciesOptions['openfga'], logger: Logger): OpenFgaPolicies {
  const requests = openRequests(options)
  const policies = openOpenFgaPolicies({
    database,
    client: openClient(requests),
    timeoutMs: options.timeoutMs,
    onFailure: (error, rows) =>
      logger.warn({ reason: factOf(error), rows }, 'policies could not be delivered to the policy store: retrying'),
  })
  return {
    ...policies,
    async close() {
      await policies.close()
      await requests.close()
    },
  }
}

export function openOpenFgaPolicies({ database, client, timeoutMs, onFailure }: Parts): OpenFgaPolicies {
  let known: Promise<OpenFgaStore> | undefined
  const queue = openQueue({ database, client, store, timeoutMs, onFailure })
  const outbox = openOutbox({ database, client, store, exclusive: queue.exclusive, onFailure })

  /** One store for all instances on the database, created by the first of them. */
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

  interface Committed<Result> {
    readonly result: Result
    readonly made: readonly Made[]
    /** The number in the queue; undefined if only entities and their policies were created. */
    readonly queuedNumber: bigint | undefined
  }

  /** @throws `notChecked`, with nothing committed, if policies of existing entities change and the server has not answered a check before */
  function commit<Result>(work: Work<Result>, isThere: boolean): Promise<Committed<Result>> {
    return database.transaction(async transaction => {
      const [added, removed]: [Policy[], (Policy | PoliciesOf)[]] = [[], []]
      const creations: [policies: readonly Policy[], entities: readonly string[]][] = []
      const result = await work(transaction, {
        async add(policies, entities) {
          if (entities === undefined) added.push(...policies)
          else creations.push([policies, entities])
          return policies
        },
        async remove(policies) {
          removed.push(...policies)
          return policies
        },
        removeAll: async of => void removed.push(of),
      })
      // Last, so that the transaction itself can see the entities that it created.
      const made: Made[] = []
      for (const [policies, entities] of creations) {
        await queue.refusePending(transaction, entities)
        made.push(...(await outbox.put(transaction, policies, entities)))
      }
      if (added.length + removed.length === 0) return { result, made, queuedNumber: undefined }
      if (!isThere) throw notChecked
      return { result, made, queuedNumber: await queue.put(transaction, { removed, added }) }
    })
  }

  let timer: NodeJS.Timeout | undefined
  let finishing: Promise<unknown> | undefined
  const note = (error: unknown): void => onFailure(error, [])
  const finish = (): Promise<unknown> => Promise.all([outbox.finish().catch(note), queue.finish().catch(note)])

  return {
    async start() {
      await store()
      await Promise.all([outbox.finish(), queue.finish()])
      timer = setInterval(() => {
        finishing ??= finish().finally(() => (finishing = undefined))
      }, intervalMs)
      timer.unref()
    },

    allows: async (subject, relation, object) => client.check(await store(), subject, relation, object),
    objects: async (subject, relation) => client.objects(await store(), subject, relation),

    async list(of, transaction) {
      if (transaction !== undefined && of.object !== undefined) await queue.refusePending(transaction, [of.object])
      return client.read(await store(), of)
    },

    async transaction(work) {
      const { result, made, queuedNumber } = await commit(work, false).catch(async (error: unknown) => {
        if (error !== notChecked) throw error
        await check()
        return commit(work, true)
      })
      await outbox.deliver(made)
      if (queuedNumber !== undefined) await queue.deliver(queuedNumber)
      return result
    },

    check,
    async close() {
      clearInterval(timer)
      await finishing
    },
  }
}
