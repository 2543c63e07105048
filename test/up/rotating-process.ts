// Rotates the master key of a data folder like `sluice secrets rotate --data`, prints `reached` before the given step, and blocks there.
//
//   node rotating-process.ts <folder> sql|tell <pattern> <nth>

import { join } from 'node:path'
import type { Database, SqlValue } from '../../database/database.ts'
import { sources } from '../../roles/roles.ts'
import { withControlPlane } from '../../roles/tools/control-plane.ts'
import { rotateInFolder } from '../../roles/tools/secrets.ts'

const [data, kind, pattern, nth] = process.argv.slice(2) as [string, string, string, string]
let met = 0

/** @param text a statement before it is sent, or a line before it is printed */
async function pass(of: string, text: string): Promise<void> {
  if (of !== kind || !new RegExp(pattern).test(text) || ++met < Number(nth)) return
  console.log('reached')
  await new Promise(resolve => setTimeout(resolve, 3_600_000))
}

const watched = (database: Database): Database => ({
  ...database,
  transaction: (work, signal) =>
    database.transaction(
      transaction =>
        work({
          ...transaction,
          query: async <Row extends Record<string, SqlValue>>(sql: string, values: readonly SqlValue[] = []) => {
            await pass('sql', sql)
            return transaction.query<Row>(sql, values)
          },
        }),
      signal,
    ),
})

await withControlPlane({ data }, sources, site =>
  rotateInFolder(
    { ...site, withDatabase: work => site.withDatabase(database => work(watched(database))) },
    join(data, 'master-key'),
    text => pass('tell', text),
  ),
)
