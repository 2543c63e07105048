// Which JSON formats a store takes, and what each is called there: the rules that are the same for every store.
//
// A format is named by a device, so it is hostile: one device must not make tables without end, and no name of a device may be
// taken for another name of the store.

import { createHash } from 'node:crypto'
import { type TInteger, Type } from 'typebox'
import type { Rejection } from './sink.ts'

export interface FormatLimits {
  readonly formatsMax: number
  readonly formatsPerChannelMax: number
}

/** The options of every sink that say how many formats it takes. */
export const formatOptions: { readonly formatsMax: TInteger; readonly formatsPerChannelMax: TInteger } = {
  formatsMax: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 100_000,
    description: 'JSON formats in the whole store, each a table. A message of one more is a dead letter (rule `format-limit`).',
  }),
  formatsPerChannelMax: Type.Integer({
    default: 32,
    minimum: 1,
    maximum: 100_000,
    description: 'JSON formats that one channel may bring into the store.',
  }),
}

/** A format of a batch, with the channels whose messages have it. */
export interface WantedFormat {
  readonly format: string
  readonly channels: ReadonlySet<string>
}

/** A format that the store has, and the channel that brought it. */
export interface RegisteredFormat {
  readonly format: string
  readonly channel: string
}

/** Why a format is not stored. */
export type FormatRefusal = Omit<Rejection, 'message'>

export interface AdmittedFormats {
  /** To be registered. */
  readonly added: readonly RegisteredFormat[]
  readonly refused: ReadonlyMap<string, FormatRefusal>
}

/**
 * Decides which formats may be added to those that the store has.
 *
 * @param registered all of them
 * @param wanted those that are registered already are in neither part of the result
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
      refused.set(format, overLimit(`the channel has brought ${formatsPerChannelMax} JSON formats, and no more are allowed`))
    } else if (registered.length + added.length >= formatsMax) {
      refused.set(format, overLimit(`the store holds ${formatsMax} JSON formats, and no more are allowed`))
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
    hint: 'publish to a subtopic whose last part is a format that exists, or raise the limit',
  }
}

export interface NameRule {
  /** Formats that are their own name: nothing that the store would read otherwise, none of its own names, and none that is made here. */
  readonly harmless: RegExp
  /** Runs of characters that become `_` in the readable prefix of a name that is made: `/[^a-z0-9_]+/g`. The prefix is in lower case. */
  readonly foreign: RegExp
  /** Stands between the prefix and the hash; no harmless name may end in it and 32 hexadecimal digits. */
  readonly separator: string
  readonly prefixLengthMax: number
}

/**
 * The name of a format in a store: the format itself where it is harmless, else a readable prefix, the separator and 128 bits of its
 * SHA-256: `Temp` becomes `temp$…`. No two formats have the same name.
 */
export function physicalName(format: string, { harmless, foreign, separator, prefixLengthMax }: NameRule): string {
  if (harmless.test(format)) return format
  const prefix = format.toLowerCase().replaceAll(foreign, '_').slice(0, prefixLengthMax) || 'format'
  return `${prefix}${separator}${createHash('sha256').update(format, 'utf8').digest('hex').slice(0, 32)}`
}
