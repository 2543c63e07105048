// The index by publisher of each table of rows: by it one publisher's rows are found among everybody's of a day.
//
// Whoever may not make it, or has a cluster that knows no such index, writes as well without: readers then walk the days.

import type { Connection } from './connection.ts'
import { isUnchangeable } from './errors.ts'
import { changeSchema, tablesOf } from './schema.ts'
import { withSchemaLock } from './schema-lock.ts'
import { createIndex } from './statements.ts'

/** Tables of ours that hold no rows. */
const ownPrefix = 'sluice_'

/**
 * Makes the indexes that are missing, of tables that another version has made, or whose maker died. What is stored already is indexed by the
 * nodes afterwards: until that is done they refuse to look by it.
 *
 * @returns why there are none, with what to do about it; undefined where all are there
 */
export async function prepareIndexes(connection: Connection): Promise<string | undefined> {
  if ((await unindexedTables(connection)).length === 0) return undefined
  return await withSchemaLock(connection, async lock => {
    for (const name of await unindexedTables(connection)) {
      await lock.renew()
      const denied = await makeIndex(connection, name)
      if (denied !== undefined) return denied
    }
    return undefined
  })
}

/**
 * To be called with the lock of the schema held.
 *
 * @returns why it could not be made, with what to do about it; undefined when it is there
 */
export async function makeIndex(connection: Connection, table: string): Promise<string | undefined> {
  try {
    await changeSchema(connection, createIndex(connection.keyspace, table))
    return undefined
  } catch (error) {
    if (!isUnchangeable(error)) throw error
    return `the tables of the keyspace "${connection.keyspace}" get no index by publisher, so that what one thing has sent is found by walking everybody's messages of its days (${error.message}): it takes Cassandra 5, and GRANT ALTER ON KEYSPACE "${connection.keyspace}" to the role where another one has made the tables`
  }
}

async function unindexedTables(connection: Connection): Promise<string[]> {
  const cql = 'SELECT table_name, options FROM system_schema.indexes WHERE keyspace_name = ?'
  // Tables of the schema are read from the node that is asked.
  const rows = await connection.query(cql, [connection.keyspace], { consistency: 1 })
  const indexed = new Set(rows.filter(({ options }) => targetOf(options) === 'publisher').map(row => row['table_name'] as string))
  const tables = await tablesOf(connection)
  return [...tables].flatMap(([name, columns]) =>
    name.startsWith(ownPrefix) || indexed.has(name) || !columns.has('publisher') ? [] : [name],
  )
}

function targetOf(options: unknown): string | undefined {
  return (options as Readonly<Record<string, string>> | null)?.['target']
}
