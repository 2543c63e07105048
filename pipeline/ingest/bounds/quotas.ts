// Message quotas per minute: for each thing, and for each channel.
//
// Each is a token bucket that holds one minute's worth of messages and refills continuously. Buckets are in the memory of this process, so each
// ingest process counts separately.

import { HttpError } from '../../../http/errors.ts'
import type { IngestOptions } from '../options.ts'

export interface Quotas {
  /**
   * Rejects a message that exceeds a quota now; counts nothing.
   *
   * @throws HttpError `too_many_requests`, which says which quota, and when to retry
   */
  check(channel: string, thing: string): void
  /**
   * Counts messages, by default one, against both quotas, or against neither if it throws.
   *
   * @throws HttpError like `check`; `too_large` for more than fit into a minute
   */
  take(channel: string, thing: string, count?: number): void
  /** Undoes a `take` whose messages were not stored. */
  giveBack(channel: string, thing: string, count?: number): void
}

export type QuotaOptions = Pick<IngestOptions, 'thingMessagesPerMinute' | 'channelMessagesPerMinute'>

const minuteMs = 60_000
/** For things, and as many for channels and for owners with bounds: about 20 MB each. */
const bucketsMax = 100_000

/**
 * @param nowMs a monotonic clock
 * @returns undefined if neither is limited
 */
export function openQuotas(
  { thingMessagesPerMinute, channelMessagesPerMinute }: QuotaOptions,
  nowMs: () => number = () => performance.now(),
): Quotas | undefined {
  if (thingMessagesPerMinute === 0 && channelMessagesPerMinute === 0) return undefined
  const things = openBuckets(thingMessagesPerMinute)
  const channels = openBuckets(channelMessagesPerMinute)

  const countMax = Math.min(...[thingMessagesPerMinute, channelMessagesPerMinute].filter(perMinute => perMinute > 0))

  function checkAt(now: number, channel: string, thing: string, count = 1): void {
    if (count > countMax) {
      throw new HttpError(
        'too_large',
        `the request has ${count} messages, and the quota of a minute is ${countMax}: send fewer in one request`,
      )
    }
    const thingMs = things.waitMs(thing, now, count)
    const channelMs = channels.waitMs(channel, now, count)
    if (thingMs === 0 && channelMs === 0) return
    const which =
      thingMs >= channelMs
        ? `the quota of this thing is used up (messages a minute: ${thingMessagesPerMinute})`
        : `the quota of this channel is used up (messages a minute, of all things together: ${channelMessagesPerMinute})`
    const retryAfterSeconds = Math.ceil(Math.max(thingMs, channelMs) / 1000)
    const detail = `${which}: retry after ${retryAfterSeconds} s, and put several records into one message if possible`
    throw new HttpError('too_many_requests', detail, { retryAfterSeconds })
  }

  return {
    check: (channel, thing) => checkAt(nowMs(), channel, thing),
    take(channel, thing, count = 1) {
      const now = nowMs()
      checkAt(now, channel, thing, count)
      things.add(thing, -count, now)
      channels.add(channel, -count, now)
    },
    giveBack(channel, thing, count = 1) {
      const now = nowMs()
      things.add(thing, count, now)
      channels.add(channel, count, now)
    },
  }
}

/** At `atMs`, `left` more messages or bytes fitted. In the running minute `used` were used. */
interface Bucket {
  left: number
  atMs: number
  used: number
}

export interface Buckets {
  /** Milliseconds until so many fit, by default one message; 0 if they fit now. No more than those of a minute ever do. */
  waitMs(key: string, now: number, amount?: number): number
  /** Whether so many more make at most an equal part of what all keys of this minute, or of the last, share. */
  isEqualPart(key: string, now: number, amount: number, shared: number): boolean
  /** @param amount negative for those that are used, also more than `waitMs` said that fit: then they are missing later */
  add(key: string, amount: number, now: number): void
}

const unlimited: Buckets = { waitMs: () => 0, isEqualPart: () => true, add: () => undefined }

/**
 * A missing bucket counts as full. There are two generations: a bucket that was not used for a minute is full again, and is dropped with the older
 * one. If more than `bucketsMax` are used within a minute, the older generation is dropped early, and its things may publish a minute's worth immediately:
 * the quota then becomes looser, never stricter.
 */
export function openBuckets(perMinute: number): Buckets {
  if (perMinute === 0) return unlimited
  let young = new Map<string, Bucket>()
  let old = new Map<string, Bucket>()
  let youngSinceMs = -Infinity

  function leftOf(key: string, now: number): number {
    const bucket = young.get(key) ?? old.get(key)
    return bucket === undefined ? perMinute : Math.min(perMinute, bucket.left + ((now - bucket.atMs) * perMinute) / minuteMs)
  }

  return {
    waitMs(key, now, amount = 1) {
      const left = leftOf(key, now)
      return left >= amount ? 0 : ((amount - left) * minuteMs) / perMinute
    },
    isEqualPart(key, now, amount, shared) {
      const used = now - youngSinceMs < minuteMs ? (young.get(key)?.used ?? 0) : 0
      const sharing = young.has(key) ? young.size : young.size + 1
      return used + amount <= shared / Math.max(sharing, old.size)
    },
    add(key, amount, now) {
      const left = Math.min(perMinute, leftOf(key, now) + amount)
      if (now - youngSinceMs >= minuteMs || young.size >= bucketsMax / 2) {
        old = young
        young = new Map()
        youngSinceMs = now
      }
      const bucket = young.get(key)
      if (bucket === undefined) young.set(key, { left, atMs: now, used: -amount })
      else {
        bucket.left = left
        bucket.atMs = now
        bucket.used -= amount
      }
    },
  }
}
