// That each open stream ends with the right to read it: asked for again when a change is told that may concern it, and now and then.
//
// When changes were missed it is asked for every stream, beside the requests of everybody else. So a few questions are asked at a time, those
// after a change before the others. An answer that does not come ends a stream only where something may have changed since the last one.

import type { Logger } from '../../config/logger.ts'
import { type Access, type AccessControl, type AccessRequest, AccessUnavailableError, concerns } from '../../control-plane/client.ts'
import type { Stream } from './stream.ts'

/** Who reads, as they were let in. */
export interface StreamReader {
  readonly request: AccessRequest
  readonly right: Access & { readonly allowed: true }
}

export interface Rights {
  /** Watches the right until `forget`. Resolves when it was looked at again: what ended it meanwhile has ended the stream. */
  watch(stream: Stream, reader: StreamReader): Promise<void>
  forget(stream: Stream): void
}

interface Watched extends StreamReader {
  readonly stream: Stream
  /** Resolves when it was looked at for the first time. */
  readonly looked: PromiseWithResolvers<void>
  state: 'resting' | 'waiting' | 'asking'
  /** Something that may concern it changed since the last good answer was asked for. */
  isInDoubt: boolean
  /** How many changes concerned it. */
  changes: number
  askedMs: number
  /** When the last good answer was asked for. */
  knownMs: number
  endsMs: number | undefined
}

/** At the same time. The control plane's client has room for ten times as many, which is for those who wait for an answer. */
const questionsAtOnce = 100
const sweepMs = 1_000
/** Where changes may go unheard a right is asked for anew so often: a look into the cache of grants, which knows how long it may be used. */
const askAgainMs = 5_000
/** Where none can it is a net below them, and each time a question to the database. */
const askAgainHeardMs = 60_000
/** So long a right is taken to be there after the last moment at which that was certain, as a grant in the cache is. */
const unheardMsMax = 5_000

export function watchRights(access: AccessControl, logger: Logger): Rights {
  const watched = new Map<Stream, Watched>()
  const pressing: Watched[] = []
  const routine: Watched[] = []
  let underWay = 0
  let stopListening: (() => void) | undefined

  function listen(): () => void {
    const forget = access.onChange(change => {
      for (const one of watched.values()) {
        const { right, request } = one
        if (concerns(change, { publisher: right.publisher, owner: right.owner, channel: request.channel })) doubt(one)
      }
      work()
    })
    const againMs = access.heardMs === undefined ? askAgainHeardMs : askAgainMs
    const sweep = setInterval(() => {
      const nowMs = performance.now()
      for (const one of watched.values()) {
        if (one.endsMs !== undefined && one.endsMs <= Date.now()) one.stream.end('access_ended')
        else if (one.state === 'resting' && (nowMs - one.askedMs >= againMs || !isCertain(one))) {
          one.state = 'waiting'
          routine.push(one)
        }
      }
      work()
    }, sweepMs)
    return () => {
      forget()
      clearInterval(sweep)
    }
  }

  function doubt(one: Watched): void {
    one.changes++
    one.isInDoubt = true
    if (one.state === 'asking') return
    // It may be waiting among the others, too: who comes to it there finds it asked.
    one.state = 'waiting'
    pressing.push(one)
  }

  function work(): void {
    while (underWay < questionsAtOnce) {
      const one = pressing.shift() ?? routine.shift()
      if (one === undefined) return
      if (one.state !== 'waiting') continue
      if (isOpen(one)) void ask(one)
      else one.looked.resolve()
    }
  }

  /** Ends the stream where the right is not there, or where that cannot be known and may have changed. Never rejects. */
  async function ask(one: Watched): Promise<void> {
    const { stream, request, right, changes } = one
    one.state = 'asking'
    underWay++
    const askedMs = performance.now()
    one.askedMs = askedMs
    try {
      const now = await access.authorize(request)
      if (!now.allowed || now.publisher !== right.publisher) stream.end('access_ended')
      else {
        one.endsMs = now.endsMs
        one.knownMs = askedMs
        // An answer that was under way when a change came may be from before it.
        one.isInDoubt = one.changes !== changes
      }
    } catch (error) {
      if (!(error instanceof AccessUnavailableError)) logger.error({ err: error }, 'the right to a live stream cannot be looked at')
      if (one.isInDoubt || !isCertain(one)) stream.end('unavailable')
      // By the next sweep.
      one.askedMs = -Infinity
    }
    underWay--
    one.state = 'resting'
    if (one.isInDoubt && isOpen(one)) {
      one.state = 'waiting'
      pressing.push(one)
    } else one.looked.resolve()
    work()
  }

  /** Whether nothing can have ended the right unheard. */
  function isCertain({ knownMs }: Watched): boolean {
    return Math.max(knownMs, access.heardMs?.() ?? Infinity) + unheardMsMax > performance.now()
  }

  function isOpen(one: Watched): boolean {
    return watched.get(one.stream) === one && one.stream.ended() === undefined
  }

  return {
    async watch(stream, reader) {
      const one: Watched = {
        ...reader,
        stream,
        looked: Promise.withResolvers(),
        state: 'resting',
        isInDoubt: true,
        changes: 0,
        askedMs: -Infinity,
        knownMs: -Infinity,
        endsMs: reader.right.endsMs,
      }
      watched.set(stream, one)
      stopListening ??= listen()
      // What changed since it was let in was told to nobody.
      doubt(one)
      work()
      await one.looked.promise
    },
    forget(stream) {
      watched.delete(stream)
      if (watched.size > 0) return
      stopListening?.()
      stopListening = undefined
    },
  }
}
