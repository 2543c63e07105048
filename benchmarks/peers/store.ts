// The database of one run: when it has everything, how large it is, and what its rows are.

import { execFile } from 'node:child_process'
import { setTimeout as wait } from 'node:timers/promises'
import { promisify } from 'node:util'
import { openServer } from '../../database/server.ts'
import type { Ledger } from '../../roles/tools/bench/ledger.ts'
import type { Postgres } from '../../test/servers/postgres.ts'
import { type Counted, count } from './count.ts'
import type { Peer } from './peer.ts'

export interface Store {
  readonly url: string
  /**
   * Resolves with true when the table has so many messages, or if it has not grown for a minute; with false at `deadlineMs`, so that more may come.
   *
   * @param each called about twice a second
   */
  whenStored(messages: number, each: () => Promise<void>, deadlineMs?: number): Promise<boolean>
  /** On disk, with indexes. */
  bytes(): Promise<number>
  /** Reads all rows. */
  counted(ledger: Ledger): Promise<Counted>
  /** Drops the database: the next run gets the disk and the cache of the server. */
  close(): Promise<void>
}

const execute = promisify(execFile)
const lookMs = 500
/** Before the rows are counted, which costs the server too much to do it often. */
const stillMs = 2000
/** As long as rows may wait for a flush or a rebalance. */
const stillMsMax = 60_000
const printedBytesMax = 500e6

/** A new database with the peer's table. */
export async function openStore(postgres: Postgres, { schema, table, rows }: Peer): Promise<Store> {
  const url = await postgres.createDatabase()
  const database = await openServer({ url, applicationName: 'benchmark', connectionsMax: 1 })
  for (const statement of schema) await database.execute(statement)
  // What the run before left to write is not this peer's.
  await database.execute('CHECKPOINT')
  const query = async (sql: string): Promise<number> => (await database.query<{ found: number }>(sql))[0]!.found

  /** Of the table and its partitions; 0 as long as there is none. */
  function sum(size: 'pg_relation_size' | 'pg_total_relation_size'): Promise<number> {
    const parts = `SELECT to_regclass('${table}')::oid UNION SELECT relid FROM pg_partition_tree(to_regclass('${table}'))`
    return query(`SELECT coalesce(sum(${size}(oid)), 0)::float8 AS found FROM pg_class WHERE oid IN (${parts})`)
  }

  return {
    url,
    async whenStored(messages, each, deadlineMs = Number.POSITIVE_INFINITY) {
      let [bytes, grownMs] = [0, performance.now()]
      while (performance.now() < deadlineMs) {
        await each()
        const found = await sum('pg_relation_size')
        if (found !== bytes) [bytes, grownMs] = [found, performance.now()]
        const unchangedMs = performance.now() - grownMs
        if (unchangedMs > stillMsMax) return true
        const isStill = bytes > 0 && unchangedMs > stillMs
        if (isStill && (await query(`SELECT count(DISTINCT sent_us)::float8 AS found FROM (${rows}) AS stored`)) >= messages) return true
        await wait(isStill ? stillMs : lookMs)
      }
      return false
    },
    bytes: () => sum('pg_total_relation_size'),
    async counted(ledger) {
      const committed = '(extract(epoch FROM pg_xact_commit_timestamp(xmin)) * 1000000)::bigint'
      const copy = `COPY (SELECT sent_us, temperature, ${committed} FROM (${rows}) AS stored) TO STDOUT`
      const { stdout } = await execute('psql', [url, '-q', '-c', copy], { maxBuffer: printedBytesMax })
      return count(ledger, stdout.trimEnd().split('\n'))
    },
    async close() {
      await database.close()
      await dropDatabase(postgres, url)
    },
  }
}

/** Also while a peer that was killed still has connections. */
export async function dropDatabase(postgres: Postgres, url: string): Promise<void> {
  await execute('psql', [postgres.url, '-q', '-c', `DROP DATABASE ${new URL(url).pathname.slice(1)} WITH (FORCE)`])
}
