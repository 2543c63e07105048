// What a PostgreSQL server does in the background and PGlite, being one process, never does: checkpoints, vacuum, statistics.

import { type Database, DatabaseError } from './database.ts'

export interface UpkeepOptions {
  /** How often to look whether something is due; 0 never looks. */
  upkeepIntervalMs?: number
  /** Told of upkeep that failed; it is tried again at the next look. Without it, Node prints a warning. */
  onUpkeepFailure?: (error: DatabaseError) => void
}

export interface Upkeep {
  /** Begins nothing more from now on; resolves when what has begun is done. */
  stop(): Promise<void>
}

/** A checkpoint of that much takes 30 ms, and a start after a crash replays at most about twice that: 0.3 s. */
const checkpointBytes = 64 * 1024 * 1024
/** Vacuum reads only pages that changed: 10 ms for this many new rows. Statistics cost 50 ms, at each fifth that a table grows. */
const vacuumRows = 100_000

/**
 * Looks every few seconds, and does one thing that is due: a checkpoint when 64 MB of log were written since the last one (without
 * it the log fills the disk), else vacuum and statistics of the table that needs them most, by autovacuum's own rules.
 */
export function startUpkeep(database: Database, { upkeepIntervalMs = 5_000, onUpkeepFailure }: UpkeepOptions): Upkeep {
  let running: Promise<void> = Promise.resolve()
  let busy = false
  let stopped = false
  const look = (): void => {
    // One that still waits for its turn, behind a long transaction, is not joined by others.
    if (busy) return
    busy = true
    running = tend(database)
      .catch((error: unknown) => {
        // The database refuses what comes after the stop, and that is no failure.
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

/** Does the one thing that is most due. Exported for its test: nothing else calls it. */
export async function tend(database: Database): Promise<void> {
  // What statements counted so far is otherwise in the statistics a second later, or after the next statement.
  const [log] = await database.query<{ bytes: number }>(
    'SELECT pg_wal_lsn_diff(pg_current_wal_insert_lsn(), redo_lsn)::float8 AS bytes, pg_stat_force_next_flush()::text FROM pg_control_checkpoint()',
  )
  if (log !== undefined && log.bytes > checkpointBytes) return database.execute('CHECKPOINT')
  const [table] = await database.query<{ name: string; aged: boolean }>(dueTable, [vacuumRows])
  if (table !== undefined) await database.execute(`VACUUM ${table.aged ? '(ANALYZE)' : ''} ${table.name}`)
}

/** The thresholds are autovacuum's (PostgreSQL manual, "The Autovacuum Daemon"), with a ceiling so that no round takes long. */
const dueTable = `
  SELECT format('%I.%I', schemaname, relname) AS name, n_mod_since_analyze > 1000 + 0.2 * rows AS aged
  FROM pg_stat_user_tables JOIN (SELECT oid AS relid, greatest(reltuples, 0) AS rows FROM pg_class) AS class USING (relid)
  WHERE n_dead_tup > 50 + 0.2 * rows
     OR n_ins_since_vacuum > least(1000 + 0.2 * rows, $1::int4)
     OR n_mod_since_analyze > 1000 + 0.2 * rows
  ORDER BY n_dead_tup + n_ins_since_vacuum DESC
  LIMIT 1`
