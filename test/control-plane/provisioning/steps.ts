// The steps of a mapping's transaction, each of which may fail, and the contents of the database before and after.

import type { Layout } from '../../../control-plane/provisioning/layout.ts'
import type { Database, Queries } from '../../../database/database.ts'

/** Everything that a mapping may create. */
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
  /** Statements of the next transactions, counted from 1; after the last come the commit and the step after it. 0 means none. */
  arm(at: number): void
  /** Steps since then. */
  taken(): number
}

/** @param meet runs at that step: throws, or waits forever; without a transaction it is committed */
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

/** Every row of every table, as text, but no trace of revocations: what an authority elsewhere signed for a mapping that failed stays, revoked. */
export async function snapshot(database: Database, without: readonly string[] = []): Promise<Record<string, string[]>> {
  const tables = await database.query<{ name: string }>(
    `SELECT table_schema || '.' || table_name AS name FROM information_schema.tables WHERE table_schema IN ('control_plane', 'public') ORDER BY 1`,
  )
  const rows: Record<string, string[]> = {}
  for (const { name } of tables.filter(table => ![...without, 'control_plane.crl_revision'].includes(table.name))) {
    const kept = name === 'control_plane.certificates' ? 'WHERE revoked_at IS NULL' : ''
    const sql = `SELECT (to_jsonb(t) - 'certificate_count')::text AS text FROM ${name} AS t ${kept} ORDER BY 1`
    const found = await database.query<{ text: string }>(sql)
    rows[name] = found.map(({ text }) => text)
  }
  return rows
}
