// The open streams: limits them in total, per reader and per user.

import type { Logger } from '../../config/logger.ts'
import type { AccessControl } from '../../control-plane/client.ts'
import { HttpError } from '../../http/errors.ts'
import type { EndReason } from '../../http/event-stream.ts'
import { openConcurrencyLimit } from '../../http/requests/concurrency-limit.ts'
import type { LiveOptions } from './options.ts'
import { type StreamReader, watchRights } from './rights.ts'
import type { Stream } from './stream.ts'

/** All open streams of this process. */
export interface Streams {
  /**
   * Takes slots for a stream. Returns their release; a second call does nothing.
   *
   * @throws HttpError `unavailable`, `too_many_requests`
   */
  reserve(reader: StreamReader): () => void
  /** Ends it when its access is revoked, until `remove`. Resolves after a first recheck: if access was revoked in the meantime, the stream has been ended. */
  add(stream: Stream, reader: StreamReader): Promise<void>
  remove(stream: Stream): void
  /** Ends all streams, and accepts no more. */
  endAll(reason: EndReason): void
}

/** Starts without open streams. */
export function openStreams(access: AccessControl, { streamsMax, streamsEachMax }: LiveOptions, logger: Logger): Streams {
  const open = new Set<Stream>()
  const rights = watchRights(access, logger)
  const what = 'live streams'
  const readerLimit = openConcurrencyLimit({ max: streamsMax, eachMax: streamsEachMax, what })
  // Users can create any number of things: without this limit one user's things could take all slots.
  const userLimit = openConcurrencyLimit({
    max: streamsMax,
    eachMax: Math.ceil(streamsMax / 2),
    what,
    whose: 'of one user and their things',
  })
  let closed = false

  return {
    reserve({ right: { publisher, owner } }) {
      if (closed) throw new HttpError('unavailable', 'this process is stopping: retry')
      const leaveReader = readerLimit.take(publisher ?? owner)
      try {
        const leaveUser = userLimit.take(owner)
        return () => {
          leaveReader()
          leaveUser()
        }
      } catch (error) {
        leaveReader()
        throw error
      }
    },
    async add(stream, reader) {
      if (closed) return stream.end('stopping')
      open.add(stream)
      await rights.watch(stream, reader)
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
