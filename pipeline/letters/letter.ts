// What a dead letter looks like to a reader: its names are those of the JSON that tools and routes answer with.

import type { RawCursor } from '../source.ts'
import type { LetterEntry } from './entry.ts'
import type { LetterState } from './index-of-letters.ts'

/** A dead letter without what its device sent. Its texts are the device's all the same: escape them before a terminal sees them. */
export interface Letter {
  /** `<log>-<partition>-<offset>` of the message in its log. */
  readonly id: string
  readonly state: LetterState
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
  /** Nanoseconds since 1970, decimal; 0 where the message had none that could be read. */
  readonly created: string
  readonly payload_bytes: number
  /** Where the message was too large for its letter, which holds nothing of it: its bytes. Its log has it, while it keeps it. */
  readonly shortened_bytes?: number
}

/** A dead letter with everything. Bytes are base64. */
export interface FullLetter extends Letter {
  readonly key: string | null
  /** As the sender gave them; `base64` is true of a value that is no text. */
  readonly headers: readonly { readonly name: string; readonly value: string | null; readonly base64?: boolean }[]
  readonly payload: string
}

/** A letter where it lies. */
export interface Found {
  readonly entry: LetterEntry
  readonly cursor: RawCursor
  /** Of the topic of dead letters. */
  readonly partition: number
  readonly state: LetterState
}

export function idOf({ original: { log, partition, offset } }: LetterEntry): string {
  return `${log}-${partition}-${offset}`
}

export function letterOf({ entry, cursor, state }: Found): Letter {
  const { topic, stage, rule, reason, record, hint, shortenedBytes } = entry
  const { channel, subtopic, publisher, protocol, contentType, createdUs, createdRestNs, payload } = cursor.message
  return {
    id: idOf(entry),
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
  }
}

export function fullLetterOf(found: Found): FullLetter {
  const { entry, cursor } = found
  const key = cursor.key()
  return {
    ...letterOf(found),
    key: key === null ? null : base64(key),
    headers: entry.headers.map(({ key: name, value }) =>
      value instanceof Uint8Array ? { name, value: base64(value), base64: true } : { name, value },
    ),
    payload: base64(cursor.message.payload),
  }
}

function base64(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('base64')
}
