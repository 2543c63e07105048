// The embedded log: waiting appends are committed together in one SQLite transaction (group commit).
//
// It works in the main thread, which blocks while the disk syncs a commit: well under a millisecond on an idle disk, several on
// a busy one (README.md).

import type { Logger } from '../../config/logger.ts'
import { type OutageReport, openOutage } from '../../config/outage.ts'
import { limits } from '../../sinks/sink.ts'
import { envelopeHeaderNames } from '../envelope-headers.ts'
import { appendSize, type Log, type LogPosition, LogUnavailableError, MessageRefusedError, type OutgoingMessage } from '../log.ts'
import { checksumOf } from './chunk.ts'
import { type LogFile, openLogFile, partition, pragma, sqliteCode, sqliteCodes } from './file.ts'
import { openRetention } from './retention.ts'

export interface EmbeddedLogOptions {
  /** `<folder>/messages.sqlite`; the folder exists. */
  readonly path: string
  /** The topic: `messages`. */
  readonly name: string
  /** The most bytes that may wait for a commit; further messages are rejected. */
  readonly queueBytesMax: number
  /** File size at which messages are rejected; 0: when the disk is full. */
  readonly fileBytesMax?: number
  /** How long messages are kept after every consumer has passed them. */
  readonly retentionMs: number
  /** Reports outages of the disk; by default the log opens its own. */
  readonly outage?: OutageReport
  readonly logger: Logger
  /** Milliseconds since 1970. */
  readonly clock?: () => number
}

export interface EmbeddedLog extends Log {
  /** For the log's sources, which read the same file. */
  readonly file: LogFile
  /** Calls `listener` after each commit with messages. Returns a function that removes it. */
  onAppend(listener: () => void): () => void
  /** Deletes messages that every consumer passed longer than the retention ago, in small steps; the log also does that by itself. Resolves with their number. */
  deleteExpired(): Promise<number>
  /**
   * Resolves if the log can be written now; after a rejected append, only if one of the same size would be accepted.
   *
   * @throws LogUnavailableError
   */
  check(): Promise<void>
}

/** An append waiting for its commit. */
interface Waiting {
  readonly messages: readonly OutgoingMessage[]
  readonly bytes: number
  readonly resolve: (positions: LogPosition[]) => void
  readonly reject: (error: Error) => void
}

/** A transaction accepts no more appends beyond this size, so that a burst does not block the process. */
const transactionBytesMax = 4 * 1024 * 1024
/** Space that a rejected append needs in addition to its messages: pages of the tree, and those that a trial keeps in memory. */
const spareBytes = 64 * 1024

