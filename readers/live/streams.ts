// The streams that are open: how many there may be in all, and of one reader and one user.

import { HttpError } from '../../config/http/errors.ts'
import type { Logger } from '../../config/logger.ts'
import type { AccessControl } from '../../control-plane/client.ts'
import { openRoom } from '../room.ts'
import type { EndReason } from './events.ts'
import type { LiveOptions } from './options.ts'
import { type StreamReader, watchRights } from './rights.ts'
import type { Stream } from './stream.ts'

export interface Streams {
  /**
   * Room for a stream, to be given back; a second time does nothing.
   *
   * @throws HttpError `unavailable`, `too_many_requests`
   */
  reserve(reader: StreamReader): () => void
  /** Ends it with its right, until `remove`. Resolves when that was looked at again: what ended it meanwhile has ended the stream. */
  add(stream: Stream, reader: StreamReader): Promise<void>
  remove(stream: Stream): void
  /** Ends all, and takes no more. */
  endAll(reason: EndReason): void
}

export function openStreams(access: AccessControl, { streamsMax, streamsEachMax }: LiveOptions, logger: Logger): Streams {
  const open = new Set<Stream>()
  const rights = watchRights(access, logger)
  const what = 'live streams'
  const ofReaders = openRoom({ max: streamsMax, eachMax: streamsEachMax, what })
  // Things are made by who wants them: without this bound those of one user could take the room of all others.
  const ofUsers = openRoom({ max: streamsMax, eachMax: Math.ceil(streamsMax / 2), what, whose: 'of one user and their things' })
  let closed = false

  return {
    reserve({ right: { publisher, owner } }) {
      if (closed) throw new HttpError('unavailable', 'this process is stopping: try again')
      const leaveReader = ofReaders.take(publisher ?? owner)
      try {
        const leaveUser = ofUsers.take(owner)
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
