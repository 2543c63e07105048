// Live messages over any log: opens its tail for the first follower, brings each follower to it, and closes it after the last.

import { setTimeout as wait } from 'node:timers/promises'
import { unlessAborted } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import type { TopicBounds } from '../topic-reader.ts'
import type { DecoderOptions } from '../writer/decode.ts'
import { catchUp, openReads } from './catch-up.ts'
import { type Beginning, beginningOf, type Follow, offsetsOf, shorten } from './follow.ts'
import { type Follower, type Following, type LiveMessages, LiveUnavailableError, type StreamOffset } from './messages.ts'
import { type LiveTopic, openTail, type Tail } from './tail.ts'
import { openTimeSlices } from './time-slices.ts'

export interface LiveParts {
  readonly topic: LiveTopic
  /** The same as the writers'. */
  readonly decoder: DecoderOptions
  /** For the log, while it is followed. */
  readonly outage: OutageReport
  readonly logger: Logger
}

export interface OpenLiveMessages extends LiveMessages {
  /** Asks the log for its ends, also without followers. @throws LiveUnavailableError while it cannot be followed */
  check(): Promise<void>
  /** Ends all followers. A log that does not close soon is left to the end of the process. */
  close(): Promise<void>
}

/** An offset from another process may be after the end that is known here, until the brokers report more. */
const aheadTries = 10
const aheadMs = 200
/** Opening a log may take longer; a caller that waits for it retries. */
const enterMsMax = 5_000
/** Part of the time that a stop may take. */
const closeMsMax = 500

/** A tail, with the followers that are attached or catching up. */
interface Watch {
  readonly tail: Promise<Tail>
  readonly follows: Set<Follow>
  /** The last of them closes it. */
  users: number
  /** New followers join meanwhile, even if all others have left: each attempt may take long. */
  isOpening: boolean
  /** The tail sends nothing more. */
  ended: boolean
}

export function openLiveMessages({ topic, decoder, outage, logger }: LiveParts): OpenLiveMessages {
  const slices = openTimeSlices()
  const reads = openReads()
  const watches = new Set<Watch>()
  /** The one that the next follower joins. */
  let current: Watch | undefined
  const closing = new AbortController()

  function enter(): Watch {
    current ??= open()
    current.users++
    return current
  }

  function open(): Watch {
    const follows = new Set<Follow>()
    const tail = openTail({
      topic,
      slices,
      decoder,
      outage,
      logger,
      onDetached: follow => void tail.then(it => bring(follow, it)),
      onShortened: (partition, end) => follows.forEach(follow => shorten(follow, partition, end)),
      onEnd: () => end(watch),
    })
    const watch: Watch = { tail, follows, users: 0, isOpening: true, ended: false }
    watches.add(watch)
    const settled = (): void => {
      watch.isOpening = false
      closeUnused(watch)
    }
    tail.then(settled, settled)
    return watch
  }

  function end(watch: Watch): void {
    if (current === watch) current = undefined
    watch.ended = true
    for (const { follower } of watch.follows) follower.end()
  }

  function leave(watch: Watch): void {
    watch.users--
    closeUnused(watch)
  }

  function closeUnused(watch: Watch): void {
    if (watch.users > 0 || watch.isOpening) return
    if (current === watch) current = undefined
    close(watch).catch((error: unknown) => logger.warn({ err: error }, 'the log was not closed cleanly'))
  }

  /** @throws LiveUnavailableError, also if the log takes too long, and when closing */
  async function entered<Found>(ask: (tail: Tail) => Promise<Found>): Promise<{ watch: Watch; tail: Tail; found: Found }> {
    if (closing.signal.aborted) throw new LiveUnavailableError('the log is closed')
    const watch = enter()
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(new Error(`no answer within ${enterMsMax} ms`)), enterMsMax)
    const over = AbortSignal.any([closing.signal, late.signal])
    try {
      const tail = await unlessAborted(watch.tail, over)
      return { watch, tail, found: await unlessAborted(ask(tail), over) }
    } catch (error) {
      leave(watch)
      throw new LiveUnavailableError(`the log cannot be followed now: ${(error as Error).message}`, { cause: error })
    } finally {
      clearTimeout(timer)
    }
  }

  async function close(watch: Watch): Promise<void> {
    // If the tail could not be opened, those who waited for it have got the error.
    const tail = await watch.tail.catch(() => undefined)
    await tail?.close()
    watches.delete(watch)
  }

  /** Catches up with the tail, in the background. */
  function bring(follow: Follow, tail: Tail): void {
    catchUp(follow, { tail, slices, reads }).catch((error: unknown) => {
      if (follow.stopped) return
      logger.error({ err: error }, 'the log cannot be read for a live stream: closing the stream')
      follow.follower.end()
    })
  }

  return {
    async follow(channel, after) {
      const { watch, tail, found } = await entered(opened => beginning(opened, after, topic.otherBegins))
      return following(watch, tail, channel, found)
    },

    async check() {
      const { watch } = await entered(tail => tail.reader.bounds())
      leave(watch)
    },

    async close() {
      closing.abort(new Error('this process is stopping'))
      watches.forEach(end)
      await Promise.race([Promise.all([...watches].map(close)), wait(closeMsMax)])
    },
  }

  function following(watch: Watch, tail: Tail, channel: string, { offsets, begun, lost }: Beginning): Following {
    const { follows } = watch
    let follow: Follow | undefined
    let stopped = false
    return {
      log: tail.log,
      lost,
      start(follower: Follower) {
        if (stopped) return
        // The tail may have ended meanwhile, which only started followers were notified of.
        if (watch.ended) return follower.end()
        follow = { channel, follower, offsets, begun, attached: false, stopped: false }
        follows.add(follow)
        bring(follow, tail)
      },
      streamOffset(): StreamOffset {
        const own = follow?.attached === true ? offsetsOf(follow, tail.next) : [...(follow?.offsets ?? offsets)]
        return { log: tail.log, offsets: own, ...((follow === undefined ? begun : follow.begun) ?? { partition: 0, rows: 0 }) }
      },
      stop() {
        if (stopped) return
        stopped = true
        if (follow !== undefined) {
          follow.stopped = true
          follows.delete(follow)
          tail.detach(follow)
        }
        leave(watch)
      },
    }
  }
}

async function beginning(tail: Tail, after: StreamOffset | undefined, otherBegins: LiveTopic['otherBegins']): Promise<Beginning> {
  for (let left = aheadTries; ; left--) {
    const bounds = await tail.reader.bounds()
    const found = beginningOf(after, tail.log, bounds, otherBegins)
    if (found !== undefined) return found
    // The log lost messages, and any of these offsets may belong to a message written since.
    if (left === 0) return { offsets: endsOf(bounds), begun: undefined, lost: true }
    await new Promise(resolve => setTimeout(resolve, aheadMs))
  }
}

function endsOf(bounds: ReadonlyMap<number, TopicBounds>): number[] {
  return [...bounds].toSorted(([one], [other]) => one - other).map(([, { end }]) => end)
}
