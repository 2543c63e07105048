// Background work that a PostgreSQL server does and PGlite, a single process, does not: checkpoints, vacuum, statistics.

import { type Database, DatabaseError } from '../database.ts'

export interface UpkeepOptions {
  /** How often to check whether work is due; 0 switches it off. */
  upkeepIntervalMs?: number
  /** Called when upkeep fails; it is retried at the next check. Without this callback, Node.js prints a warning. */
  onUpkeepFailure?: (error: DatabaseError) => void
}

export interface Upkeep {
  /** Starts no more work; resolves when running work has finished. */
  stop(): Promise<void>
}

/** A checkpoint of this much log takes 30 ms; a start after a crash replays at most about twice as much, which takes 0.3 s. */
const checkpointBytes = 64 * 1024 * 1024
/** Vacuum reads only changed pages: 10 ms for this many new rows. Statistics take 50 ms, each time a table grows by a fifth. */
const vacuumRows = 100_000

/**
 * Checks every few seconds and does one task that is due: a checkpoint if 64 MB of log were written since the last one (without
 * checkpoints the log fills the disk), else vacuum and statistics of the table that needs them most, by autovacuum's own rules.
 */
export function startUpkeep(database: Database, { upkeepIntervalMs = 5_000, onUpkeepFailure }: UpkeepOptions): Upkeep {
  let running: Promise<void> = Promise.resolve()
  let busy = false
  let stopped = false
  const look = (): void => {
    // While a task is still queued behind a long transaction, no second one is added.
    if (busy) return
    busy = true
    running = tend(database)
      .catch((error: unknown) => {
        // After the stop the database rejects requests, which is not a failure.
        if (stopped) return
        if (!(error instanceof DatabaseError)) throw error
        if (onUpkeepFailure === undefined) process.emitWarning(error)
        else onUpkeepFailure(error)
      })
      .finally(() => {
        busy = false
      })
  }
  const timer = upkeepIntervalMs === 0 ? undefined : setInterval(look, upkeepIntervalMs).unref()
  return {
    stop: async () => {
      stopped = true
      clearInterval(timer)
      await running
    },
  }
}

/** Does the most urgent task. Exported for its test only. */
export async function tend(database: Database): Promise<void> {
  // Flushes the statistics: otherwise the counts of earlier statements show up a second later, or after the next statement.
  const [log] = await database.query<{ bytes: number }>(
    'SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::float8 AS bytes, pg_stat_force_next_flush()::text FROM pg_control_checkpoint()',
  )
  if (log !== undefined && log.bytes > checkpointBytes) return database.execute('CHECKPOINT')
  const [table] = await database.query<{ name: string; aged: boolean }>(dueTable, [vacuumRows])
  if (table !== undefined) await database.execute(`VACUUM ${table.aged ? '(ANALYZE)' : ''} ${table.name}`)
}

/** The thresholds are autovacuum's (PostgreSQL manual, "The Autovacuum Daemon"), with an upper limit so that no task takes long. */
const dueTable = `
  SELECT format('%I.%I', schemaname, relname) AS name, n_mod_since_analyze > 1000 + 0.2 * rows AS aged
  FROM pg_stat_user_tables JOIN (SELECT oid AS relid, greatest(reltuples, 0) AS rows FROM pg_class) AS class USING (relid)
  WHERE n_dead_tup > 50 + 0.2 * rows
     OR n_ins_since_vacuum > least(1000 + 0.2 * rows, $1::int4)
     OR n_mod_since_analyze > 1000 + 0.2 * rows
  ORDER BY n_dead_tup + n_ins_since_vacuum DESC
  LIMIT 1`
