// The streams that are open: how many there may be, and that each ends with the right to read it.

import { HttpError } from '../../config/http/errors.ts'
import type { Logger } from '../../config/logger.ts'
import { type Access, type AccessControl, type AccessRequest, AccessUnavailableError, concerns } from '../../control-plane/client.ts'
import type { EndReason } from './events.ts'
import type { LiveOptions } from './options.ts'
import type { Stream } from './stream.ts'

/** Who reads, as they were let in. */
export interface StreamReader {
  readonly request: AccessRequest
  readonly right: Access & { readonly allowed: true }
}

export interface Streams {
  /**
   * Room for a stream, to be given back; a second time does nothing.
   *
   * @throws HttpError `unavailable`, `too_many_requests`
   */
  reserve(reader: StreamReader): () => void
  /** Watches the right until `remove`. Resolves when it was looked at again: what ended it meanwhile has ended the stream. */
  add(stream: Stream, reader: StreamReader): Promise<void>
  remove(stream: Stream): void
  /** Ends all, and takes no more. */
  endAll(reason: EndReason): void
}

interface Watched extends StreamReader {
  askedMs: number
  endsMs: number | undefined
  asking: boolean
  /** Something changed while it was asked for. */
  again: boolean
}

const sweepMs = 1_000
/** Where changes may go unheard a right is asked for anew so often: a look into the cache of grants, which knows how long it may be used. */
const askAgainMs = 5_000
/** Where none can it is a net below them, and each time a question to the database. */
const askAgainHeardMs = 60_000

export function openStreams(access: AccessControl, { streamsMax, streamsEachMax }: LiveOptions, logger: Logger): Streams {
  const watched = new Map<Stream, Watched>()
  const reserved = new Map<string, number>()
  let total = 0
  let closed = false
  let stopWatching: (() => void) | undefined

  function watch(): () => void {
    const forget = access.onChange(change => {
      for (const [stream, one] of watched) {
        const { right, request } = one
        if (concerns(change, { publisher: right.publisher, owner: right.owner, channel: request.channel })) void ask(stream, one)
      }
    })
    const againMs = access.heardMs === undefined ? askAgainHeardMs : askAgainMs
    const sweep = setInterval(() => {
      const nowMs = performance.now()
      for (const [stream, one] of watched) {
        if (one.endsMs !== undefined && one.endsMs <= Date.now()) stream.end('access_ended')
        else if (nowMs - one.askedMs >= againMs) void ask(stream, one)
      }
    }, sweepMs)
    return () => {
      forget()
      clearInterval(sweep)
    }
  }

  /** Asks whether the right is still there, and ends the stream where it is not, or where that cannot be known. Never rejects. */
  async function ask(stream: Stream, one: Watched): Promise<void> {
    one.again = true
    if (one.asking) return
    one.asking = true
    while (one.again && watched.get(stream) === one) {
      one.again = false
      one.askedMs = performance.now()
      try {
        const now = await access.authorize(one.request)
        if (!now.allowed || now.publisher !== one.right.publisher) stream.end('access_ended')
        else one.endsMs = now.endsMs
      } catch (error) {
        if (!(error instanceof AccessUnavailableError)) logger.error({ err: error }, 'the right to a live stream cannot be looked at')
        stream.end('unavailable')
      }
    }
    one.asking = false
  }

  return {
    reserve({ right: { publisher, owner } }) {
      const of = publisher ?? owner
      const own = reserved.get(of) ?? 0
      if (closed) throw new HttpError('unavailable', 'this process is stopping: try again')
      if (own >= streamsEachMax) throw new HttpError('too_many_requests', `${own} live streams of yours are open: close some of them`)
      if (total >= streamsMax) throw new HttpError('unavailable', 'as many live streams are open as there may be: come again')
      reserved.set(of, own + 1)
      total++
      let isGiven = true
      return () => {
        if (!isGiven) return
        isGiven = false
        total--
        const left = reserved.get(of)! - 1
        if (left === 0) reserved.delete(of)
        else reserved.set(of, left)
      }
    },
    async add(stream, reader) {
      const one: Watched = { ...reader, askedMs: 0, endsMs: reader.right.endsMs, asking: false, again: false }
      if (closed) return stream.end('stopping')
      watched.set(stream, one)
      stopWatching ??= watch()
      await ask(stream, one)
    },
    remove(stream) {
      watched.delete(stream)
      if (watched.size > 0) return
      stopWatching?.()
      stopWatching = undefined
    },
    endAll(reason) {
      closed = true
      for (const stream of watched.keys()) stream.end(reason)
    },
  }
}
