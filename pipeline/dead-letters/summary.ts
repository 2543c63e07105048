// A dead letter as tools and routes return it: the property names are those of the JSON.

import type { RawCursor } from '../source.ts'
import type { ParsedDeadLetter } from './parse.ts'
import type { DeadLetterState } from './state-index.ts'

/** A dead letter without its payload and headers. Its texts still come from the device: escape them before printing them on a terminal. */
export interface DeadLetterSummary {
  /** `<log>-<partition>-<offset>` of the message. */
  readonly id: string
  readonly state: DeadLetterState
  readonly topic: string
  readonly stage: string
  readonly rule: string
  readonly reason: string
  readonly record?: number
  readonly hint?: string
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  readonly content_type: string
  /** Nanoseconds since 1970, decimal; 0 if the message had no readable time. */
  readonly created: string
  readonly payload_bytes: number
  /** Size of a message that the topic of its letter refused, which then has no content. The message itself is in its log, until that deletes it. */
  readonly shortened_bytes?: number
  /** The store may have some, but not all, rows of the message: one of its letters says so. */
  readonly partial?: true
}

/** A dead letter with payload and headers. Bytes are base64. */
export interface FullDeadLetter extends DeadLetterSummary {
  readonly key: string | null
  /** As the sender set them; `base64` is true for a value that is not text. */
  readonly headers: readonly { readonly name: string; readonly value: string | null; readonly base64?: boolean }[]
  readonly payload: string
}

/** A letter and its position. */
export interface Found {
  readonly deadLetter: ParsedDeadLetter
  readonly cursor: RawCursor
  /** Partition of the dead-letter topic. */
  readonly partition: number
  readonly state: DeadLetterState
  /** Of any letter of the message: see `DeadLettered`. */
  readonly partial: boolean
}

export function idOf({ original: { log, partition, offset } }: ParsedDeadLetter): string {
  return `${log}-${partition}-${offset}`
}

export function summaryOf({ deadLetter, cursor, state, partial }: Found): DeadLetterSummary {
  const { topic, stage, rule, reason, record, hint, shortenedBytes } = deadLetter
  const { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload } = cursor.message
  return {
    id: idOf(deadLetter),
    state,
    topic,
    stage,
    rule,
    reason,
    ...(record === undefined ? {} : { record }),
    ...(hint === undefined ? {} : { hint }),
    channel,
    subtopic,
    publisher,
    protocol,
    content_type: contentType,
    created: String(BigInt(createdUs) * 1000n + BigInt(createdRestNs)),
    payload_bytes: payload.byteLength,
    ...(shortenedBytes === undefined ? {} : { shortened_bytes: shortenedBytes }),
    ...(partial ? { partial } : {}),
  }
}

export function fullDeadLetterOf(found: Found): FullDeadLetter {
  const { deadLetter, cursor } = found
  const key = cursor.key()
  return {
    ...summaryOf(found),
    key: key === null ? null : base64(key),
    headers: deadLetter.headers.map(({ key: name, value }) =>
      value instanceof Uint8Array ? { name, value: base64(value), base64: true } : { name, value },
    ),
    payload: base64(cursor.message.payload),
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}
