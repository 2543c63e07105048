// The steps of a mapping's transaction, at each of which something may go wrong, and what is in the database before and after.

import type { Database, Queries } from '../../../config/postgres/database.ts'
import type { Layout } from '../../../control-plane/provisioning/layout.ts'

/** Everything that a mapping may make. */
export const fullLayout: Layout = {
  things: [
    { name: 'sensor', metadata: {}, isExternal: false },
    { name: 'gateway', metadata: {}, isExternal: true },
  ],
  channels: [
    { name: 'control', metadata: { type: 'control' } },
    { name: 'data', metadata: { type: 'data' } },
  ],
  bootstrap: { isProvisioned: true, isWhitelisted: true, hasCertificates: true, content: { agent: { log: { level: 'info' } } } },
  certificate: { ttlSeconds: 3600, keyType: 'ec', rsaBits: 2048 },
}

export interface Steps {
  readonly database: Database
  /** Of the transactions from now on the statement from 1 on; behind the last come the commit, and what follows it. 0 is none. */
  arm(at: number): void
  /** Steps since then. */
  taken(): number
}

/** @param meet what happens at that step: throws, or waits for ever; without a transaction it is committed */
export function openSteps(database: Database, meet: (transaction?: Queries) => Promise<unknown>): Steps {
  let [at, step] = [0, 0]
  async function reach(transaction?: Queries): Promise<void> {
    if (++step === at) await meet(transaction)
  }
  return {
    arm: to => void ([at, step] = [to, 0]),
    taken: () => step,
    database: {
      ...database,
      async transaction(work, signal) {
        const result = await database.transaction(async transaction => {
          const query: Queries['query'] = async (sql, values) => {
            await reach(transaction)
            return transaction.query(sql, values)
          }
          const outcome = await work({ ...transaction, query })
          await reach(transaction)
          return outcome
        }, signal)
        await reach()
        return result
      },
    },
  }
}

/** Every row of every table, as text. */
export async function snapshot(database: Database, without: readonly string[] = []): Promise<Record<string, string[]>> {
  const tables = await database.query<{ name: string }>(
    `SELECT table_schema || '.' || table_name AS name FROM information_schema.tables WHERE table_schema IN ('control_plane', 'public') ORDER BY 1`,
  )
  const rows: Record<string, string[]> = {}
  for (const { name } of tables.filter(table => !without.includes(table.name))) {
    const found = await database.query<{ text: string }>(`SELECT t::text AS text FROM ${name} AS t ORDER BY 1`)
    rows[name] = found.map(({ text }) => text)
  }
  return rows
}