/** @throws SystemicError if the file cannot be opened (see `openLogFile`) */
export function openEmbeddedLog(options: EmbeddedLogOptions): EmbeddedLog {
  const file = openLogFile(options.path, options.name, options.fileBytesMax ?? 0)
  const { database } = file
  const insert = database.prepare('INSERT INTO messages VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)')
  const touch = database.prepare('UPDATE log SET start = start')
  const tryOut = database.prepare("INSERT INTO messages VALUES (?, '', '', '', '', '', 0, 0, NULL, zeroblob(?), NULL)")
  const retention = openRetention(file, options)
  const outage = options.outage ?? openOutage({ logger: options.logger, dependency: 'log', name: `the log ${file.name}` })()
  const listeners = new Set<() => void>()
  let waiting: Waiting[] = []
  let waitingBytes = 0
  let failing = false
  let refusedBytes = 0
  let closed = false

  function append(messages: readonly OutgoingMessage[]): Promise<LogPosition[]> {
    if (closed) return Promise.reject(new LogUnavailableError(`the log ${file.name} is closed`))
    if (messages.length === 0) return Promise.resolve([])
    const bytes = appendSize(messages, file.name, options.queueBytesMax)
    if (bytes instanceof MessageRefusedError) return Promise.reject(bytes)
    if (waitingBytes + bytes > options.queueBytesMax) {
      return Promise.reject(
        new LogUnavailableError(
          `the queue of the log ${file.name} is full (${waitingBytes} of ${options.queueBytesMax} bytes): retry, or raise log.queue_bytes`,
        ),
      )
    }
    return new Promise((resolve, reject) => {
      // Appends of the same event-loop turn join the same commit.
      if (waiting.length === 0) setImmediate(commitNext)
      waiting.push({ messages, bytes, resolve, reject })
      waitingBytes += bytes
    })
  }

  /** Commits the waiting appends, up to the transaction limit; the rest follows in the next turn. */
  function commitNext(): void {
    if (waiting.length === 0) return
    const group = takeGroup()
    const before = file.end
    try {
      commit(group)
    } catch (error) {
      file.end = before
      refusedBytes = group.reduce((sum, { bytes }) => sum + bytes, 0)
      const refusal = unavailable(error)
      for (const { reject } of group) reject(refusal)
      return
    } finally {
      if (waiting.length > 0) setImmediate(commitNext)
    }
    let offset = before
    for (const { messages, resolve } of group) resolve(messages.map(() => ({ partition, offset: offset++ })))
    for (const listener of listeners) listener()
  }

  function takeGroup(): Waiting[] {
    let count = 0
    let bytes = 0
    while (count < waiting.length && bytes < transactionBytesMax) bytes += waiting[count++]!.bytes
    const group = waiting.slice(0, count)
    waiting = waiting.slice(count)
    waitingBytes -= bytes
    return group
  }

  function commit(group: readonly Waiting[]): void {
    write(() => {
      for (const { messages } of group) {
        for (const message of messages) {
          if (file.end > limits.offset) throw new RangeError(`the log ${file.name} has used all its offsets`)
          insertMessage(message)
          file.end++
        }
      }
    })
  }

  function insertMessage(message: OutgoingMessage): void {
    const { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload } = message
    const headers = headersText(message)
    const checksum = checksumOf([file.end, channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, headers, payload])
    insert.run(file.end, channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, headers, payload, checksum)
  }

  function write(work: () => void): void {
    database.exec('BEGIN IMMEDIATE')
    try {
      work()
      database.exec('COMMIT')
    } catch (error) {
      // After some errors, such as a full disk, SQLite has already rolled back.
      if (database.isTransaction) database.exec('ROLLBACK')
      throw error
    }
    outage.recovered()
    failing = false
  }

  /** Throws if an append as large as the last rejected one would be rejected again: allocates and writes its space, then rolls back. */
  function trySpace(): void {
    // With a cache of one page the other pages are written to disk before the rollback, so that a full disk is detected like a full file.
    const cachePages = pragma(database, 'cache_size')
    database.exec('PRAGMA cache_size = 1')
    try {
      database.exec('BEGIN IMMEDIATE')
      tryOut.run(file.end, refusedBytes + spareBytes)
    } finally {
      if (database.isTransaction) database.exec('ROLLBACK')
      database.exec(`PRAGMA cache_size = ${cachePages}`)
    }
  }

  function unavailable(error: unknown): LogUnavailableError {
    outage.failed(error)
    failing = true
    const reason = error instanceof Error ? error.message : String(error)
    const remedy = sqliteCode(error) === sqliteCodes.full ? 'free some space, or raise log.file_bytes' : 'check its disk'
    return new LogUnavailableError(`the log ${file.name} cannot be written (${reason}): ${remedy}`, { cause: error })
  }

  return {
    name: file.name,
    id: file.id,
    file,
    append,

    onAppend(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },

    deleteExpired: () => retention.deleteExpired(),

    async check() {
      if (closed) throw new LogUnavailableError(`the log ${file.name} is closed`)
      try {
        // An in-place update needs no space, so it cannot tell whether an append fits.
        if (failing) trySpace()
        write(() => touch.run())
      } catch (error) {
        throw unavailable(error)
      }
    },

    async close() {
      if (closed) return
      closed = true
      while (waiting.length > 0) commitNext()
      await retention.close()
      database.close()
    },
  }
}

/** Headers as JSON, with bytes as base64; null for none. The envelope's headers have their own columns. */
function headersText({ headers = [], key }: OutgoingMessage): string | null {
  const own = key === undefined ? headers : headers.filter(header => !envelopeHeaderNames.has(header.key))
  return own.length === 0
    ? null
    : JSON.stringify(
        own.map(({ key, value }) => ({
          key,
          value: value instanceof Uint8Array ? { base64: Buffer.from(value).toString('base64') } : value,
        })),
      )
}
