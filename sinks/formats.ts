// Which JSON formats a store accepts, and what each is called there. The same for every store, whether it creates a table, a collection or a measurement.
//
// Devices name formats, so a name may be hostile: a device must not be able to create tables without limit, or to name one like something else in the store.

import { createHash } from 'node:crypto'
import { setBounded } from '../config/bounded-map.ts'
import type { Rejection } from './sink.ts'

export interface FormatLimits {
  readonly formatsMax: number
  readonly formatsPerChannelMax: number
}

/** A format in a batch, with the channels whose messages use it. */
export interface WantedFormat {
  readonly format: string
  readonly channels: ReadonlySet<string>
}

/** A format that the store has, and the channel that added it. */
export interface RegisteredFormat {
  readonly format: string
  readonly channel: string
}

/** Why a format is not stored. */
export type FormatRefusal = Omit<Rejection, 'message'>

export interface AdmittedFormats {
  /** The formats to register. */
  readonly added: readonly RegisteredFormat[]
  readonly refused: ReadonlyMap<string, FormatRefusal>
}

/**
 * Decides which formats may be added to the store.
 *
 * @param registered all formats that the store has
 * @param wanted those that are registered already are left out of both parts of the result
 */
export function admitFormats(
  registered: readonly RegisteredFormat[],
  wanted: readonly WantedFormat[],
  { formatsMax, formatsPerChannelMax }: FormatLimits,
): AdmittedFormats {
  const known = new Set(registered.map(({ format }) => format))
  const broughtBy = new Map<string, number>()
  for (const { channel } of registered) broughtBy.set(channel, (broughtBy.get(channel) ?? 0) + 1)
  const added: RegisteredFormat[] = []
  const refused = new Map<string, FormatRefusal>()
  for (const { format, channels } of wanted) {
    if (known.has(format)) continue
    const channel = [...channels].find(channel => (broughtBy.get(channel) ?? 0) < formatsPerChannelMax)
    if (channel === undefined) {
      refused.set(format, overLimit(`the channel has reached its limit of ${formatsPerChannelMax} JSON formats`))
    } else if (registered.length + added.length >= formatsMax) {
      refused.set(format, overLimit(`the store has reached its limit of ${formatsMax} JSON formats`))
    } else {
      known.add(format)
      broughtBy.set(channel, (broughtBy.get(channel) ?? 0) + 1)
      added.push({ format, channel })
    }
  }
  return { added, refused }
}

function overLimit(reason: string): FormatRefusal {
  return {
    rule: 'format-limit',
    reason,
    hint: 'publish to a subtopic whose last part is an existing format, or raise the limit',
  }
}

export interface Formats {
  /**
   * Returns the formats that the store refuses; documents of the others can be written. Formats that were resolved before cost nothing. A refusal is
   * cached for some seconds, so that a device that keeps naming new formats does not cause a request to the store for each batch.
   */
  resolve(wanted: readonly WantedFormat[], signal: AbortSignal): Promise<Map<string, FormatRefusal>>
  /** Clears the cache: the store may have been put back to an older state. */
  forget(): void
}

/** Registers formats that are not known, and creates what the store needs for them. Returns those that it refuses. */
export type AddFormats = (missing: readonly WantedFormat[], signal: AbortSignal) => Promise<ReadonlyMap<string, FormatRefusal>>

/** How long a refusal is cached. Short, since an operator may raise the limit. */
const refusedMs = 5_000
const refusedMax = 10_000

interface Refused {
  readonly refusal: FormatRefusal
  /** The channels that asked for it: another channel may still be allowed to add it. */
  readonly channels: ReadonlySet<string>
  readonly untilMs: number
}

/** @param nowMs a monotonic clock */
export function openFormats(add: AddFormats, nowMs: () => number = () => performance.now()): Formats {
  const known = new Set<string>()
  /** In the order in which they expire. */
  const refusedLately = new Map<string, Refused>()

  function refusalOf({ format, channels }: WantedFormat): FormatRefusal | undefined {
    const refused = refusedLately.get(format)
    if (refused === undefined || nowMs() >= refused.untilMs) return undefined
    return [...channels].every(channel => refused.channels.has(channel)) ? refused.refusal : undefined
  }

  return {
    async resolve(wanted, signal) {
      const refused = new Map<string, FormatRefusal>()
      const missing: WantedFormat[] = []
      for (const want of wanted) {
        if (known.has(want.format)) continue
        const refusal = refusalOf(want)
        if (refusal === undefined) missing.push(want)
        else refused.set(want.format, refusal)
      }
      if (missing.length === 0) return refused
      const refusedNow = await add(missing, signal)
      for (const want of missing) {
        const refusal = refusedNow.get(want.format)
        if (refusal === undefined) {
          known.add(want.format)
          continue
        }
        refused.set(want.format, refusal)
        setBounded(refusedLately, want.format, { refusal, channels: want.channels, untilMs: nowMs() + refusedMs }, refusedMax)
      }
      return refused
    },
    forget() {
      known.clear()
      refusedLately.clear()
    },
  }
}

export interface NameRule {
  /** Matches formats that can serve as their own name: no special syntax of the store, no name of its own, and no name that is made here. */
  readonly harmless: RegExp
  /** Matches sequences of characters that become `_` in the readable prefix of a made name: `/[^a-z0-9_]+/g`. The prefix is in lower case. */
  readonly foreign: RegExp
  /** Stands between the prefix and the hash; no harmless name may end in it and 32 hexadecimal digits. */
  readonly separator: string
  readonly prefixLengthMax: number
}

/**
 * The name of a format in a store: the format itself where it is harmless, else a readable prefix, the separator and 128 bits of its SHA-256: `Temp`
 * becomes `temp$…`. No two formats get the same name.
 */
export function physicalName(format: string, { harmless, foreign, separator, prefixLengthMax }: NameRule): string {
  if (harmless.test(format)) return format
  const prefix = format.toLowerCase().replaceAll(foreign, '_').slice(0, prefixLengthMax) || 'format'
  return `${prefix}${separator}${createHash('sha256').update(format, 'utf8').digest('hex').slice(0, 32)}`
}
