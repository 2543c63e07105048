// What is said when the embedded database's files are not what PostgreSQL wrote, and how to tell that from a full or closed disk.

import { DatabaseError } from './database.ts'

/** No retry mends it. The message says what to do; `cause` is what PostgreSQL or PGlite said. */
export class DamagedDatabaseError extends DatabaseError {
  override readonly name = 'DamagedDatabaseError'

  /** @param finding what is wrong, and where: `invalid page in block 3 of relation "base/5/16384"` */
  constructor(folder: string, finding: string, cause: unknown) {
    super(
      `the embedded database in ${folder} is damaged: ${finding}. The log of messages is apart from it and intact. Put back a copy of the folder, or move it away (mv ${folder} ${folder}.damaged) and start again: the messages of the last 24 hours are then stored again from the log, but users, things and channels are gone with the folder`,
      { sqlState: 'XX001', cause },
    )
  }
}

/** The embedded database cannot be opened as things are, and is not damaged; the message says what to do. */
export class DatabaseStartError extends Error {
  override readonly name = 'DatabaseStartError'
}

/**
 * Makes an error of a start that failed. PGlite itself says only that it failed; the reason is in the lines that PostgreSQL printed.
 *
 * @param lines PostgreSQL's standard error, up to its end
 */
export function startFailure(folder: string, lines: readonly string[], cause: unknown): Error {
  const finding = findingOf(lines)
  if (finding === undefined) {
    // Nothing was read yet: no memory, no right to enter the folder, a file in its place.
    if (!isAbort(cause)) return new DatabaseStartError(`the embedded database in ${folder} cannot be opened: ${textOf(cause)}`, { cause })
    return new DamagedDatabaseError(folder, textOf(cause), cause)
  }
  const version = /initialized by PostgreSQL version (\d+), which is not compatible with this version ([\d.]+)/.exec(lines.join('\n'))
  if (version !== null) {
    return new DatabaseStartError(
      `the embedded database in ${folder} was made by PostgreSQL ${version[1]}, and this version of the program has ${version[2]}: start the version that made it`,
      { cause },
    )
  }
  return stopFailure(folder, finding, cause) ?? new DamagedDatabaseError(folder, finding, cause)
}

/** The error of a disk that takes nothing more, or that we may not write to; undefined where the finding is neither. */
export function stopFailure(folder: string, finding: string, cause: unknown): DatabaseError | undefined {
  if (/No space left on device|Disk quota exceeded|File too large/.test(finding)) {
    return new DatabaseError(`the disk with the embedded database in ${folder} is full: make room (${finding})`, {
      sqlState: '53100',
      cause,
    })
  }
  if (/Permission denied|Read-only file system|Operation not permitted/.test(finding)) {
    return new DatabaseError(`the embedded database in ${folder} cannot be written: give this user the folder and its files (${finding})`, {
      sqlState: '42501',
      cause,
    })
  }
  return undefined
}

/** Files of the embedded database that are missing or unreadable when a statement needs them: XX001, XX002, and 58P01. */
export function isDamage(error: DatabaseError): boolean {
  return /^(XX001|XX002|58P01)$/.test(error.sqlState)
}

/** The last reason that PostgreSQL gave for ending, with its detail. */
export function findingOf(lines: readonly string[]): string | undefined {
  const last = lines.findLastIndex(line => /\b(FATAL|PANIC): /.test(line) || line.startsWith('postgres: '))
  if (last === -1) return undefined
  const reason = lines[last]?.replace(/^.*?(?:FATAL|PANIC|postgres): +/, '') ?? ''
  const detail = /DETAIL: +(.*)/.exec(lines[last + 1] ?? '')?.[1]
  return detail === undefined ? reason : `${reason} (${detail})`
}

/** True where WebAssembly stopped: `Aborted()`, `unreachable`, a read outside of its memory. */
function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'RuntimeError'
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
