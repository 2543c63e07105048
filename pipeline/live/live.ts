// Live messages over any log: opens its tail when somebody follows, brings each one there, and closes it behind the last.

import { setTimeout as wait } from 'node:timers/promises'
import { unlessAborted } from '../../config/aborting.ts'
import type { Logger } from '../../config/logger.ts'
import type { OutageReport } from '../../config/outage.ts'
import type { DecoderOptions } from '../decode.ts'
import type { TopicBounds } from '../topic-reader.ts'
import { catchUp } from './catch-up.ts'
import { type Beginning, beginningOf, type Follow, offsetsOf, shorten } from './follow.ts'
import { type Follower, type Following, type LiveMessages, LiveUnavailableError, type Place } from './messages.ts'
import { openSemaphore } from './semaphore.ts'
import { openTail, type Tail } from './tail.ts'
import { openTimeSlices } from './time-slices.ts'
import type { LiveTopic } from './topic.ts'

export interface LiveParts {
  readonly topic: LiveTopic
  /** As the writers have them. */
  readonly decoder: DecoderOptions
  /** Of the log, while it is followed. */
  readonly outage: OutageReport
  readonly logger: Logger
}

export interface OpenLiveMessages extends LiveMessages {
  /** Asks the log for its ends, also where nobody follows. @throws LiveUnavailableError while it cannot be followed */
  check(): Promise<void>
  /** Ends all who follow. What the log does not let go of soon goes with the process. */
  close(): Promise<void>
}

/** So many read the log behind the tail at the same time. */
const readsAtOnce = 2
/** A place that another process gave may lie behind the end that is known here, for as long as a broker's followers take to hear of it. */
const aheadTries = 10
const aheadMs = 200
/** A log may be opened for longer; who waits for it comes again. */
const enterMsMax = 5_000
/** Of the five seconds that a stop may take. */
const closeMsMax = 500

/** A tail, with those who are there or on their way. */
interface Watch {
  readonly tail: Promise<Tail>
  readonly follows: Set<Follow>
  /** The last of them closes it. */
  users: number
  /** Who comes meanwhile joins, also where all who waited went away: each attempt may take long. */
  isOpening: boolean
  /** Nothing comes from the tail any more. */
  ended: boolean
}

export function openLiveMessages({ topic, decoder, outage, logger }: LiveParts): OpenLiveMessages {
  const slices = openTimeSlices()
  const reads = openSemaphore(readsAtOnce)
  const watches = new Set<Watch>()
  /** The one that who comes next joins. */
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
    close(watch).catch((error: unknown) => logger.warn({ err: error }, 'the log was not let go in order'))
  }

  /** @throws LiveUnavailableError, also where the log takes too long, and at the end */
  async function entered<Found>(ask: (tail: Tail) => Promise<Found>): Promise<{ watch: Watch; tail: Tail; found: Found }> {
    if (closing.signal.aborted) throw new LiveUnavailableError('the log is closed')
    const watch = enter()
    const late = new AbortController()
    const timer = setTimeout(() => late.abort(new Error(`it gave no answer within ${enterMsMax} ms`)), enterMsMax)
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
    // Who waited for a tail that could not be opened was told.
    const tail = await watch.tail.catch(() => undefined)
    await tail?.close()
    watches.delete(watch)
  }

  /** To the tail, in the background. */
  function bring(follow: Follow, tail: Tail): void {
    catchUp(follow, { tail, slices, reads }).catch((error: unknown) => {
      if (follow.stopped) return
      logger.error({ err: error }, 'the log cannot be read for a live stream, which is ended')
      follow.follower.end()
    })
  }

  return {
    async follow(channel, after) {
      const { watch, tail, found } = await entered(opened => beginning(opened, after))
      return following(watch, tail, channel, found)
    },

    async check() {
      const { watch } = await entered(tail => tail.reader.bounds())
      leave(watch)
    },

    async close() {
      closing.abort(new Error('this process stops'))
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
        // Meanwhile it may have come to an end of which only those who had started were told.
        if (watch.ended) return follower.end()
        follow = { channel, follower, offsets, begun, attached: false, stopped: false }
        follows.add(follow)
        bring(follow, tail)
      },
      place(): Place {
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

async function beginning(tail: Tail, after: Place | undefined): Promise<Beginning> {
  for (let left = aheadTries; ; left--) {
    const bounds = await tail.reader.bounds()
    const found = beginningOf(after, tail.log, bounds)
    if (found !== undefined) return found
    // The log lost what it had, and a message written since could have any of these offsets.
    if (left === 0) return { offsets: endsOf(bounds), begun: undefined, lost: true }
    await new Promise(resolve => setTimeout(resolve, aheadMs))
  }
}

function endsOf(bounds: ReadonlyMap<number, TopicBounds>): number[] {
  return [...bounds].toSorted(([one], [other]) => one - other).map(([, { end }]) => end)
}
