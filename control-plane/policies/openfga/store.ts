// The policy store in an OpenFGA server: it is asked before the database commits what takes access away, and after it for what is made.

import type { Database } from '../../../config/postgres/database.ts'
import type { MadeEntities, Policy, PolicyStore } from '../policy-store.ts'
import type { OpenFgaClient, OpenFgaStore } from './client.ts'
import { type Made, openOutbox } from './outbox.ts'

export interface OpenFgaPolicies extends PolicyStore {
  /**
   * Makes its store on the first start, and from then on finishes what a crash cut off, now and again.
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
  /** What could not be finished, which is tried again. */
  readonly onFailure: (error: unknown) => void
}

/** Transactions that may wait for the server at once: others need the database's connections meanwhile. */
const transactionsMax = 2

export function openOpenFgaPolicies({ database, client, onFailure }: Parts): OpenFgaPolicies {
  const slots = openSlots(transactionsMax)
  let known: Promise<OpenFgaStore> | undefined
  const outbox = openOutbox({ database, client, store, onFailure })

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

  return {
    async start() {
      await store()
      await outbox.start()
    },

    allows: async (subject, relation, object) => client.check(await store(), subject, relation, object),
    list: async of => client.read(await store(), of),
    objects: async (subject, relation) => client.objects(await store(), subject, relation),

    async transaction(work) {
      const to = await store()
      const made: Made[] = []
      const withEntities: [policies: readonly Policy[], entities: MadeEntities][] = []
      const outcome = await slots(() =>
        database.transaction(async transaction => {
          const [added, removed]: [Policy[], Policy[]] = [[], []]
          const result = await work(transaction, {
            async add(policies, entities) {
              if (entities === undefined) added.push(...policies)
              else withEntities.push([policies, entities])
              return policies
            },
            async remove(policies) {
              removed.push(...policies)
              return policies
            },
            removeAll: async of => void removed.push(...(await client.read(to, of))),
          })
          // Last, so that the transaction finds what it made itself.
          for (const each of withEntities) made.push(...(await outbox.put(transaction, ...each)))
          // Where the commit fails behind it, or a part of a write, what was sent holds: repeating the request, or its opposite, settles it.
          await client.write(to, { remove: removed, add: added })
          return result
        }),
      )
      await outbox.deliver(made)
      return outcome
    },

    check: async () => void (await client.check(await store(), '*', 'create', 'users')),
    close: () => outbox.close(),
  }
}

/** @returns runs what it is given, so many at once, and the others in their order */
function openSlots(count: number): <Result>(work: () => Promise<Result>) => Promise<Result> {
  const waiting: (() => void)[] = []
  let free = count
  return async work => {
    if (free > 0) free--
    else await new Promise<void>(resolve => void waiting.push(resolve))
    try {
      return await work()
    } finally {
      const next = waiting.shift()
      if (next === undefined) free++
      else next()
    }
  }
}
