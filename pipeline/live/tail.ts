// The end of a log, read once for all followers. A message is decoded only if its channel has a follower.
//
// A follower is attached when it has reached the tail. If it has no room, or does not take all of a large message immediately, it is detached and
// catches up, so that the others do not wait for it.

import { pause } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import { LogUnavailableError } from '../log.ts'
import type { RawChunk } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import type { TopicBounds, TopicReader } from '../topic-reader.ts'
import type { DecoderOptions } from '../writer/decode.ts'
import { type Decoding, openDecoding } from './decoding.ts'
import { type Follow, giveFrom, offsetsOf } from './follow.ts'
import { logTag } from './messages.ts'
import type { TimeSlices } from './time-slices.ts'

/** A topic reader that waits for new messages. */
export interface LiveReader extends TopicReader {
  /**
   * The messages from these offsets on, as they are written, each partition in its order. A chunk begins where the previous one of its partition ended;
   * later only if the log deleted messages. Ends if `signal` aborts, or the topic is no longer the one that was opened: it was recreated, has more
   * partitions, or has lost its last messages, so that an end is below the offset.
   *
   * @param next by partition
   * @throws LogUnavailableError, SystemicError as `read`
   */
  follow(next: readonly number[], signal: AbortSignal): AsyncIterable<{ readonly partition: number; readonly chunk: RawChunk }>
}

/** What live messages need from a log. */
export interface LiveTopic {
  /** @throws LogUnavailableError, SystemicError */
  open(): Promise<LiveReader>
  /**
   * Where a follower begins that was last in another log: at the `start` of one that replaced it, which is the default, or at the `end` if the log
   * consists of several topics, of which most may be the same.
   */
  readonly otherBegins?: 'start' | 'end'
}

export interface TailParts {
  readonly topic: LiveTopic
  readonly slices: TimeSlices
  readonly decoder: DecoderOptions
  readonly outage: OutageReport
  readonly logger: Logger
  /** Called for a follower that has not taken all of a message, or is no longer at the tail: it then has its own offsets. */
  readonly onDetached: (follow: Follow) => void
  /** A partition lost its last messages, from this offset on: followers may have got them, or lack them. */
  readonly onShortened: (partition: number, end: number) => void
  /** The log can no longer be followed; nothing is called afterwards. */
  readonly onEnd: () => void
}

export interface Tail {
  /** Identifies the log, as in offsets. */
  readonly log: string
  readonly reader: TopicReader
  /** Replaced when the log loses its last messages: nothing decoded before is sent. */
  readonly decoding: Decoding
  /** The offset of the next message, by partition. */
  readonly next: readonly number[]
  attach(follow: Follow): void
  detach(follow: Follow): void
  /** A second call does nothing. */
  close(): Promise<void>
}

/** Offsets name each partition, and a header has space for this many. */
const partitionsMax = 1000
const retryMs = 500

