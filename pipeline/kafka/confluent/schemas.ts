// The schemas that messages are framed under, by their ids: each is looked up once, and what is known is there at once.
//
// An id names the same schema for ever, so what was found is kept. What was not found is kept for a short time, in a place of its own: a
// producer that sends ids nobody has can neither push out the schemas that are in use nor have the registry asked for each message.

import { unknownSchema } from './faults.ts'
import type { Decoding, Decodings } from './framed-cursor.ts'

/**
 * Asks the registry.
 *
 * @returns undefined where it has no such schema
 * @throws LogUnavailableError where it cannot be known now
 * @throws SystemicError where the registry does not let us in
 */
export type LookUp = (id: number, signal: AbortSignal) => Promise<Decoding | undefined>

export interface Schemas {
  /**
   * How the messages of these schemas are read, those among them that cannot be.
   *
   * @throws what `LookUp` throws, and the signal's reason when it aborts
   */
  decodings(ids: Iterable<number>, signal: AbortSignal): Promise<Decodings>
  /** The same where all of them are known. */
  known(ids: Iterable<number>): Decodings | undefined
}

export interface SchemasOptions {
  readonly lookUp: LookUp
  readonly foundMax?: number
  readonly missingMax?: number
  /** For which the registry is not asked again for what it did not have. */
  readonly missingMs?: number
  /** Monotonic milliseconds. */
  readonly clock?: () => number
}

/** So many are asked for at once. */
const lookUpsMax = 4

export function openSchemas(options: SchemasOptions): Schemas {
  const { lookUp, foundMax = 1000, missingMax = 1000, missingMs = 30_000, clock = () => performance.now() } = options
  const found = new Map<number, Decoding>()
  const missing = new Map<number, { readonly decoding: Decoding; readonly untilMs: number }>()

  function knownOf(id: number): Decoding | undefined {
    const decoding = found.get(id)
    if (decoding !== undefined) return decoding
    const gap = missing.get(id)
    return gap !== undefined && gap.untilMs > clock() ? gap.decoding : undefined
  }

  async function ask(id: number, signal: AbortSignal): Promise<Decoding> {
    const answer = await lookUp(id, signal)
    if (answer !== undefined) {
      keep(found, id, answer, foundMax)
      missing.delete(id)
      return answer
    }
    const decoding = unknownSchema(id)
    keep(missing, id, { decoding, untilMs: clock() + missingMs }, missingMax)
    return decoding
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
      const asked: number[] = []
      for (const id of ids) {
        const decoding = knownOf(id)
        if (decoding === undefined) asked.push(id)
        else decodings.set(id, decoding)
      }
      for (let at = 0; at < asked.length; at += lookUpsMax) {
        signal.throwIfAborted()
        const some = asked.slice(at, at + lookUpsMax)
        const answers = await Promise.all(some.map(id => ask(id, signal)))
        for (const [index, id] of some.entries()) decodings.set(id, answers[index]!)
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
