// The file of an embedded log: one SQLite database for one topic of one partition, its format, and who may have it open.

import { randomUUID } from 'node:crypto'
import { closeSync, openSync } from 'node:fs'
import { DatabaseSync } from 'node:sqlite'
import { limits } from '../../sinks/sink.ts'
import { LogUnavailableError } from '../log.ts'
import { SystemicError } from '../systemic-error.ts'

/** A log has this one partition. */
export const partition = 0

const formatVersion = 2
/** Marks the file as ours in SQLite's header: the letters SLUI. */
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

/** Format 1 had no checksums: its messages keep none, and are not checked. */
const fromFormat1 = 'ALTER TABLE messages ADD COLUMN checksum INTEGER'

/** An open file. It holds the offsets `[start, end)`; whoever changes the messages keeps both up to date. */
export interface LogFile {
  readonly database: DatabaseSync
  readonly path: string
  readonly name: string
  readonly id: string
  start: number
  end: number
}

/**
 * Opens the file, or makes it, readable by its owner alone. It belongs to this process until it is closed: with SQLite's
 * exclusive locking a second one cannot hand out the same offsets.
 *
 * @param name the topic; kept in the file
 * @param bytesMax where the file stops growing and messages are refused; 0: at the end of the disk
 * @throws SystemicError when it is open elsewhere, not a log, of another topic or of another format
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

/** The value of a PRAGMA that is a number. */
export function pragma(database: DatabaseSync, name: string): number {
  return Number(database.prepare(`PRAGMA ${name}`).get()?.[name])
}

/** Primary result codes of SQLite (sqlite.org/rescode.html). */
export const sqliteCodes = { busy: 5, noMemory: 7, readOnly: 8, inputOutput: 10, corrupt: 11, full: 13, notADatabase: 26 } as const

/** What passes when somebody makes room, or the disk comes back. */
const passing: ReadonlySet<number | undefined> = new Set([
  sqliteCodes.busy,
  sqliteCodes.noMemory,
  sqliteCodes.readOnly,
  sqliteCodes.inputOutput,
  sqliteCodes.full,
])

/** What a source throws where its log's file failed: LogUnavailableError for what passes, so that it is tried again; else the error itself. */
export function logFailure(error: unknown, file: LogFile): unknown {
  if (!passing.has(sqliteCode(error))) return error
  return new LogUnavailableError(`the log ${file.path} cannot be used now (${(error as Error).message}): look at the disk that holds it`, {
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
    throw new SystemicError(`${path} is a database, but not a log: name another path`)
  } else if (version !== formatVersion && version !== 1) {
    throw new SystemicError(`${path} has format ${version} and this program reads format ${formatVersion}: use the program that wrote it`)
  }
  const row = database.prepare('SELECT id, name, start FROM log').get() as { id: string; name: string; start: number }
  if (row.name !== name) throw new SystemicError(`${path} is the log of the topic ${row.name}, not of ${name}: name another path`)
  if (version === 1) database.exec(`${fromFormat1}; PRAGMA user_version = ${formatVersion}`)
  database.exec('COMMIT')

  // What was deleted leaves no row behind, so an empty log goes on where it starts.
  const last = database.prepare('SELECT max(offset) AS last FROM messages').get() as { last: number | null }
  const end = last.last === null ? row.start : last.last + 1
  if (end > limits.offset) {
    throw new SystemicError(`${path} has used its ${limits.offset} offsets: let its readers finish, then move it away`)
  }
  return { id: row.id, name: row.name, start: row.start, end }
}

function openingFault(error: unknown, path: string): string {
  const code = sqliteCode(error)
  if (code === sqliteCodes.busy) return `the log ${path} is open in another process: stop that one, or use another data folder`
  if (code === sqliteCodes.notADatabase || code === sqliteCodes.corrupt) {
    return `the log ${path} is damaged, or not a log: restore it from a copy, or move it away to begin an empty one`
  }
  return `the log ${path} cannot be opened: its folder must exist, and be writable, and have room`
}
