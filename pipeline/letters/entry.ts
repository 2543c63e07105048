// What lies in a topic of dead letters: a letter, or the word that one is settled.
//
//   letter       the message untouched · its sender's headers · those of dead-letters.ts
//   settlement   key of the letter · nothing · sluice.log, sluice.partition, sluice.offset, sluice.settles: <partition>-<offset> of the
//                letter in this topic, sluice.settled: dropped | replayed
//
// A sender may give its message headers of the same names. Ours stand behind them, so that the end decides: a message whose last header
// is `sluice.settled` is a settlement, and a letter's own headers begin at the last `__connect.errors.topic`.

import type { Original } from '../../transformers/record-batch.ts'
import { shortenedHeader } from '../dead-letters.ts'
import type { Header, LogPosition, OutgoingMessage } from '../log.ts'
import type { RawCursor, RawMessage } from '../source.ts'
import { firstLetterHeader, originalHeaders, originalOf, ownHeaders, settledHeader, settlesHeader, settlesOf, textOf } from './headers.ts'

export type Settled = 'dropped' | 'replayed'

export interface LetterEntry {
  readonly kind: 'letter'
  readonly original: Original
  /** The topic that the message lay in. */
  readonly topic: string
  /** Where the writer gave up: `KEY_CONVERTER`, `VALUE_CONVERTER` (it could not be decoded) or `TASK_PUT` (the store refused it). */
  readonly stage: string
  readonly rule: string
  readonly reason: string
  /** The ordinal of the record at fault, from 0. */
  readonly record: number | undefined
  readonly hint: string | undefined
  /** The message was too large for its letter, which has only where it lies: so many bytes. */
  readonly shortenedBytes: number | undefined
  /** As its sender gave them. */
  readonly headers: readonly Header[]
}

export interface SettlementEntry {
  readonly kind: 'settlement'
  readonly original: Original
  readonly settled: Settled
  /** Where the letter lies that it settles; undefined for the word of an older tool, which settles whatever lies before it. */
  readonly settles: LogPosition | undefined
}

/** The message that the cursor stands on; undefined for one that no writer and no tool of ours has put there. */
export function entryAt(cursor: RawCursor): LetterEntry | SettlementEntry | undefined {
  const headers = ownHeaders(cursor.headers())
  if (headers.at(-1)?.key === settledHeader) return settlementOf(headers)
  const start = headers.findLastIndex(({ key }) => key === firstLetterHeader)
  if (start < 0) return undefined
  const ours = headers.slice(start)
  const original = originalOf(ours)
  const rule = textOf(ours, 'sluice.rule')
  if (original === undefined || rule === undefined) return undefined
  const record = Number.parseInt(textOf(ours, 'sluice.record') ?? '', 10)
  const shortenedBytes = Number.parseInt(textOf(ours, shortenedHeader) ?? '', 10)
  return {
    kind: 'letter',
    original,
    topic: textOf(ours, firstLetterHeader) ?? '',
    stage: textOf(ours, '__connect.errors.stage') ?? '',
    rule,
    reason: textOf(ours, '__connect.errors.exception.message') ?? '',
    record: Number.isNaN(record) ? undefined : record,
    hint: textOf(ours, 'sluice.hint'),
    shortenedBytes: Number.isNaN(shortenedBytes) ? undefined : shortenedBytes,
    headers: headers.slice(0, start),
  }
}

function settlementOf(headers: readonly Header[]): SettlementEntry | undefined {
  const original = originalOf(headers)
  const settled = textOf(headers, settledHeader)
  if (original === undefined || (settled !== 'dropped' && settled !== 'replayed')) return undefined
  return { kind: 'settlement', original, settled, settles: settlesOf(headers) }
}

/**
 * The word that a letter is settled, to lie behind it in the same topic. Another letter of the message may come before it.
 *
 * @param position of the letter in that topic
 */
export function settlement(
  { original }: LetterEntry,
  message: KeyedMessage,
  position: LogPosition,
  settled: Settled,
  nowUs: number,
): OutgoingMessage {
  return {
    ...keyOf(message),
    subtopic: '',
    publisher: '',
    protocol: 'sluice',
    contentType: '',
    createdUs: nowUs,
    createdRestNs: 0,
    payload: new Uint8Array(0),
    headers: [
      ...originalHeaders(original),
      { key: settlesHeader, value: `${position.partition}-${position.offset}` },
      { key: settledHeader, value: settled },
    ],
  }
}

/** The message of a letter as it was, on its way to be stored after all. The bytes are its own. */
export function replay({ original, headers }: LetterEntry, { message, key }: KeyedMessage): OutgoingMessage {
  const { subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload } = message
  return {
    ...keyOf({ message, key }),
    subtopic,
    publisher,
    protocol,
    contentType,
    createdUs,
    createdRestNs,
    payload: new Uint8Array(payload),
    headers: [...headers, ...originalHeaders(original)],
  }
}

/** A message of a log with its key; null where it has none. */
export interface KeyedMessage {
  readonly message: RawMessage
  readonly key: Uint8Array | null
}

/** A key that is a channel is one; what could not be read as one goes on as bytes. */
function keyOf({ message, key }: KeyedMessage): Pick<OutgoingMessage, 'channel' | 'key'> {
  return message.channel === '' && key !== null ? { channel: '', key } : { channel: message.channel }
}
