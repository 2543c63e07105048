// Parses the two kinds of entries in a dead-letter topic: a letter, and the resolution of one.
//
//   letter       the message untouched · its sender's headers · those of dead-letters.ts
//   resolution   key of the letter · nothing · sluice.log, sluice.partition, sluice.offset, sluice.settles: <partition>-<offset> of the
//                letter in this topic, sluice.settled: dropped | erased | replayed
//
// A sender may have used the same header names. Ours come after the sender's, so the last ones count: a message whose last header
// is `sluice.settled` is a resolution, and the headers of a letter start at the last `__connect.errors.topic`.

import type { Header, LogPosition, OutgoingMessage } from '../log.ts'
import type { RawCursor } from '../source.ts'
import { logIdHeader, partialHeader, shortenedHeader } from '../writer/dead-letters.ts'
import {
  firstDeadLetterHeader,
  type MessagePosition,
  originalHeaders,
  originalOf,
  ownHeaders,
  settledHeader,
  settlesHeader,
  settlesOf,
  textOf,
} from './headers.ts'

const resolutions = ['dropped', 'erased', 'replayed'] as const
export type Resolved = (typeof resolutions)[number]

export interface ParsedDeadLetter {
  readonly kind: 'letter'
  readonly original: MessagePosition
  /** The topic of the message. */
  readonly topic: string
  /** The topic's id. */
  readonly logId: string
  /** The stage that failed: `KEY_CONVERTER`, `VALUE_CONVERTER` (it could not be decoded) or `TASK_PUT` (the store rejected it). */
  readonly stage: string
  readonly rule: string
  readonly reason: string
  /** The ordinal of the faulty record, from 0. */
  readonly record: number | undefined
  readonly hint: string | undefined
  /** Size of a message that its topic refused, mostly as too large; the letter then has no content. */
  readonly shortenedBytes: number | undefined
  /** The store may have rows of the message, which it accepted before it rejected another. */
  readonly partial: boolean
  /** As the sender set them. */
  readonly headers: readonly Header[]
}

export interface Resolution {
  readonly kind: 'resolution'
  readonly original: MessagePosition
  readonly resolved: Resolved
  /** Position of the resolved letter. */
  readonly deadLetter: LogPosition
}

/** The entry at the cursor; undefined if neither a writer nor a tool of ours wrote it. */
export function parseAt(cursor: RawCursor): ParsedDeadLetter | Resolution | undefined {
  const headers = ownHeaders(cursor.headers())
  if (headers.at(-1)?.key === settledHeader) return resolutionOf(headers)
  const start = headers.findLastIndex(({ key }) => key === firstDeadLetterHeader)
  if (start < 0) return undefined
  const ours = headers.slice(start)
  const original = originalOf(ours)
  const rule = textOf(ours, 'sluice.rule')
  const logId = textOf(ours, logIdHeader)
  if (original === undefined || rule === undefined || logId === undefined) return undefined
  const record = Number.parseInt(textOf(ours, 'sluice.record') ?? '', 10)
  const shortenedBytes = Number.parseInt(textOf(ours, shortenedHeader) ?? '', 10)
  return {
    kind: 'letter',
    original,
    topic: textOf(ours, firstDeadLetterHeader) ?? '',
    logId,
    stage: textOf(ours, '__connect.errors.stage') ?? '',
    rule,
    reason: textOf(ours, '__connect.errors.exception.message') ?? '',
    record: Number.isNaN(record) ? undefined : record,
    hint: textOf(ours, 'sluice.hint'),
    shortenedBytes: Number.isNaN(shortenedBytes) ? undefined : shortenedBytes,
    partial: textOf(ours, partialHeader) === 'true',
    headers: headers.slice(0, start),
  }
}

function resolutionOf(headers: readonly Header[]): Resolution | undefined {
  const original = originalOf(headers)
  const settled = textOf(headers, settledHeader)
  const resolved = resolutions.find(known => known === settled)
  const deadLetter = settlesOf(headers)
  if (original === undefined || deadLetter === undefined || resolved === undefined) return undefined
  return { kind: 'resolution', original, resolved, deadLetter }
}

/** Builds the resolution of a letter, to be appended to the same topic. Another letter of the message may be appended before it. */
export function resolutionMessage({ deadLetter, cursor, partition }: DeadLetterAt, resolved: Resolved, nowUs: number): OutgoingMessage {
  return {
    ...keyOf(cursor),
    subtopic: '',
    publisher: '',
    protocol: 'sluice',
    contentType: '',
    createdUs: nowUs,
    createdRestNs: 0,
    payload: new Uint8Array(0),
    headers: [
      ...originalHeaders(deadLetter.original),
      { key: settlesHeader, value: `${partition}-${cursor.message.offset}` },
      { key: settledHeader, value: resolved },
    ],
  }
}

/** A letter and its position in the topic. */
export interface DeadLetterAt {
  readonly deadLetter: ParsedDeadLetter
  readonly cursor: RawCursor
  readonly partition: number
}

/** The key as a channel if it is one, else as bytes. */
function keyOf(cursor: RawCursor): Pick<OutgoingMessage, 'channel' | 'key'> {
  const { channel } = cursor.message
  const key = cursor.key()
  return key === null || Buffer.from(channel).equals(key) ? { channel } : { channel: '', key }
}
