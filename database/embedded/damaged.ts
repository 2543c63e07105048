// Errors of the embedded database: damaged files, told apart from a full disk and from missing write permission.

import { DatabaseError } from '../database.ts'

/** The files are damaged, so a retry does not help. The message says what to do; `cause` is the error of PostgreSQL or PGlite. */
export class DamagedDatabaseError extends DatabaseError {
  override readonly name = 'DamagedDatabaseError'

  /** @param finding what is wrong, and where: `invalid page in block 3 of relation "base/5/16384"` */
  constructor(folder: string, finding: string, cause: unknown) {
    super(
      `the embedded database in ${folder} is damaged: ${finding}. The message log is separate and intact. Restore the folder from a backup, or move it away (mv ${folder} ${folder}.damaged) and restart: the messages of the last 24 hours are then stored again from the log, but users, things and channels are lost with the folder`,
      { sqlState: 'XX001', cause },
    )
  }
}

/** The embedded database cannot be opened, but is not damaged; the message says what to do. */
export class DatabaseStartError extends Error {
  override readonly name = 'DatabaseStartError'
}

/**
 * The error of a failed start. PGlite reports only that it failed; the reason is in PostgreSQL's output.
 *
 * @param lines PostgreSQL's standard error, until it ended
 */
export function startFailure(folder: string, lines: readonly string[], cause: unknown): Error {
  const finding = findingOf(lines)
  if (finding === undefined) {
    // No data was read yet: out of memory, no permission for the folder, or a file in its place.
    if (!isAbort(cause)) return new DatabaseStartError(`the embedded database in ${folder} cannot be opened: ${textOf(cause)}`, { cause })
    return new DamagedDatabaseError(folder, textOf(cause), cause)
  }
  const version = /initialized by PostgreSQL version (\d+), which is not compatible with this version ([\d.]+)/.exec(lines.join('\n'))
  if (version !== null) {
    return new DatabaseStartError(
      `the embedded database in ${folder} was created by PostgreSQL ${version[1]}, and this release contains ${version[2]}: start the release that created it`,
      { cause },
    )
  }
  return stopFailure(folder, finding, cause) ?? new DamagedDatabaseError(folder, finding, cause)
}

/** The error for a full disk or missing write permission; undefined for any other finding. */
export function stopFailure(folder: string, finding: string, cause: unknown): DatabaseError | undefined {
  if (/No space left on device|Disk quota exceeded|File too large/.test(finding)) {
    return new DatabaseError(`the disk with the embedded database in ${folder} is full: free some space (${finding})`, {
      sqlState: '53100',
      cause,
    })
  }
  if (/Permission denied|Read-only file system|Operation not permitted/.test(finding)) {
    return new DatabaseError(
      `the embedded database in ${folder} cannot be written: make this user the owner of the folder and its files (${finding})`,
      {
        sqlState: '42501',
        cause,
      },
    )
  }
  return undefined
}

/** Files of the embedded database that are missing or unreadable when a statement needs them: XX001, XX002, and 58P01. */
export function isDamage(error: DatabaseError): boolean {
  return /^(XX001|XX002|58P01)$/.test(error.sqlState)
}

/** The last reason that PostgreSQL printed before it ended, with its detail. */
export function findingOf(lines: readonly string[]): string | undefined {
  const last = lines.findLastIndex(line => /\b(FATAL|PANIC): /.test(line) || line.startsWith('postgres: '))
  if (last === -1) return undefined
  const reason = lines[last]?.replace(/^.*?(?:FATAL|PANIC|postgres): +/, '') ?? ''
  const detail = /DETAIL: +(.*)/.exec(lines[last + 1] ?? '')?.[1]
  return detail === undefined ? reason : `${reason} (${detail})`
}

/** True if WebAssembly aborted: `Aborted()`, `unreachable`, a read outside of its memory. */
function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === 'RuntimeError'
}

function textOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
