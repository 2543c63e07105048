// The schemas that messages are framed under, by their ids: each is looked up once, and what is known is there at once.
//
// An id names the same schema for ever, so what was found is kept. What was not found is asked for again for a while, since the registry
// that is asked may lag behind the one where the schema was registered just now. What is still not found then is kept for a short time,
// in a place of its own: a producer that sends ids nobody has can neither push out the schemas that are in use nor have the registry asked
// for each message.

import { setTimeout } from 'node:timers/promises'
import { waitBefore } from '../../retry.ts'
import type { MessageFault } from '../../source.ts'
import type { Decoding, Decodings } from './framed-cursor.ts'

/** What the registry says now and may not say later: that it has no such schema, or that this user may not read it. */
export interface ForNow {
  readonly forNow: MessageFault
}

/**
 * Asks the registry.
 *
 * @throws LogUnavailableError where it cannot be known now
 * @throws SystemicError where the registry does not let us in
 */
export type LookUp = (id: number, signal: AbortSignal) => Promise<Decoding | ForNow>

export interface Schemas {
  /**
   * How the messages of these schemas are read, those among them that cannot be. What the registry does not give is asked for again
   * for `patience.ms`, all of it together.
   *
   * @throws what `LookUp` throws, and an error when the signal aborts
   */
  decodings(ids: Iterable<number>, signal: AbortSignal): Promise<Decodings>
  /** The same where all of them are known. */
  known(ids: Iterable<number>): Decodings | undefined
}

export interface SchemasOptions {
  readonly lookUp: LookUp
  readonly foundMax?: number
  readonly missingMax?: number
  /** For which the registry is not asked again for what it did not have in the end. */
  readonly missingMs?: number
  /** Monotonic milliseconds. */
  readonly clock?: () => number
  /** Rejects when the signal aborts. */
  readonly wait?: (waitMs: number, signal: AbortSignal) => Promise<unknown>
}

/** So long is waited for what may come by itself, whether an answer or a schema, and so long between two questions. */
export const patience = { ms: 2_000, waitMsMin: 100, waitMsMax: 500 }

/** So many are asked for at once. */
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

  /** Asks for these, and returns those that are to be asked for again; the others are in `decodings` then. */
  async function ask(ids: readonly number[], isLast: boolean, decodings: Map<number, Decoding>, signal: AbortSignal): Promise<number[]> {
    const again: number[] = []
    for (let at = 0; at < ids.length; at += lookUpsMax) {
      signal.throwIfAborted()
      const some = ids.slice(at, at + lookUpsMax)
      const answers = await Promise.all(some.map(id => lookUp(id, signal)))
      for (const [index, id] of some.entries()) {
        const answer = answers[index]!
        if (!('forNow' in answer)) {
          keep(found, id, answer, foundMax)
          missing.delete(id)
          decodings.set(id, answer)
        } else if (isLast) {
          keep(missing, id, { decoding: answer.forNow, untilMs: clock() + missingMs }, missingMax)
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
      for (let turns = 1; asked.length > 0; turns++) {
        asked = await ask(asked, clock() >= untilMs, decodings, signal)
        // From the end of the first turn, which may have been long: the last of its answers is as old as the patience, too.
        if (turns === 1) untilMs = clock() + patience.ms
        if (asked.length > 0) await wait(waitBefore(turns, patience), signal)
      }
      return decodings
    },
  }
}

/** The oldest goes where there is no room. */
function keep<Value>(map: Map<number, Value>, id: number, value: Value, max: number): void {
  map.delete(id)
  map.set(id, value)
  if (map.size > max) for (const oldest of map.keys()) return void map.delete(oldest)
}
