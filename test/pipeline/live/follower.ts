// One who follows in tests: keeps the names of the records that come, each with the place behind it.

import { pino } from 'pino'
import type { DecoderOptions } from '../../../pipeline/decode.ts'
import { type OpenLiveMessages, openLiveMessages } from '../../../pipeline/live/live.ts'
import { type Follower, type Following, type Place, placeBehind } from '../../../pipeline/live/messages.ts'
import type { LiveTopic } from '../../../pipeline/live/topic.ts'
import { subjectFilter } from '../../../pipeline/subject-filter.ts'
import { openTransformer } from '../../../transformers/select.ts'
import { defaults, makeWorld } from '../parts.ts'

export const decoder: DecoderOptions = {
  transformer: openTransformer({ format: 'senml', contentType: 'application/senml+json', timeFields: [] }),
  subscribed: subjectFilter(['channels.>']),
  message: defaults.message,
}

export function openLive(topic: LiveTopic, more: Partial<DecoderOptions> = {}): OpenLiveMessages {
  return openLiveMessages({
    topic,
    decoder: { ...decoder, ...more },
    outage: makeWorld().outages.report('log'),
    logger: pino({ level: 'silent' }),
  })
}

export function disposable<Part extends { close(): Promise<void> }>(part: Part): Part & AsyncDisposable {
  return Object.assign(part, { [Symbol.asyncDispose]: () => part.close() })
}

export interface Kept {
  readonly following: Following
  readonly names: string[]
  /** Behind the record of the same index. */
  readonly places: Place[]
  readonly lost: { times: number }
  readonly ended: Promise<void>
  /** Resolves when so many records are there. */
  until(count: number): Promise<void>
}

/** @param rowsAtOnce how many rows are taken before there is no room, until the next turn of the event loop */
export async function keep(live: OpenLiveMessages, channel: string, after?: Place, rowsAtOnce = () => Infinity): Promise<Kept> {
  const following = await live.follow(channel, after)
  const names: string[] = []
  const places: Place[] = []
  const lost = { times: following.lost ? 1 : 0 }
  const end = Promise.withResolvers<void>()
  const waiting: { count: number; resolve: () => void }[] = []
  let room = rowsAtOnce()
  let refilled: Promise<void> | undefined
  const follower: Follower = {
    take(message, first, end, offsets) {
      let at = first
      for (; at < end && room > 0; at++, room--) {
        names.push(message.batch.records.name[at]!)
        const { offsets: then, ...rest } = placeBehind(at + 1, message, following.log, offsets)
        places.push({ ...rest, offsets: [...then] })
      }
      for (const one of waiting) if (names.length >= one.count) one.resolve()
      return at
    },
    room() {
      if (room > 0) return undefined
      refilled ??= new Promise(resolve =>
        setImmediate(() => {
          room = rowsAtOnce()
          refilled = undefined
          resolve()
        }),
      )
      return refilled
    },
    lost: () => void lost.times++,
    end: () => {
      following.stop()
      end.resolve()
    },
  }
  following.start(follower)
  return {
    following,
    names,
    places,
    lost,
    ended: end.promise,
    until: count =>
      new Promise(resolve => {
        if (names.length >= count) resolve()
        else waiting.push({ count, resolve })
      }),
  }
}
