// The open streams: limits their number, fairly between accounts.

import type { Logger } from '../../config/logger.ts'
import type { AccessControl } from '../../control-plane/client.ts'
import { HttpError } from '../../http/errors.ts'
import type { EndReason } from '../../http/event-stream.ts'
import { openFairSlots } from '../../http/requests/fair-slots.ts'
import { type StreamReader, watchRights } from '../../pipeline/live/rights.ts'
import type { LiveOptions } from './options.ts'
import type { Stream } from './stream.ts'

/** All open streams of this process. */
export interface Streams {
  /**
   * Takes a slot for a stream. Returns its release; a second call does nothing.
   *
   * @param onDisplaced called when another account gets the slot
   * @throws HttpError `unavailable`, `too_many_requests`
   */
  reserve(reader: StreamReader, onDisplaced: () => void): () => void
  /** Ends it when its access is revoked, until `remove`. Resolves after a first recheck: if access was revoked in the meantime, the stream has been ended. */
  add(stream: Stream, reader: StreamReader): Promise<void>
  remove(stream: Stream): void
  /** Ends all streams, and accepts no more. */
  endAll(reason: EndReason): void
}

/** Starts without open streams. */
export function openStreams(access: AccessControl, { streamsMax }: LiveOptions, logger: Logger): Streams {
  const open = new Set<Stream>()
  const rights = watchRights(access, logger)
  const slots = openFairSlots({ max: streamsMax, what: 'live streams' })
  let closed = false

  return {
    reserve({ right: { owner } }, onDisplaced) {
      if (closed) throw new HttpError('unavailable', 'this process is stopping: retry')
      return slots.take(owner, onDisplaced)
    },
    async add(stream, reader) {
      if (closed) return stream.end('stopping')
      open.add(stream)
      await rights.watch(stream, reader.request, reader.right.publisher)
    },
    remove(stream) {
      open.delete(stream)
      rights.forget(stream)
    },
    endAll(reason) {
      closed = true
      for (const stream of open) stream.end(reason)
    },
  }
}
