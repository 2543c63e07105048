// The file of an embedded log: one SQLite database per topic with one partition. Creates it, checks its format, and locks it.

import { randomUUID } from 'node:crypto'
import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../sinks/sink.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { LogUnavailableError } from '../log.ts'
import { SystemicError } from '../systemic-error.ts'

/** The only partition of a log. */
export const partition = 0
/** That partition, for sources. */
export const only = logPartition(0, partition)

const formatVersion = 1
/** Identifies the file as ours in SQLite's header: the letters SLUI. */
const applicationId = 0x534c5549

const schema = `
  CREATE TABLE log (
    id TEXT NOT NULL,
    name TEXT NOT NULL,
    start INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE messages (
    offset INTEGER PRIMARY KEY,
    channel TEXT NOT NULL,
    subtopic TEXT NOT NULL,
    publisher TEXT NOT NULL,
    protocol TEXT NOT NULL,
    content_type TEXT NOT NULL,
    created_us INTEGER NOT NULL,
    created_rest_ns INTEGER NOT NULL,
    headers TEXT,
    payload BLOB NOT NULL,
    checksum INTEGER
  ) STRICT;
  CREATE TABLE consumers (
    name TEXT PRIMARY KEY,
    committed INTEGER NOT NULL
  ) STRICT;
  CREATE TABLE checkpoints (
    offset INTEGER PRIMARY KEY,
    time_ms INTEGER NOT NULL
  ) STRICT;
`

/** An open file. It contains the offsets `[start, end)`; code that changes messages must update both. */
export interface LogFile {
  readonly database: DatabaseSync
  readonly path: string
  readonly name: string
  readonly id: string
  start: number
  end: number
}

/**
 * Opens or creates the file, readable by its owner only. SQLite's exclusive lock holds until it is closed, so that no second
 * process can assign the same offsets.
 *
 * @param name the topic; stored in the file
 * @param bytesMax size at which messages are rejected; 0: when the disk is full
 * @throws SystemicError if it is open elsewhere, not a log, of another topic or of another format
 */
export function openLogFile(path: string, name: string, bytesMax: number): LogFile {
  let database: DatabaseSync | undefined
  try {
    closeSync(openSync(path, 'a', 0o600))
    database = new DatabaseSync(path, { timeout: 0 })
    database.exec('PRAGMA auto_vacuum = INCREMENTAL; PRAGMA locking_mode = EXCLUSIVE; PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
    if (bytesMax > 0) database.exec(`PRAGMA max_page_count = ${Math.ceil(bytesMax / pragma(database, 'page_size'))}`)
    return { database, path, ...contents(database, path, name) }
  } catch (error) {
    database?.close()
    if (error instanceof SystemicError) throw error
    throw new SystemicError(openingFault(error, path), { cause: error })
  }
}

/** The value of a numeric PRAGMA. */
export function pragma(database: DatabaseSync, name: string): number {
  return Number(database.prepare(`PRAGMA ${name}`).get()?.[name])
}

/** Primary result codes of SQLite (sqlite.org/rescode.html). */
export const sqliteCodes = { busy: 5, noMemory: 7, readOnly: 8, inputOutput: 10, corrupt: 11, full: 13, notADatabase: 26 } as const

/** Codes of errors that are temporary: the disk is full or unavailable. */
const passing: ReadonlySet<number | undefined> = new Set([
  sqliteCodes.busy,
  sqliteCodes.noMemory,
  sqliteCodes.readOnly,
  sqliteCodes.inputOutput,
  sqliteCodes.full,
])

/** The error that a source throws after a file error: LogUnavailableError for a temporary one, so that it is retried; else the error itself. */
export function logFailure(error: unknown, file: LogFile): unknown {
  if (!passing.has(sqliteCode(error))) return error
  return new LogUnavailableError(`the log ${file.path} is unavailable (${(error as Error).message}): check its disk`, {
    cause: error,
  })
}

/** SQLite's primary result code; undefined for an error of another kind. */
export function sqliteCode(error: unknown): number | undefined {
  if (!(error instanceof Error) || !('errcode' in error) || typeof error.errcode !== 'number') return undefined
  return error.errcode & 0xff
}

function contents(database: DatabaseSync, path: string, name: string): Pick<LogFile, 'id' | 'name' | 'start' | 'end'> {
  database.exec('BEGIN IMMEDIATE')
  const version = pragma(database, 'user_version')
  if (version === 0 && database.prepare('SELECT 1 FROM sqlite_schema').get() === undefined) {
    database.exec(`${schema} PRAGMA user_version = ${formatVersion}; PRAGMA application_id = ${applicationId}`)
    database.prepare('INSERT INTO log (id, name, start) VALUES (?, ?, 0)').run(randomUUID(), name)
  } else if (pragma(database, 'application_id') !== applicationId) {
    throw new SystemicError(`${path} is a database, but not a log: use another path`)
  } else if (version !== formatVersion) {
    throw new SystemicError(`${path} has format ${version}, but this release reads format ${formatVersion}: use the release that wrote it`)
  }
  const row = database.prepare('SELECT id, name, start FROM log').get() as { id: string; name: string; start: number }
  if (row.name !== name) throw new SystemicError(`${path} is the log of the topic ${row.name}, not of ${name}: use another path`)
  database.exec('COMMIT')

  // Deleted messages leave no rows, so an empty log continues at its start offset.
  const last = database.prepare('SELECT max(offset) AS last FROM messages').get() as { last: number | null }
  const end = last.last === null ? row.start : last.last + 1
  if (end > limits.offset) {
    throw new SystemicError(`${path} has used its ${limits.offset} offsets: wait until its readers have finished, then move it away`)
  }
  return { id: row.id, name: row.name, start: row.start, end }
}

function openingFault(error: unknown, path: string): string {
  const code = sqliteCode(error)
  if (code === sqliteCodes.busy) return `the log ${path} is open in another process: stop it, or use another data folder`
  if (code === sqliteCodes.notADatabase || code === sqliteCodes.corrupt) {
    return `the log ${path} is damaged or not a log: restore it from a backup, or move it away to start an empty one`
  }
  return `the log ${path} cannot be opened: its folder must exist and be writable, with free space on the disk`
}
