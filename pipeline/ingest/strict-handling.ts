// `Prefer: handling=strict` on a publish (RFC 7240 §4.4): the payload is decoded before the message is appended. That of a bounded owner always is.

import { HttpError } from '../../http/errors.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { openTransformer } from '../../transformers/select.ts'
import { defaultTimeBounds } from '../../transformers/transformer.ts'
import type { OutgoingMessage } from '../log.ts'
import { emptyMessage, type RawMessage } from '../source.ts'
import type { Decoder, DecoderOptions } from '../writer/decode.ts'

const token = "[!#$%&'*+.^_`|~\\w-]+"
const word = `(?:${token}|"(?:[^"\\\\]|\\\\.)*")`
const blanks = '[ \\t]*'
/** `= value`. Trailing blanks belong to the value: next to the leading ones, an absent value would match ambiguously. */
const value = (form: string): string => `(?:=${blanks}(?:${form}${blanks})?)?`
/** One preference and its parameters, up to the next comma (RFC 7240 §2). No two adjacent parts match the same character, so there is no backtracking. */
const preference = new RegExp(
  `[ \\t,]*(${token})${blanks}${value(`(${word})`)}(?:;${blanks}(?:${token}${blanks}${value(word)})?)*(?:,|$)`,
  'y',
)

/**
 * True if a Prefer header asks for strict handling. The first `handling` counts; text after a syntax error is ignored.
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

/** A writer's default options, for a process without a writer (`./sluice ingest`). */
export function defaultDecoding(payloadBytes: number): DecoderOptions {
  const { timeMinUs, timeAheadMaxUs } = defaultTimeBounds
  const message = { payloadBytes, earliestSeconds: timeMinUs / 1e6, aheadDays: timeAheadMaxUs / 86_400e6 }
  return {
    transformer: openTransformer({ format: 'auto' }, defaultTimeBounds, { payloadBytesMax: payloadBytes }),
    subscribed: () => true,
    message,
  }
}

/** What a message becomes in the store. */
export interface Decoded {
  readonly payloadBytes: number
  readonly rows: number
  /** The format of its JSON documents; undefined for SenML, and if there are no rows. */
  readonly format: string | undefined
}

/** Of the batch for one message, which grows. */
const initialRows = 16

/** @throws HttpError `undecodable` for a message that would become a dead letter, with its rule, record and hint */
export function checkDecodable(decoder: Decoder, message: OutgoingMessage): Decoded {
  const raw: RawMessage = { ...emptyMessage(), offset: 0, ...message }
  const batch = new RecordBatch(initialRows)
  const rejection = decoder.decode(raw, logPartition(0, 0), batch)
  if (rejection === undefined) {
    const { documents, rowCount } = batch
    return { payloadBytes: message.payload.length, rows: rowCount, format: documents.length > 0 ? documents.format[0] : undefined }
  }
  const { rule, record, reason, hint } = rejection
  const detail = `${reason} (rule ${rule})${hint === '' ? '' : `: ${hint}`}`
  const pointer = record === undefined ? '/body' : `/body/${record}`
  throw new HttpError('undecodable', detail, { faults: [{ pointer, detail }] })
}
