// The messages that a store has, taken in step with the log.

import type { AuditedMessage } from '../../sinks/audit.ts'

export interface StoredMessages {
  /** Takes those before an offset. */
  below(offset: number, each: (message: AuditedMessage) => void): Promise<void>
  /** Takes the one at an offset, where there is one; those before it were taken. */
  at(offset: number): Promise<AuditedMessage | undefined>
  close(): Promise<void>
}

/** @param messages in the order of their offsets */
export function openStoredMessages(messages: AsyncIterable<AuditedMessage>): StoredMessages {
  const iterator = messages[Symbol.asyncIterator]()
  let head: AuditedMessage | undefined
  let ended = false

  async function peek(): Promise<AuditedMessage | undefined> {
    if (head === undefined && !ended) {
      const { value, done } = await iterator.next()
      if (done === true) ended = true
      else head = value
    }
    return head
  }

  return {
    async below(offset: number, each: (message: AuditedMessage) => void): Promise<void> {
      for (let found = await peek(); found !== undefined && found.offset < offset; found = await peek()) {
        each(found)
        head = undefined
      }
    },
    async at(offset: number): Promise<AuditedMessage | undefined> {
      const found = await peek()
      if (found?.offset !== offset) return undefined
      head = undefined
      return found
    },
    async close(): Promise<void> {
      await iterator.return?.()
    },
  }
}
