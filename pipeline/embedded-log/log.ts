// The embedded log: appends that wait together become durable in one transaction of SQLite (a group commit).
//
// It works in the main thread, which stands still while the disk syncs a commit: well under a millisecond on a quiet disk, several on
// a busy one. README.md has the figures.

import type { Logger } from '../../config/logger.ts'
import { type OutageReport, openOutage } from '../../config/outage.ts'
import { limits } from '../../sinks/sink.ts'
import { envelopeHeaderNames } from '../envelope-headers.ts'
import { type Log, type LogPosition, LogUnavailableError, messageSize, type OutgoingMessage } from '../log.ts'
import { checksumOf } from './checksum.ts'
import { type LogFile, openLogFile, partition, pragma, sqliteCode, sqliteCodes } from './file.ts'
import { openRetention } from './retention.ts'

export interface EmbeddedLogOptions {
  /** `<folder>/messages.sqlite`; the folder exists. */
  readonly path: string
  /** The topic: `messages`. */
  readonly name: string
  /** What may wait for a commit; beyond it messages are refused. */
  readonly queueBytesMax: number
  /** Where the file stops growing and messages are refused; 0: at the end of the disk. */
  readonly fileBytesMax?: number
  /** How long messages are kept after every consumer has passed them. */
  readonly retentionMs: number
  /** Of the disk; of the log's own if not given. */
  readonly outage?: OutageReport
  readonly logger: Logger
  /** Milliseconds since 1970. */
  readonly clock?: () => number
}

export interface EmbeddedLog extends Log {
  /** For its sources, which read the same file. */
  readonly file: LogFile
  /** Calls `listener` after each commit that brought messages. Returns the way to stop. */
  onAppend(listener: () => void): () => void
  /** Deletes what every consumer passed longer than the retention ago, in small steps; the log does that by itself, too. Resolves with how many messages. */
  deleteExpired(): Promise<number>
  /**
   * Resolves when the log can be written now; after a refused append only when one of its size would be taken.
   *
   * @throws LogUnavailableError
   */
  check(): Promise<void>
}

/** An append that waits for its commit. */
interface Waiting {
  readonly messages: readonly OutgoingMessage[]
  readonly bytes: number
  readonly resolve: (positions: LogPosition[]) => void
  readonly reject: (error: Error) => void
}

/** A transaction takes no further append beyond this, so that a burst does not block the process. */
const transactionBytesMax = 4 * 1024 * 1024
/** Room beside that of its messages that a refused append must find again: pages of the tree, and those that a trial keeps in memory. */
const spareBytes = 64 * 1024

/** @throws SystemicError when the file cannot be opened (see `openLogFile`) */
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
    let bytes = 0
    for (const message of messages) {
      if (!Number.isSafeInteger(message.createdUs) || !Number.isSafeInteger(message.createdRestNs)) {
        return Promise.reject(
          new RangeError(`a message for the log ${file.name} has no instant: give createdUs and createdRestNs as integers`),
        )
      }
      bytes += messageSize(message)
    }
    if (waitingBytes + bytes > options.queueBytesMax) {
      return Promise.reject(
        new LogUnavailableError(
          `${waitingBytes} bytes wait for the log ${file.name}, and ${options.queueBytesMax} may: try again, or raise that bound`,
        ),
      )
    }
    return new Promise((resolve, reject) => {
      // What comes in the same turn of the event loop joins the same commit.
      if (waiting.length === 0) setImmediate(commitNext)
      waiting.push({ messages, bytes, resolve, reject })
      waitingBytes += bytes
    })
  }

  /** Commits what waits, up to the bound of a transaction; the rest follows in the next turn. */
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
      // SQLite has rolled back by itself after some errors, a full disk among them.
      if (database.isTransaction) database.exec('ROLLBACK')
      throw error
    }
    outage.recovered()
    failing = false
  }

  /** Throws where an append as large as the one refused last would be refused again: its room is taken, written to and given back. */
  function tryRoom(): void {
    // With a cache of one page the others go to the disk before the rollback, so that a full disk shows like a full file.
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
    const remedy = sqliteCode(error) === sqliteCodes.full ? 'make room for it' : 'look at the disk that holds it'
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
        // An update in place needs no room, and so says nothing of an append's.
        if (failing) tryRoom()
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

/** As JSON, bytes as base64; null for none. Those of the envelope have columns of their own. */
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
