// A topic of several partitions in memory for tests of live messages: it can be away, lose messages, grow, and be recreated.

import { readerOfAppends } from '../../../pipeline/live/appends.ts'
import type { LiveTopic } from '../../../pipeline/live/tail.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { emptyMessage, type RawChunk, type RawMessage } from '../../../pipeline/source.ts'
import type { TopicReader } from '../../../pipeline/topic-reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'

export interface FakeTopic extends LiveTopic {
  /** Appends one record for each name. Resolves in the next turn, like the commit of a log. */
  append(partition: number, channel: string, names: readonly string[]): Promise<void>
  appendPayload(partition: number, channel: string, payload: string, own?: Partial<RawMessage> & { readonly isRetained?: boolean }): void
  deleteBelow(partition: number, offset: number): void
  /** As after the election of a replica that lacks the last messages. */
  loseFrom(partition: number, offset: number): void
  addPartition(): void
  madeAnew(): void
  /** Everything fails with it until it is undefined again. */
  failure: Error | undefined
  /** The first request for bounds of the next reader fails with it. */
  failureOfNext: Error | undefined
  /** Opening waits for it. */
  opening: Promise<void> | undefined
  /** No listener is called, so that the tail stays where it is. */
  isQuiet: boolean
  /** Number of messages read by all readers. */
  readonly read: { messages: number }
  openReaders: number
  opened: number
  listeners: number
  end(partition: number): number
}

interface Stored extends Partial<Omit<RawMessage, 'offset' | 'channel' | 'payload'>> {
  readonly offset: number
  readonly channel: string
  readonly payload: Uint8Array
  readonly isRetained?: boolean
}

const chunkMessagesMax = 3

export function openFakeTopic(partitionCount: number): FakeTopic {
  let id = crypto.randomUUID() as string
  let partitions = emptyPartitions(partitionCount)
  const listeners = new Set<{ call: () => void }>()
  const read = { messages: 0 }
  /** Aborts when the readers that are open no longer fit. */
  let changing = new AbortController()

  function check(): void {
    if (topic.failure !== undefined) throw topic.failure
  }

  const topic: FakeTopic = {
    failure: undefined,
    failureOfNext: undefined,
    opening: undefined,
    isQuiet: false,
    read,
    openReaders: 0,
    opened: 0,
    get listeners() {
      return listeners.size
    },
    end: partition => partitions[partition]!.end,
    async append(partition, channel, names) {
      topic.appendPayload(partition, channel, JSON.stringify(names.map(n => ({ n, v: 1 }))))
      await new Promise(resolve => setImmediate(resolve))
    },
    appendPayload(partition, channel, payload, own) {
      const to = partitions[partition]!
      to.messages.push({ ...own, offset: to.end++, channel, payload: Buffer.from(payload) })
      if (!topic.isQuiet) for (const { call } of listeners) call()
    },
    deleteBelow(partition, offset) {
      const of = partitions[partition]!
      of.start = offset
      of.messages = of.messages.filter(message => message.offset >= offset)
    },
    loseFrom(partition, offset) {
      const of = partitions[partition]!
      of.end = offset
      of.messages = of.messages.filter(message => message.offset < offset)
    },
    addPartition() {
      partitions.push(...emptyPartitions(1))
      change()
    },
    madeAnew() {
      id = crypto.randomUUID()
      partitions = emptyPartitions(partitions.length)
      change()
    },
    async open() {
      check()
      topic.opened++
      await topic.opening
      topic.openReaders++
      const reader = readerOfAppends(openReader(), onAppend)
      const { signal: changed } = changing
      return { ...reader, follow: (next, signal) => reader.follow(next, AbortSignal.any([signal, changed])) }
    },
  }

  /** Listeners are also called without an append: the end of a log that lost messages, or is away, is noticed as well. */
  function onAppend(listener: () => void): () => void {
    const entry = { call: listener }
    listeners.add(entry)
    const timer = setInterval(() => {
      if (!topic.isQuiet) listener()
    }, 5)
    return () => {
      clearInterval(timer)
      listeners.delete(entry)
    }
  }

  function change(): void {
    changing.abort()
    changing = new AbortController()
  }

  function openReader(): TopicReader {
    const count = partitions.length
    let failure = topic.failureOfNext
    topic.failureOfNext = undefined
    return {
      name: 'messages',
      id,
      partitions: count,
      async bounds() {
        check()
        if (failure !== undefined) {
          const first = failure
          failure = undefined
          throw first
        }
        return new Map(partitions.slice(0, count).map(({ start, end }, partition) => [partition, { start, end }]))
      },
      async *read(partition, from, to) {
        for (let next = from; next < to; ) {
          await new Promise(resolve => setImmediate(resolve))
          check()
          const of = partitions[partition]!
          next = Math.max(next, of.start)
          if (next >= to) return
          const found = of.messages.filter(({ offset }) => offset >= next && offset < to).slice(0, chunkMessagesMax)
          const runTo = found.length === 0 ? to : found.at(-1)!.offset + 1
          read.messages += found.length
          yield chunkOf(partition, next, runTo, found)
          next = runTo
        }
      },
      close: async () => void topic.openReaders--,
    }
  }
  return topic
}

function emptyPartitions(length: number): { start: number; end: number; messages: Stored[] }[] {
  return Array.from({ length }, () => ({ start: 0, end: 0, messages: [] }))
}

function chunkOf(partition: number, from: number, to: number, found: readonly Stored[]): RawChunk {
  return {
    at: logPartition(0, partition),
    from,
    to,
    byteLength: 0,
    cursor() {
      const message: RawMessage = Object.assign(emptyMessage(), { publisher: 't1', protocol: 'http', createdUs: 1_700_000_000_000_000 })
      let at = -1
      return {
        message,
        next() {
          const next = found[++at]
          if (next !== undefined) Object.assign(message, { subtopic: '', contentType: '', fault: undefined }, next)
          return next !== undefined
        },
        key: () => Buffer.from(message.channel),
        headers: () => [],
        isRetained: () => found[at]!.isRetained === true,
      }
    },
  }
}

export const away = new LogUnavailableError('the brokers are away')
