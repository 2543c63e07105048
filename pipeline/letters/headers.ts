// The headers by which tools and writers speak of a message that lies elsewhere: its first position, and that it is settled.

import { limits } from '../../sinks/sink.ts'
import type { Original } from '../../transformers/record-batch.ts'
import { envelopeHeaderNames } from '../envelope-headers.ts'
import type { Header, LogPosition } from '../log.ts'
import { parseMessageId } from '../message-id.ts'

export const settledHeader = 'sluice.settled'
/** Of a settlement: the letter that it settles, `<partition>-<offset>` in the topic of dead letters. */
export const settlesHeader = 'sluice.settles'
const logHeader = 'sluice.log'
const partitionHeader = 'sluice.partition'
const offsetHeader = 'sluice.offset'
/** The first of the headers that a dead letter has beside those of its message (dead-letters.ts). */
export const firstLetterHeader = '__connect.errors.topic'
/** Of `originalHeaders`, which stand behind those of the sender. */
const originalCount = 3

export function originalHeaders({ log, partition, offset }: Original): Header[] {
  return [
    { key: logHeader, value: String(log) },
    { key: partitionHeader, value: String(partition) },
    { key: offsetHeader, value: String(offset) },
  ]
}

/** Those that are no part of the envelope, in their order: the sender's, and behind them ours. */
export function ownHeaders(headers: readonly Header[]): Header[] {
  return headers.filter(({ key }) => !envelopeHeaderNames.has(key))
}

/** The position that the headers name; of a name that comes twice the last one counts, since a sender's stand before ours. */
export function originalOf(headers: readonly Header[]): Original | undefined {
  const log = integerOf(headers, logHeader, limits.log)
  const partition = integerOf(headers, partitionHeader, limits.partition)
  const offset = integerOf(headers, offsetHeader, limits.offset)
  if (log === undefined || log === 0 || partition === undefined || offset === undefined) return undefined
  return { log, partition, offset }
}

/** The place that a settlement names; undefined where it names none. */
export function settlesOf(headers: readonly Header[]): LogPosition | undefined {
  const place = parseMessageId(textOf(headers, settlesHeader) ?? '')
  return place?.log === '' ? place : undefined
}

/** A replayed message as `originalHeaders` marked it: its first position, and the headers that its sender gave. */
export function replayedOf(headers: readonly Header[]): { readonly original: Original; readonly headers: Header[] } | undefined {
  const own = ownHeaders(headers)
  const marks = own.splice(-originalCount)
  if (marks.map(({ key }) => key).join() !== [logHeader, partitionHeader, offsetHeader].join()) return undefined
  const original = originalOf(marks)
  return original === undefined ? undefined : { original, headers: own }
}

/** The text of the last header of a name; undefined where there is none, or it is no text. */
export function textOf(headers: readonly Header[], name: string): string | undefined {
  const value = headers.findLast(({ key }) => key === name)?.value
  return typeof value === 'string' ? value : undefined
}

function integerOf(headers: readonly Header[], name: string, max: number): number | undefined {
  const text = textOf(headers, name)
  if (text === undefined || !/^\d{1,14}$/.test(text)) return undefined
  const value = Number(text)
  return value <= max ? value : undefined
}
