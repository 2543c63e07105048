// The streams that are open: how many there may be in all, and of one reader and one user.

import { HttpError } from '../../config/http/errors.ts'
import type { Logger } from '../../config/logger.ts'
import type { AccessControl } from '../../control-plane/client.ts'
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
  const ofReaders = openTally()
  const ofUsers = openTally()
  // Things are made by who wants them: without this bound those of one user could take the room of all others.
  const streamsUserMax = Math.ceil(streamsMax / 2)
  let total = 0
  let closed = false

  return {
    reserve({ right: { publisher, owner } }) {
      const reader = publisher ?? owner
      if (closed) throw new HttpError('unavailable', 'this process is stopping: try again')
      if (ofReaders.of(reader) >= streamsEachMax) throw tooMany(`${streamsEachMax} live streams of yours are open`)
      if (total >= streamsMax) throw new HttpError('unavailable', 'as many live streams are open as there may be: come again')
      if (ofUsers.of(owner) >= streamsUserMax) throw tooMany(`${streamsUserMax} live streams of one user and their things are open`)
      ofReaders.add(reader)
      ofUsers.add(owner)
      total++
      let isGiven = true
      return () => {
        if (!isGiven) return
        isGiven = false
        total--
        ofReaders.remove(reader)
        ofUsers.remove(owner)
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

function tooMany(what: string): HttpError {
  return new HttpError('too_many_requests', `${what}: close some of them`)
}

interface Tally {
  of(id: string): number
  add(id: string): void
  remove(id: string): void
}

/** How many streams each has who has any. */
function openTally(): Tally {
  const counts = new Map<string, number>()
  return {
    of: id => counts.get(id) ?? 0,
    add: id => void counts.set(id, (counts.get(id) ?? 0) + 1),
    remove(id) {
      const left = counts.get(id)! - 1
      if (left === 0) counts.delete(id)
      else counts.set(id, left)
    },
  }
}
