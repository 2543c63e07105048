// The headers with which letters and resolutions refer to a message: its position in its log, and how its letter was resolved.

import { limits } from '../../sinks/sink.ts'
import { envelopeHeaderNames } from '../envelope-headers.ts'
import type { Header, LogPosition } from '../log.ts'
import { parseMessageId } from '../message-id.ts'
import { headersMaxDefault } from '../source.ts'

/** The position of a message in its writer's log. */
export interface MessagePosition {
  /** The log's number in the store. */
  readonly log: number
  readonly partition: number
  readonly offset: number
}

export const settledHeader = 'sluice.settled'
/** Header of a resolution: the resolved letter, `<partition>-<offset>` in the dead-letter topic. */
export const settlesHeader = 'sluice.settles'
const logHeader = 'sluice.log'
const partitionHeader = 'sluice.partition'
const offsetHeader = 'sluice.offset'
/** The first of the headers that a dead letter has in addition to those of its message (dead-letters.ts). */
export const firstDeadLetterHeader = '__connect.errors.topic'
/** A letter has the headers of its message, of which not all are the envelope's, and at most 24 of ours. */
export const deadLetterHeadersMax = headersMaxDefault + 32

export function originalHeaders({ log, partition, offset }: MessagePosition): Header[] {
  return [
    { key: logHeader, value: String(log) },
    { key: partitionHeader, value: String(partition) },
    { key: offsetHeader, value: String(offset) },
  ]
}

/** The headers that are not part of the envelope, in order: the sender's, then ours. */
export function ownHeaders(headers: readonly Header[]): Header[] {
  return headers.filter(({ key }) => !envelopeHeaderNames.has(key))
}

/** The position in the headers. Of repeated headers the last one counts, because the sender's come before ours. */
export function originalOf(headers: readonly Header[]): MessagePosition | undefined {
  const log = integerOf(headers, logHeader, limits.log)
  const partition = integerOf(headers, partitionHeader, limits.partition)
  const offset = integerOf(headers, offsetHeader, limits.offset)
  if (log === undefined || log === 0 || partition === undefined || offset === undefined) return undefined
  return { log, partition, offset }
}

/** The letter's position in the headers of a resolution; undefined if they have none. */
export function settlesOf(headers: readonly Header[]): LogPosition | undefined {
  const position = parseMessageId(textOf(headers, settlesHeader) ?? '')
  return position?.log === '' ? position : undefined
}

/** The text of the last header of this name; undefined if there is none, or it is not text. */
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
