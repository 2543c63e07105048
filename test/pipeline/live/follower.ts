// A follower for tests: keeps the names of its records, each with the offset after it.

import { pino } from 'pino'
import { type OpenLiveMessages, openLiveMessages } from '../../../pipeline/live/live.ts'
import { type Follower, type Following, type StreamOffset, streamOffsetBehind } from '../../../pipeline/live/messages.ts'
import type { LiveTopic } from '../../../pipeline/live/tail.ts'
import type { DecoderOptions } from '../../../pipeline/writer/decode.ts'
import { subjectFilter } from '../../../pipeline/writer/subject-filter.ts'
import { openTransformer } from '../../../transformers/select.ts'
import { defaults, makeWorld } from '../writer/parts.ts'

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
  /** The offset after the record of the same index. */
  readonly streamOffsets: StreamOffset[]
  readonly lost: { times: number }
  readonly ended: Promise<void>
  /** Resolves when this many records have arrived. */
  until(count: number): Promise<void>
}

/** @param rowsAtOnce how many rows are accepted before there is no room, until the next turn of the event loop */
export async function keep(live: OpenLiveMessages, channel: string, after?: StreamOffset, rowsAtOnce = () => Infinity): Promise<Kept> {
  const following = await live.follow(channel, after)
  const names: string[] = []
  const streamOffsets: StreamOffset[] = []
  const lost = { times: following.lost ? 1 : 0 }
  const end = Promise.withResolvers<void>()
  const waiting: { count: number; resolve: () => void }[] = []
  let space = rowsAtOnce()
  let refilled: Promise<void> | undefined
  const follower: Follower = {
    partsOf: ({ batch }) => batch.rowCount,
    take(message, first, end, offsets) {
      let at = first
      for (; at < end && space > 0; at++, space--) {
        names.push(message.batch.records.name[at]!)
        const { offsets: then, ...rest } = streamOffsetBehind(at + 1, message, following.log, offsets)
        streamOffsets.push({ ...rest, offsets: [...then] })
      }
      for (const one of waiting) if (names.length >= one.count) one.resolve()
      return at
    },
    space() {
      if (space > 0) return undefined
      refilled ??= new Promise(resolve =>
        setImmediate(() => {
          space = rowsAtOnce()
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
    streamOffsets,
    lost,
    ended: end.promise,
    until: count =>
      new Promise(resolve => {
        if (names.length >= count) resolve()
        else waiting.push({ count, resolve })
      }),
  }
}
