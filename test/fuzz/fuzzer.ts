// Runs cases: creates inputs of each kind in turn and checks every property that applies to them.

import type { Kind } from './kind.ts'
import { openProperties } from './properties.ts'
import type { Property } from './property.ts'
import { openRandom, type Random } from './random.ts'
import { shrink } from './shrink.ts'

/** One case: with the seed, everything needed to repeat it. */
export interface Case {
  readonly kind: Kind
  /** Its number among the cases of its kind, from 0. */
  readonly ordinal: number
}

export interface Failure {
  readonly seed: number
  readonly case: Case
  readonly property: string
  readonly error: Error
  readonly input: Uint8Array
  /** The shortest input found that fails the same property; undefined if it fails only after earlier cases. */
  readonly shortest: Uint8Array | undefined
}

export interface Progress {
  readonly cases: number
  readonly elapsedMs: number
}

export interface Run {
  /** How many cases of each kind ran. */
  readonly cases: ReadonlyMap<string, number>
  readonly elapsedMs: number
  readonly failure: Failure | undefined
}

export interface FuzzOptions {
  readonly seed: number
  readonly kinds: readonly Kind[]
  /** The run ends after this many cases or milliseconds, whichever comes first, or at the first failure. */
  readonly casesMax?: number
  readonly elapsedMsMax?: number
  /** Only the case with this number, of each kind. */
  readonly ordinal?: number
  readonly properties?: ReturnType<typeof openProperties>
  /** Called before each case. */
  readonly onCase?: (one: Case) => void
  /** Called a few times a second. */
  readonly onProgress?: (progress: Progress) => void
}

/** Number of cases between two checks of the clock. */
const casesBetweenLooks = 64
const progressMs = 200

/** Runs until a failure or a limit. */
export function fuzz(options: FuzzOptions): Run {
  const { seed, kinds, casesMax = Number.POSITIVE_INFINITY, elapsedMsMax = Number.POSITIVE_INFINITY, ordinal, onCase, onProgress } = options
  const properties = options.properties ?? openProperties()
  const startedMs = performance.now()
  const cases = new Map(kinds.map(({ name }) => [name, 0]))
  let count = 0
  let lookAt = casesBetweenLooks
  let toldMs = 0
  let elapsedMs = 0
  let failure: Failure | undefined
  for (let round = 0; failure === undefined && count < casesMax && elapsedMs < elapsedMsMax; round++) {
    for (const kind of kinds) {
      if (ordinal === undefined && round % kind.every !== 0) continue
      if (count >= casesMax || elapsedMs >= elapsedMsMax) break
      const one: Case = { kind, ordinal: ordinal ?? cases.get(kind.name)! }
      onCase?.(one)
      failure = runCase(seed, one, properties[kind.target])
      cases.set(kind.name, cases.get(kind.name)! + 1)
      count++
      if (failure !== undefined) break
      if (count < lookAt && kind.bytes === undefined) continue
      lookAt = count + casesBetweenLooks
      elapsedMs = performance.now() - startedMs
      if (onProgress !== undefined && elapsedMs - toldMs > progressMs) {
        toldMs = elapsedMs
        onProgress({ cases: count, elapsedMs })
      }
    }
    if (ordinal !== undefined) break
  }
  return { cases, elapsedMs: performance.now() - startedMs, failure }
}

/** The input of a case, which is always the same. */
export function inputOf(seed: number, { kind, ordinal }: Case): Uint8Array {
  const random = openRandom(seed, kind.name, ordinal)
  return kind.make(random, kind.bytes ?? lengthOf(random))
}

/** Usually some hundred bytes, rarely the maximum size of a payload. */
function lengthOf(random: Random): number {
  if (random.oneIn(20_000)) return 2 ** 18
  if (random.oneIn(200)) return 512 + random.mostlySmall(16_384)
  return 8 + random.mostlySmall(504)
}

function runCase(seed: number, one: Case, properties: readonly Property[]): Failure | undefined {
  const input = inputOf(seed, one)
  for (const property of properties) {
    const error = errorOf(property, input, seed, one)
    if (error !== undefined) return failureOf(property, error, input, seed, one)
  }
  return undefined
}

function errorOf(property: Property, input: Uint8Array, seed: number, { kind, ordinal }: Case): Error | undefined {
  try {
    property.holds(input, openRandom(seed, kind.name, ordinal))
    return undefined
  } catch (error) {
    return error instanceof Error ? error : new Error(String(error))
  }
}

function failureOf(property: Property, error: Error, input: Uint8Array, seed: number, one: Case): Failure {
  // Separate properties, without state of earlier cases except for what modules cache.
  const { [one.kind.target]: fresh } = openProperties()
  const same = fresh.find(({ name }) => name === property.name) ?? property
  const fails = (candidate: Uint8Array): boolean => errorOf(same, candidate, seed, one) !== undefined
  const shortest = fails(input) ? shrink(input, fails) : undefined
  return { seed, case: one, property: property.name, error, input, shortest }
}
