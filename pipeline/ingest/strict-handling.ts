// `Prefer: handling=strict` on a publish (RFC 7240 §4.4): the payload is decoded before the message is appended.

import { HttpError } from '../../config/http/errors.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { openAutoTransformer } from '../../transformers/select.ts'
import { defaultTimeBounds } from '../../transformers/time-bounds.ts'
import { type Decoder, openDecoder } from '../decode.ts'
import type { OutgoingMessage } from '../log.ts'
import { emptyMessage, type RawMessage } from '../source.ts'

const token = "[!#$%&'*+.^_`|~\\w-]+"
const word = `(?:${token}|"(?:[^"\\\\]|\\\\.)*")`
const blanks = '[ \\t]*'
/** `= value`. The blanks behind it belong to the value: next to those before it, an absent value could be read in many ways. */
const value = (form: string): string => `(?:=${blanks}(?:${form}${blanks})?)?`
/** One preference and its parameters, up to the comma behind it (RFC 7240 §2). No two neighbours take the same character, so that it is read once. */
const preference = new RegExp(
  `[ \\t,]*(${token})${blanks}${value(`(${word})`)}(?:;${blanks}(?:${token}${blanks}${value(word)})?)*(?:,|$)`,
  'y',
)

/**
 * True where a Prefer header asks for strict handling. The first `handling` counts; what follows a syntax error is not read.
 *
 * @param header the values of repeated headers, joined by commas
 */
export function isStrict(header: string): boolean {
  preference.lastIndex = 0
  for (;;) {
    const match = preference.exec(header)
    if (match === null) return false
    const [, name, value = ''] = match
    if (name!.toLowerCase() === 'handling') return value.replaceAll(/["\\]/g, '').toLowerCase() === 'strict'
  }
}

/** A decoder with a writer's default options, for where no writer is at hand (`sluice ingest`). */
export function openDefaultDecoder(payloadBytes: number): Decoder {
  const { timeMinUs, timeAheadMaxUs } = defaultTimeBounds
  const message = { payloadBytes, earliestSeconds: timeMinUs / 1e6, aheadDays: timeAheadMaxUs / 86_400e6 }
  return openDecoder({
    transformer: openAutoTransformer(defaultTimeBounds, { payloadBytesMax: payloadBytes }),
    subscribed: () => true,
    message,
  })
}

/** @throws HttpError `undecodable` for what would be a dead letter, with its rule, record and hint */
export function checkDecodable(decoder: Decoder, message: OutgoingMessage): void {
  const raw: RawMessage = { ...emptyMessage(), offset: 0, ...message }
  const rejection = decoder.decode(raw, 0, new RecordBatch())
  if (rejection === undefined) return
  const { rule, record, reason, hint } = rejection
  const detail = `${reason} (rule ${rule})${hint === '' ? '' : `: ${hint}`}`
  const pointer = record === undefined ? '/body' : `/body/${record}`
  throw new HttpError('undecodable', detail, { faults: [{ pointer, detail }] })
}