export async function openTail({ topic, slices, decoder, outage, logger, onDetached, onShortened, onEnd }: TailParts): Promise<Tail> {
  let reader = await topic.open()
  const next: number[] = []
  try {
    if (reader.partitions > partitionsMax) {
      throw new SystemicError(
        `the topic ${reader.name} has ${reader.partitions} partitions, and can be followed live with ${partitionsMax} at most`,
      )
    }
    const bounds = await reader.bounds()
    for (let partition = 0; partition < reader.partitions; partition++) next.push(bounds.get(partition)!.end)
  } catch (error) {
    await reader.close()
    throw error
  }
  const attached = new Map<string, Set<Follow>>()
  let decoding = openDecoding(decoder)
  const closing = new AbortController()
  /** The topic may have other partitions, be another, or lack messages. */
  let isChanged = false
  let closed: Promise<void> | undefined

  function detach(follow: Follow): void {
    follow.attached = false
    const follows = attached.get(follow.channel)
    follows?.delete(follow)
    if (follows?.size === 0) attached.delete(follow.channel)
  }

  async function give(chunk: RawChunk, partition: number): Promise<void> {
    if (chunk.from > next[partition]!) lose(partition, chunk.from)
    const cursor = chunk.cursor()
    const { message } = cursor
    while (cursor.next()) {
      const follows = attached.get(message.channel)
      if (follows === undefined || message.offset < next[partition]!) continue
      next[partition] = message.offset
      // From here the followers have their own offsets, until each has taken the message: others attach and detach in between.
      attached.delete(message.channel)
      for (const follow of follows) {
        follow.attached = false
        follow.offsets = offsetsOf(follow, next)
      }
      next[partition] = message.offset + 1
      const decoded = decoding.messageOf(cursor, partition)
      for (const follow of follows) {
        await slices.next()
        if (follow.stopped) continue
        const offsets = follow.offsets!
        if (giveFrom(follow, offsets, decoded) && offsets.every((own, at) => own >= next[at]!)) attach(follow)
        else onDetached(follow)
      }
    }
    next[partition] = chunk.to
  }

  function attach(follow: Follow): void {
    follow.attached = true
    if (follow.offsets?.every((own, partition) => own <= next[partition]!) === true) follow.offsets = undefined
    const follows = attached.get(follow.channel)
    if (follows === undefined) attached.set(follow.channel, new Set([follow]))
    else follows.add(follow)
  }

  /** Messages were deleted before they were read. */
  function lose(partition: number, start: number): void {
    next[partition] = start
    for (const follows of attached.values()) for (const follow of follows) follow.follower.lost()
  }

  /** If this fails nothing changes, and it is repeated. */
  async function lookAgain(): Promise<void> {
    const found = await topic.open()
    if (found.id === reader.id && found.partitions === reader.partitions) return found.close()
    try {
      if (found.id !== reader.id) throw new SystemicError(`the topic ${found.name} was recreated, or one of several changed`)
      if (found.partitions > partitionsMax) throw new SystemicError(`the topic ${found.name} has more than ${partitionsMax} partitions now`)
      const bounds = await found.bounds()
      // Messages in new partitions were written while there were followers.
      for (let partition = next.length; partition < found.partitions; partition++) next.push(bounds.get(partition)!.start)
    } catch (error) {
      await found.close()
      throw error
    }
    const before = reader
    reader = found
    await before.close()
  }

  /**
   * A replica that lacked the last messages is the leader now (Kafka: an unclean election). A leader that has them never reports an end below one
   * that was reported before (KIP-207).
   */
  function shortenTo(bounds: ReadonlyMap<number, TopicBounds>): void {
    for (const [partition, { end }] of bounds) {
      if (end >= next[partition]!) continue
      logger.warn({ topic: reader.name, partition, from: next[partition]!, to: end }, 'the log lost its last messages')
      next[partition] = end
      decoding = openDecoding(decoder)
      onShortened(partition, end)
    }
  }

  function isShorter(bounds: ReadonlyMap<number, TopicBounds>): boolean {
    return [...bounds].some(([partition, { end }]) => end < next[partition]!)
  }

  async function readOn(): Promise<void> {
    let bounds = await reader.bounds()
    // A recreated topic is shorter, too.
    if (isChanged || isShorter(bounds)) {
      await lookAgain()
      isChanged = false
      bounds = await reader.bounds()
      shortenTo(bounds)
    }
    // What was not read yet may be what cannot be read.
    if (![...bounds].some(([partition, { start, end }]) => Math.max(start, next[partition]!) < end)) outage.recovered()
    for await (const { partition, chunk } of reader.follow(next, closing.signal)) {
      await give(chunk, partition)
      outage.recovered()
    }
    isChanged = true
  }

  async function follow(): Promise<void> {
    while (!closing.signal.aborted) {
      try {
        await readOn()
      } catch (error) {
        if (closing.signal.aborted) return
        if (!(error instanceof LogUnavailableError)) throw error
        outage.failed(error, { waitMs: retryMs, meanwhile: 'live streams wait for it' })
        await pause(retryMs, closing.signal)
      }
    }
  }

  follow().catch((error: unknown) => {
    logger.error({ err: error }, 'the log cannot be followed live: closing the streams, which catch up when they reconnect')
    onEnd()
  })

  async function end(): Promise<void> {
    closing.abort()
    outage.close()
    // Ends requests in flight; a silent broker is not waited for.
    await reader.close()
  }

  return {
    log: logTag(reader.id),
    get reader() {
      return reader
    },
    get decoding() {
      return decoding
    },
    next,
    attach,
    detach,
    close() {
      closed ??= end()
      return closed
    },
  }
}
