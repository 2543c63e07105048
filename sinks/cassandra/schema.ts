// The schema of the store: makes what is missing, and checks what is there; and what is done to it from time to time.

import { named } from '../../config/option-variable.ts'
import { SinkError } from '../sink-error.ts'
import type { Connection, Row } from './connection.ts'
import { alreadyExists, isDenied } from './errors.ts'
import type { SinkOptions } from './options.ts'
import { deleteOldDays } from './retention.ts'
import { withSchemaLock } from './schema-lock.ts'
import { createTable, ownTables, quoted, schemaTable, type Table } from './statements.ts'

/** Goes up when the tables change in a way that an older sluice would not understand. */
const schemaVersion = '1'

/** Tables of the schema are read from the node that is asked: they have no replicas, so that `TWO` of them are never there. */
const local = { consistency: 1 }

/**
 * Called from time to time, by one process.
 *
 * @throws the errors of the driver
 */
export async function maintain(connection: Connection, options: SinkOptions): Promise<void> {
  if (options.retentionDays > 0) await deleteOldDays(connection, options)
}

/**
 * Makes the keyspace and the tables that are missing, and checks that those that are there are ours. Any number of processes may do so at once.
 *
 * @throws SinkError (systemic) where a table is another one, where the bucket size or the version is, and where something is missing that may not be made
 */
export async function prepareSchema(connection: Connection, { replication, bucketDays }: SinkOptions): Promise<void> {
  await makeKeyspace(connection, replication)
  if ((await tablesOf(connection)).get(schemaTable.name) === undefined) await makeTable(connection, schemaTable)
  const isMissing = ({ name }: Table, tables: ReadonlyMap<string, unknown>): boolean => !tables.has(name)
  const before = await tablesOf(connection)
  if (ownTables.some(table => isMissing(table, before))) {
    await withSchemaLock(connection, async lock => {
      const tables = await tablesOf(connection)
      for (const table of ownTables) {
        await lock.renew()
        if (isMissing(table, tables)) await makeTable(connection, table)
      }
    })
  }
  await checkTables(connection)
  await checkSetting(connection, 'version', schemaVersion, found => {
    return `the tables of the keyspace "${connection.keyspace}" are of version ${found}, and this is sluice for version ${schemaVersion}: start the version that made them, or give another keyspace`
  })
  await checkSetting(connection, 'bucket_days', String(bucketDays), found => {
    return `the partitions of the keyspace "${connection.keyspace}" have ${found} days each, and ${named('store.bucket_days')} is ${bucketDays}: set it to ${found}, or give another keyspace`
  })
}

/** Also that a table that was dropped while a sink is open is missed. */
export async function checkTables(connection: Connection): Promise<void> {
  const found = await tablesOf(connection)
  for (const table of [schemaTable, ...ownTables]) {
    const columns = found.get(table.name)
    const place = `the table "${table.name}" of the keyspace "${connection.keyspace}"`
    if (columns === undefined) throw new SinkError('systemic', `${place} is missing: start the writer anew, which makes it, or restore it`)
    const wrong = wrongColumn(table, columns)
    if (wrong !== undefined)
      throw new SinkError(
        'systemic',
        `${place} is not sluice's: ${wrong}. Give a keyspace of its own in ${named('store.url', 'SVC_WIDECOLUMN_URL')}`,
      )
  }
}

/** By table that there is, its columns. */
export async function tablesOf(connection: Connection): Promise<Map<string, Map<string, Row>>> {
  const sql = 'SELECT table_name, column_name, kind, type, clustering_order FROM system_schema.columns WHERE keyspace_name = ?'
  const tables = new Map<string, Map<string, Row>>()
  for await (const rows of connection.pages(sql, [connection.keyspace], local)) {
    for (const row of rows) {
      const name = row['table_name'] as string
      let columns = tables.get(name)
      if (columns === undefined) tables.set(name, (columns = new Map()))
      columns.set(row['column_name'] as string, row)
    }
  }
  return tables
}

/** Columns beside ours do no harm, unless they are part of the key. */
function wrongColumn(table: Table, columns: ReadonlyMap<string, Row>): string | undefined {
  for (const { name, type, kind } of table.columns) {
    const found = columns.get(name)
    const kindFound = found?.['kind'] === 'partition_key' ? 'partition' : found?.['kind']
    if (found === undefined) return `it has no column "${name}"`
    if (found['type'] !== type) return `its column "${name}" is of the type ${String(found['type'])}, and should be ${type}`
    if (kindFound !== kind) return `its column "${name}" is ${String(kindFound)}, and should be ${kind}`
  }
  const own = new Set(table.columns.map(({ name }) => name))
  const foreign = [...columns].find(([name, { kind }]) => !own.has(name) && kind !== 'regular' && kind !== 'static')
  return foreign === undefined ? undefined : `its key has the column "${foreign[0]}"`
}

async function makeKeyspace(connection: Connection, replication: string): Promise<void> {
  const [found] = await connection.query(
    'SELECT keyspace_name FROM system_schema.keyspaces WHERE keyspace_name = ?',
    [connection.keyspace],
    local,
  )
  if (found !== undefined) return
  await change(
    connection,
    `CREATE KEYSPACE IF NOT EXISTS ${quoted(connection.keyspace)} WITH replication = ${replication}`,
    `the keyspace "${connection.keyspace}" is missing, and the writer's role may not make it: make it, or GRANT CREATE ON ALL KEYSPACES to the role`,
  )
}

/** @throws SinkError (systemic) where the role may not */
export async function makeTable(connection: Connection, table: Table): Promise<void> {
  await change(
    connection,
    createTable(connection.keyspace, table),
    `the table "${table.name}" is missing, and the writer's role may not make it: GRANT CREATE, SELECT, MODIFY ON KEYSPACE "${connection.keyspace}" to the role`,
  )
}

async function change(connection: Connection, cql: string, denied: string): Promise<void> {
  try {
    await changeSchema(connection, cql)
  } catch (error) {
    if (isDenied(error)) throw new SinkError('systemic', denied, { cause: error })
    throw error
  }
}

/**
 * @throws SinkError (transient) where not all nodes have it in time
 * @throws the errors of the driver
 */
export async function changeSchema(connection: Connection, cql: string): Promise<void> {
  try {
    if (await connection.change(cql)) return
  } catch (error) {
    // Another process was faster, by way of another node.
    if ((error as { code?: unknown }).code === alreadyExists) return
    throw error
  }
  throw new SinkError('transient', 'the nodes of the cluster have not agreed on the schema in time: is one of them away')
}

/** Notes a setting with the first writer, and compares it with every later one. */
async function checkSetting(connection: Connection, name: string, value: string, explain: (found: string) => string): Promise<void> {
  const table = connection.table(schemaTable.name)
  const read = async (): Promise<string | undefined> => {
    const [row] = await connection.query(`SELECT value FROM ${table} WHERE name = ?`, [name])
    return row?.['value'] as string | undefined
  }
  let found = await read()
  if (found === undefined) {
    await connection.query(`INSERT INTO ${table} (name, value) VALUES (?, ?) IF NOT EXISTS`, [name, value], { isIdempotent: false })
    // What another one has set at the same instant counts, and only a serial read is sure to see it.
    const [row] = await connection.query(`SELECT value FROM ${table} WHERE name = ?`, [name], { consistency: connection.levels.serial })
    found = row?.['value'] as string | undefined
  }
  if (found !== value) throw new SinkError('systemic', explain(String(found)))
}
