// Decodes a pack for a test, both ways it can be read, into rows that one can compare by eye.

import { expect } from 'vitest'
import { DecodeError } from '../../../transformers/decode-error.ts'
import type { Envelope } from '../../../transformers/envelope.ts'
import { RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import { senmlJson } from '../../../transformers/senml/json.ts'
import type { Transformer } from '../../../transformers/transformer.ts'

/** A row with only what it has. Time in microseconds, data as hexadecimal digits. */
export interface Row {
  index: number
  name: string
  unit?: string
  timeUs: number
  value?: number
  string?: string
  boolean?: boolean
  data?: string
  sum?: number
  updateTime?: number
}

/** 14 November 2023, 22:13:20. */
export const createdUs = 1_700_000_000_000_000

export const origin = { partition: 0, offset: 0, channel: 'channel', subtopic: 'room', publisher: 'thing', protocol: 'http' }

export const envelope: Envelope = {
  channel: 'channel',
  subtopic: 'room',
  publisher: 'thing',
  protocol: 'http',
  contentType: 'application/senml+json',
  createdUs,
  createdRestNs: 0,
}

export function rowsIn(batch: RecordBatch, firstRow = 0): Row[] {
  const { records } = batch
  const rows: Row[] = []
  for (let at = firstRow; at < records.length; at++) {
    const kind = records.valueKind[at]
    const content = records.content[at]
    const unit = records.unit[at]
    const number = records.number[at]!
    rows.push({
      index: records.index[at]!,
      name: records.name[at]!,
      ...(unit === undefined ? {} : { unit }),
      timeUs: records.timeUs[at]!,
      ...(kind === ValueKind.number ? { value: number } : {}),
      ...(kind === ValueKind.string ? { string: content as string } : {}),
      ...(kind === ValueKind.boolean ? { boolean: number === 1 } : {}),
      ...(kind === ValueKind.data ? { data: Buffer.from(content as Uint8Array).toString('hex') } : {}),
      ...(Number.isNaN(records.sum[at]) ? {} : { sum: records.sum[at]! }),
      ...(Number.isNaN(records.updateTime[at]) ? {} : { updateTime: records.updateTime[at]! }),
    })
  }
  return rows
}

/** What one message decodes to: its rows, or the DecodeError. Anything else that is thrown goes on. */
export function outcomeOf(
  payload: Uint8Array,
  transformer: Transformer = senmlJson,
  envelopeUsed: Envelope = envelope,
): Row[] | DecodeError {
  const batch = new RecordBatch()
  batch.beginMessage(origin)
  try {
    transformer.decode(payload, envelopeUsed, batch)
  } catch (error) {
    if (error instanceof DecodeError) return error
    throw error
  }
  batch.endMessage()
  return rowsIn(batch)
}

const byteOrderMark = Uint8Array.of(0xef, 0xbb, 0xbf)

/** Decodes as it is, by the short way where it is plain, and behind a byte-order mark, which takes the long way. Both must agree. */
function outcomeOfBoth(pack: string, transformer: Transformer | undefined): Row[] | DecodeError {
  const payload = new TextEncoder().encode(pack)
  const short = outcomeOf(payload, transformer)
  const long = outcomeOf(Buffer.concat([byteOrderMark, payload]), transformer)
  expect(short).toEqual(long)
  return short
}

/** The rows of a pack that is right. */
export function rowsOf(pack: string, transformer?: Transformer): Row[] {
  const outcome = outcomeOfBoth(pack, transformer)
  if (outcome instanceof DecodeError) throw outcome
  return outcome
}

/** The rule and the message of a pack that is refused. */
export function faultOf(pack: string, transformer?: Transformer): { rule: string; message: string; record: number | undefined } {
  const outcome = outcomeOfBoth(pack, transformer)
  if (!(outcome instanceof DecodeError)) throw new Error(`not refused: ${JSON.stringify(outcome)}`)
  expect(outcome.hint, 'every fault says what to do').not.toBe('')
  return { rule: outcome.rule, message: outcome.message, record: outcome.record }
}
