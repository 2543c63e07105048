// Caches the schemas of framed messages by id: each is looked up once, and known ones are returned immediately.
//
// An id always stands for the same schema, so results are cached. A lookup that finds nothing is retried for a while, because a registry
// node may lag behind the one where the schema was just registered. If it still finds nothing, that is cached for a short time
// in a separate map: a producer that sends unknown ids can neither evict schemas in use nor cause a request to the registry
// for each message.

import { setTimeout } from 'node:timers/promises'
import { setBounded } from '../../../config/bounded-map.ts'
import type { MessageFault } from '../../source.ts'
import { waitBefore } from '../../writer/retry.ts'
import type { Decoding, Decodings } from './framed-cursor.ts'

/** A temporary result: the schema does not exist, or this user may not read it. */
export interface ForNow {
  readonly forNow: MessageFault
}

/**
 * Looks up a schema in the registry.
 *
 * @throws LogUnavailableError if the registry cannot answer now
 * @throws SystemicError if the registry rejects our credentials
 */
export type LookUp = (id: number, signal: AbortSignal) => Promise<Decoding | ForNow>

export interface Schemas {
  /**
   * How to decode messages of these schemas, including those that cannot be decoded. Schemas that the registry does not return are retried
   * for `patience.ms` in total.
   *
   * @throws as `LookUp`, and an error if the signal aborts
   */
  decodings(ids: Iterable<number>, signal: AbortSignal): Promise<Decodings>
  /** The same, if all of them are cached; else undefined. */
  known(ids: Iterable<number>): Decodings | undefined
}

export interface SchemasOptions {
  readonly lookUp: LookUp
  readonly foundMax?: number
  readonly missingMax?: number
  /** How long a failed lookup is cached. */
  readonly missingMs?: number
  /** Monotonic milliseconds. */
  readonly clock?: () => number
  /** Rejects when the signal aborts. */
  readonly wait?: (waitMs: number, signal: AbortSignal) => Promise<unknown>
}

/** How long lookups are retried, for an answer or for a new schema, and the wait between two tries. */
export const patience = { ms: 2_000, waitMsMin: 100, waitMsMax: 500 }

/** Parallel lookups. */
const lookUpsMax = 4

export function openSchemas(options: SchemasOptions): Schemas {
  const { lookUp, foundMax = 1000, missingMax = 1000, missingMs = 30_000, clock = () => performance.now() } = options
  const { wait = (waitMs, signal) => setTimeout(waitMs, undefined, { signal }) } = options
  const found = new Map<number, Decoding>()
  const missing = new Map<number, { readonly decoding: Decoding; readonly untilMs: number }>()

  function knownOf(id: number): Decoding | undefined {
    const decoding = found.get(id)
    if (decoding !== undefined) return decoding
    const gap = missing.get(id)
    return gap !== undefined && gap.untilMs > clock() ? gap.decoding : undefined
  }

  /** Looks up these ids, and returns those to retry; the others are then in `decodings`. */
  async function ask(ids: readonly number[], isLast: boolean, decodings: Map<number, Decoding>, signal: AbortSignal): Promise<number[]> {
    const again: number[] = []
    for (let at = 0; at < ids.length; at += lookUpsMax) {
      signal.throwIfAborted()
      const some = ids.slice(at, at + lookUpsMax)
      const answers = await Promise.all(some.map(id => lookUp(id, signal)))
      for (const [index, id] of some.entries()) {
        const answer = answers[index]!
        if (!('forNow' in answer)) {
          setBounded(found, id, answer, foundMax)
          missing.delete(id)
          decodings.set(id, answer)
        } else if (isLast) {
          setBounded(missing, id, { decoding: answer.forNow, untilMs: clock() + missingMs }, missingMax)
          decodings.set(id, answer.forNow)
        } else again.push(id)
      }
    }
    return again
  }

  function known(ids: Iterable<number>): Decodings | undefined {
    const decodings = new Map<number, Decoding>()
    for (const id of ids) {
      const decoding = knownOf(id)
      if (decoding === undefined) return undefined
      decodings.set(id, decoding)
    }
    return decodings
  }

  return {
    known,
    async decodings(ids, signal) {
      const decodings = new Map<number, Decoding>()
      let asked: number[] = []
      for (const id of ids) {
        const decoding = knownOf(id)
        if (decoding === undefined) asked.push(id)
        else decodings.set(id, decoding)
      }
      let untilMs = Number.POSITIVE_INFINITY
      for (let attempts = 1; asked.length > 0; attempts++) {
        asked = await ask(asked, clock() >= untilMs, decodings, signal)
        // Counted from the end of the first round, which may have been long, so that its last answer gets the full time as well.
        if (attempts === 1) untilMs = clock() + patience.ms
        if (asked.length > 0) await wait(waitBefore(attempts, patience), signal)
      }
      return decodings
    },
  }
}
