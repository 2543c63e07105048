// The end of a log, read once for all who follow: a message is decoded only where somebody follows its channel.
//
// Who follows is attached when they are where the tail is. One who has no room, or has not taken all of a large message at once, is detached and
// catches up, so that the others do not wait for them.

import { hash } from 'node:crypto'
import { setTimeout as wait } from 'node:timers/promises'
import type { Logger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import type { DecoderOptions } from '../decode.ts'
import { LogUnavailableError } from '../log.ts'
import type { RawRun } from '../source.ts'
import { SystemicError } from '../systemic-error.ts'
import type { TopicBounds, TopicReader } from '../topic-reader.ts'
import { type Decoding, openDecoding } from './decoding.ts'
import { type Follow, giveFrom, offsetsOf } from './follow.ts'
import { openTimeSlices } from './time-slices.ts'
import type { LiveTopic } from './topic.ts'

export interface TailParts {
  readonly topic: LiveTopic
  readonly decoder: DecoderOptions
  readonly outage: OutageReport
  readonly logger: Logger
  /** Called for one who has not taken all of a message, or is not where the tail is by now: where they go on is theirs from here. */
  readonly onDetached: (follow: Follow) => void
  /** A partition lost its last messages, from this offset on: those who follow may have been given them, or lack them. */
  readonly onShortened: (partition: number, end: number) => void
  /** The log cannot be followed any more; nothing is called after it. */
  readonly onEnd: () => void
}

export interface Tail {
  /** Of the log, as places have it. */
  readonly log: string
  readonly reader: TopicReader
  /** Another one when the log lost its last messages: none that was decoded before is given any more. */
  readonly decoding: Decoding
  /** By partition, the offset of the next message. */
  readonly next: readonly number[]
  attach(follow: Follow): void
  detach(follow: Follow): void
  /** A second call does nothing. */
  close(): Promise<void>
}

/** Places name each partition, and a header has room for so many. */
const partitionsMax = 1000
const retryMs = 500

export async function openTail({ topic, decoder, outage, logger, onDetached, onShortened, onEnd }: TailParts): Promise<Tail> {
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
  // Not those of who catches up: what is new does not wait behind what is old.
  const slices = openTimeSlices()
  const closing = new AbortController()
  let news = Promise.withResolvers<void>()
  const forget = topic.onAppend(wake)
  closing.signal.addEventListener('abort', wake)
  let lookedMs = performance.now()
  let closed: Promise<void> | undefined

  function wake(): void {
    news.resolve()
  }

  function detach(follow: Follow): void {
    follow.attached = false
    const follows = attached.get(follow.channel)
    follows?.delete(follow)
    if (follows?.size === 0) attached.delete(follow.channel)
  }

  async function give(run: RawRun): Promise<void> {
    const { partition } = run
    if (run.from > next[partition]!) lose(partition, run.from)
    const cursor = run.cursor()
    const { message } = cursor
    while (cursor.next()) {
      const follows = attached.get(message.channel)
      if (follows === undefined || message.offset < next[partition]!) continue
      next[partition] = message.offset
      // Where they are is theirs from here, until each has taken it: others come and go in between.
      attached.delete(message.channel)
      for (const follow of follows) {
        follow.attached = false
        follow.offsets = offsetsOf(follow, next)
      }
      next[partition] = message.offset + 1
      const decoded = decoding.decode(message, partition)
      for (const follow of follows) {
        await slices.next()
        if (follow.stopped) continue
        const offsets = follow.offsets!
        if (giveFrom(follow, offsets, decoded) && offsets.every((own, at) => own >= next[at]!)) attach(follow)
        else onDetached(follow)
      }
    }
    next[partition] = run.to
  }

  function attach(follow: Follow): void {
    follow.attached = true
    if (follow.offsets?.every((own, partition) => own <= next[partition]!) === true) follow.offsets = undefined
    const follows = attached.get(follow.channel)
    if (follows === undefined) attached.set(follow.channel, new Set([follow]))
    else follows.add(follow)
  }

  /** Messages were deleted before anybody took them. */
  function lose(partition: number, start: number): void {
    next[partition] = start
    for (const follows of attached.values()) for (const follow of follows) follow.follower.lost()
  }

  /** A topic gets partitions, and is made anew, without telling anybody. What fails changes nothing, and is done again. */
  async function lookAgain(): Promise<void> {
    const found = await topic.open()
    if (found.id === reader.id && found.partitions === reader.partitions) {
      lookedMs = performance.now()
      return found.close()
    }
    try {
      if (found.id !== reader.id) throw new SystemicError(`the topic ${found.name} was made anew`)
      if (found.partitions > partitionsMax) throw new SystemicError(`the topic ${found.name} has more than ${partitionsMax} partitions now`)
      const bounds = await found.bounds()
      // What lies in them came while somebody followed.
      for (let partition = next.length; partition < found.partitions; partition++) next.push(bounds.get(partition)!.start)
    } catch (error) {
      await found.close()
      throw error
    }
    const before = reader
    reader = found
    lookedMs = performance.now()
    await before.close()
  }

  /**
   * A replica that lacked the last messages leads now (Kafka: an unclean election). Where one that has them leads, no end is told below those
   * told before (KIP-207).
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

  async function readNews(): Promise<void> {
    let bounds = await reader.bounds()
    if (isShorter(bounds)) {
      // One that was made anew is shorter, too.
      await lookAgain()
      bounds = await reader.bounds()
      shortenTo(bounds)
    } else if (topic.lookAgainMs !== undefined && performance.now() - lookedMs >= topic.lookAgainMs) await lookAgain()
    const behind = [...bounds].filter(([partition, { end }]) => next[partition]! < end)
    const reads = await Promise.allSettled(
      behind.map(async ([partition, { end }]) => {
        for await (const run of reader.read(partition, next[partition]!, end)) {
          if (closing.signal.aborted) return
          await give(run)
        }
      }),
    )
    for (const read of reads) if (read.status === 'rejected') throw read.reason
  }

  async function follow(): Promise<void> {
    while (!closing.signal.aborted) {
      news = Promise.withResolvers()
      try {
        await readNews()
        outage.recovered()
        await news.promise
      } catch (error) {
        if (closing.signal.aborted) return
        if (!(error instanceof LogUnavailableError)) throw error
        outage.failed(error, { waitMs: retryMs, meanwhile: 'live streams wait for it' })
        await wait(retryMs, undefined, { signal: closing.signal }).catch(() => undefined)
      }
    }
  }

  follow().catch((error: unknown) => {
    logger.error({ err: error }, 'the log cannot be followed live: streams are ended, and look again when they come back')
    onEnd()
  })

  async function end(): Promise<void> {
    closing.abort()
    outage.close()
    forget()
    // What is on its way ends with it; a broker that is silent is not waited for.
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

/** Short, since it is in each place. */
function logTag(id: string): string {
  return hash('sha256', id, 'hex').slice(0, 16)
}
