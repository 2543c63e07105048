// A log in memory for tests. It passes the conformance suite.

import { appendSize, type Log, LogUnavailableError, MessageRefusedError, type OutgoingMessage } from '../../pipeline/log.ts'

export interface FakeLog extends Log {
  /** The messages from offset `start` on. */
  readonly messages: OutgoingMessage[]
  start: number
  /** Appends fail with it until it is undefined again. */
  failure: Error | undefined
  /** The committed offset of each consumer. */
  readonly committed: Map<string, number>
  onAppend(listener: () => void): () => void
  deleteBelow(offset: number): void
  /** The same log after the process that had it open has ended. */
  reopened(): void
}

const queueBytesMax = 16 * 1024 * 1024

export function openFakeLog(name = 'messages'): FakeLog {
  const listeners = new Set<() => void>()
  let closed = false
  const log: FakeLog = {
    name,
    id: crypto.randomUUID(),
    messages: [],
    start: 0,
    failure: undefined,
    committed: new Map(),
    async append(messages) {
      if (closed) throw new LogUnavailableError(`the log ${name} is closed`)
      if (log.failure !== undefined) throw log.failure
      const bytes = appendSize(messages, name, queueBytesMax)
      if (bytes instanceof MessageRefusedError) throw bytes
      const first = log.start + log.messages.length
      log.messages.push(...messages)
      for (const listener of listeners) listener()
      return messages.map((_, at) => ({ partition: 0, offset: first + at }))
    },
    onAppend(listener) {
      listeners.add(listener)
      return () => listeners.delete(listener)
    },
    deleteBelow(offset) {
      log.messages.splice(0, offset - log.start)
      log.start = offset
    },
    reopened() {
      closed = false
    },
    async close() {
      closed = true
    },
  }
  return log
}
