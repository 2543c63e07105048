// Retention of an embedded log: deletes messages that every consumer passed long enough ago, and shrinks the file.
//
// A consumer's offset tells what it has passed, but not when. So checkpoints periodically record the time and the lowest offset of
// all consumers; messages below a checkpoint as old as the retention may be deleted. A log without consumers deletes nothing.

import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Logger } from '../../config/logger.ts'
import { type LogFile, pragma } from './file.ts'

export interface Retention {
  /** Records a checkpoint and deletes expired messages. Resolves with their number. */
  deleteExpired(): Promise<number>
  /** Finishes the running step. */
  close(): Promise<void>
}

/** The most that one transaction deletes: a larger one would delay publishers. */
const stepBytesMax = 1024 * 1024
const stepMessagesMax = 1000
/** Pages moved by one step of shrinking: 1 MiB. */
const shrinkPages = 256
/** The file shrinks only when a quarter of it is free: new messages take free pages first, and moving pages costs writes. */
const freeShareMax = 0.25

export function openRetention(
  file: LogFile,
  { retentionMs, logger, clock = Date.now }: { retentionMs: number; logger: Logger; clock?: () => number },
): Retention {
  const { database } = file
  const lowest = database.prepare('SELECT min(committed) AS "offset" FROM consumers')
  const latest = database.prepare('SELECT max("offset") AS "offset" FROM checkpoints')
  const note = database.prepare('INSERT INTO checkpoints ("offset", time_ms) VALUES (?, ?)')
  const due = database.prepare('SELECT max("offset") AS "offset" FROM checkpoints WHERE time_ms <= ?')
  const forget = database.prepare('DELETE FROM checkpoints WHERE "offset" <= ?')
  const sizes = database.prepare('SELECT "offset", length(payload) AS bytes FROM messages WHERE "offset" < ? ORDER BY "offset" LIMIT ?')
  const remove = database.prepare('DELETE FROM messages WHERE "offset" < ?')
  const move = database.prepare('UPDATE log SET start = ?')
  const closing = new AbortController()
  let underWay: Promise<number> | undefined

  const intervalMs = Math.min(Math.max(Math.floor(retentionMs / 24), 1000), 600_000)
  const timer = setInterval(() => {
    deleteExpired().catch((error: unknown) => logger.error({ err: error, path: file.path }, 'expired messages cannot be deleted'))
  }, intervalMs)
  timer.unref()

  function deleteExpired(): Promise<number> {
    underWay ??= steps().finally(() => {
      underWay = undefined
    })
    return underWay
  }

  async function steps(): Promise<number> {
    if (closing.signal.aborted) return 0
    const nowMs = clock()
    checkpoint(nowMs)
    const { offset: passed } = due.get(nowMs - retentionMs) as { offset: number | null }
    const { offset: committed } = lowest.get() as { offset: number | null }
    if (passed === null || committed === null) return 0
    // A consumer whose store lost its last writes goes back to an earlier offset.
    const offset = Math.min(passed, committed)
    const before = file.start
    while (!closing.signal.aborted && file.start < offset) {
      deleteStep(offset)
      await nextTurn()
    }
    if (!closing.signal.aborted) {
      forget.run(offset)
      await shrink()
    }
    return file.start - before
  }

  function checkpoint(nowMs: number): void {
    const { offset } = lowest.get() as { offset: number | null }
    if (offset === null) return
    const last = latest.get() as { offset: number | null }
    if (offset > (last.offset ?? file.start)) note.run(offset, nowMs)
  }

  function deleteStep(offset: number): void {
    let to = file.start
    let bytes = 0
    for (const row of sizes.iterate(offset, stepMessagesMax) as Iterable<{ offset: number; bytes: number }>) {
      to = row.offset + 1
      bytes += row.bytes
      if (bytes >= stepBytesMax) break
    }
    if (bytes === 0 && to === file.start) to = offset
    database.exec('BEGIN IMMEDIATE')
    try {
      remove.run(to)
      move.run(to)
      database.exec('COMMIT')
    } catch (error) {
      if (database.isTransaction) database.exec('ROLLBACK')
      throw error
    }
    file.start = to
  }

  async function shrink(): Promise<void> {
    if (pragma(database, 'freelist_count') < pragma(database, 'page_count') * freeShareMax) return
    while (!closing.signal.aborted && pragma(database, 'freelist_count') > 0) {
      database.exec(`PRAGMA incremental_vacuum(${shrinkPages})`)
      await nextTurn()
    }
    if (!closing.signal.aborted) database.exec('PRAGMA wal_checkpoint(TRUNCATE)')
  }

  return {
    deleteExpired,
    async close() {
      closing.abort()
      clearInterval(timer)
      // Its error was already thrown to the caller of the deletion, or logged.
      await underWay?.catch(() => undefined)
    },
  }
}
