// Walks the messages of a chunk whose envelope has another layout than the one that Sluice writes. On the hot path of a writer with a section
// `envelope`, and of no other.
//
// Each part that the layout places is looked up there, in order of preference. The other parts stay as the record's own cursor reads them: where Sluice
// writes them, or in the fields of a framed record.

import { DecodeError } from '../../transformers/decode-error.ts'
import { readRfc3339 } from '../../transformers/json/times/rfc3339.ts'
import type { Timestamp } from '../../transformers/json/times/timestamp.ts'
import { readDecimal } from '../../transformers/json/times/unix-time.ts'
import { canonicalId } from '../../transformers/uuid.ts'
import { keyFault, timestampFault } from '../kafka/records/envelope-header.ts'
import { mediaType } from '../kafka/records/media-type.ts'
import {
  createdFault,
  type EnvelopePart,
  emptyMessage,
  type MessageFault,
  payloadSizeFault,
  type RawCursor,
  type RecordParts,
} from '../source.ts'
import { fieldText, rootObject } from './field.ts'
import { type EnvelopeLayout, type EnvelopeSource, sourcesText } from './layout.ts'

export interface LaidOut {
  readonly layout: EnvelopeLayout
  /** Of the messages. */
  readonly topic: string
  /** The largest payload in which fields are looked up; a larger one becomes a dead letter anyway. */
  readonly payloadBytesMax: number
}

/** @param cursor of the same chunk, with `parts`; no other code may move it */
export function openLaidOutCursor(cursor: RawCursor, { layout, topic, payloadBytesMax }: LaidOut): RawCursor {
  const raw = cursor.message
  const parts = cursor.parts as RecordParts
  const message = emptyMessage()
  const placed = new Set(Object.keys(layout) as EnvelopePart[])
  /** The root of the payload: null if it is not an object, undefined if it was not parsed yet. */
  let root: Readonly<Record<string, unknown>> | null | undefined
  /** Why the payload is not parsed. */
  let unparsed: MessageFault | undefined
  /** Set if a preferred place has a text that is not UTF-8. */
  let notText: MessageFault | undefined

  function next(): boolean {
    if (!cursor.next()) return false
    root = unparsed = notText = undefined
    message.offset = raw.offset
    message.payload = raw.payload
    message.protocol = raw.protocol
    message.fault = raw.fault === undefined ? undefined : parts.faultOutside(placed)
    message.channel = layout.channel === undefined ? raw.channel : canonicalId(firstText(layout.channel))
    if (message.channel === '' && layout.channel !== undefined) message.fault ??= notText ?? unparsed ?? noChannel(layout.channel)
    message.subtopic = layout.subtopic === undefined ? raw.subtopic : firstText(layout.subtopic)
    message.publisher = layout.publisher === undefined ? raw.publisher : canonicalId(firstText(layout.publisher))
    message.contentType = layout.contentType === undefined ? raw.contentType : mediaType(firstText(layout.contentType))
    if (layout.created === undefined) setCreated(raw.createdUs, raw.createdRestNs)
    else readCreated(layout.created)
    message.fault ??= notText
    return true
  }

  /** Empty if the message has none. */
  function firstText(sources: readonly EnvelopeSource[]): string {
    for (const source of sources) {
      const text = lookUp(source)
      if (text === undefined) notText ??= notUtf8(source)
      else if (text !== null) return text
    }
    return ''
  }

  function lookUp(source: EnvelopeSource): string | null | undefined {
    if (source.from === 'key') return parts.keyText()
    if (source.from === 'topic') return parts.topicText === undefined ? topic : parts.topicText(source.levels)
    if (source.from === 'header') return parts.headerText(source.nameBytes)
    return source.from === 'const' ? source.text : fieldText(parsed(), source.path)
  }

  function parsed(): Readonly<Record<string, unknown>> | null {
    if (root !== undefined) return root
    root = null
    if (message.payload.byteLength > payloadBytesMax) {
      unparsed = payloadSizeFault(message.payload.byteLength, payloadBytesMax)
      return root
    }
    try {
      root = rootObject(message.payload)
    } catch (error) {
      // The decoder reports it, unless the channel was needed from the payload.
      if (!(error instanceof DecodeError)) throw error
      const { rule, message: reason, hint } = error
      unparsed = { rule, reason, hint }
    }
    return root
  }

  function readCreated(sources: readonly EnvelopeSource[]): void {
    for (const source of sources) {
      const text = lookUp(source)
      if (text === null) continue
      if (text === undefined) {
        notText ??= notUtf8(source)
        continue
      }
      if (!readTime(text)) message.fault ??= badCreated(source)
      setCreated(timestamp.us, timestamp.restNs)
      return
    }
    const us = parts.timestampUs()
    if (us === undefined) message.fault ??= timestampFault
    setCreated(us ?? 0, 0)
  }

  function setCreated(us: number, restNs: number): void {
    message.createdUs = us
    message.createdRestNs = restNs
  }

  return {
    message,
    next,
    key: () => cursor.key(),
    headers: () => cursor.headers(),
    isRetained: () => cursor.isRetained?.() === true,
    // Its dead letter keeps everything where it was.
    value: () => cursor.value?.() ?? raw.payload,
    parts,
  }
}

const timestamp: Timestamp = { us: 0, restNs: 0 }

/** Writes the time to `timestamp`; returns false, and writes 0, if the text is not one, or its microseconds are not a safe integer. */
function readTime(text: string): boolean {
  const digits = /^(\d{1,19})(?:\.\d+)?$/.exec(text)
  if (digits !== null) readDecimal(text, unitOf(digits[1]!.length), timestamp)
  const isTime = digits !== null || readRfc3339(text, timestamp)
  if (isTime && Number.isSafeInteger(timestamp.us)) return true
  timestamp.us = timestamp.restNs = 0
  return false
}

/** Whole digits of 1973 to 5138 are of one length in each unit. Nanoseconds in one, as a power of ten. */
function unitOf(digits: number): number {
  if (digits <= 11) return 9
  if (digits <= 14) return 6
  return digits <= 17 ? 3 : 0
}

function noChannel(sources: readonly EnvelopeSource[]): MessageFault {
  return {
    rule: 'no-channel',
    reason: `the message has no channel: none was found in ${sourcesText(sources)}`,
    hint: 'send it there, or add another source or a default such as const:plant to envelope.channel and replay the message',
  }
}

function notUtf8(source: EnvelopeSource): MessageFault {
  const rule = source.from === 'key' ? keyFault.rule : 'header'
  return { rule, reason: `${sourcesText([source])} is not UTF-8`, hint: 'send it as text, or omit it' }
}

function badCreated(source: EnvelopeSource): MessageFault {
  const hint =
    'send digits since 1970 in seconds, ms, µs or ns, or RFC 3339 such as 2026-11-26T10:00:00Z; or take envelope.created from elsewhere'
  return createdFault(sourcesText([source]), hint)
}
