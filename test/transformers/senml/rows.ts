// Decodes a pack for a test, with both decoders, into rows that are easy to compare.

import { expect } from 'vitest'
import { DecodeError } from '../../../transformers/decode-error.ts'
import type { Envelope } from '../../../transformers/envelope.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import { openSenmlJson } from '../../../transformers/senml/json.ts'
import type { Transformer } from '../../../transformers/transformer.ts'

/** A row with only its present values. Time in microseconds, data as hexadecimal digits. */
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

export const origin = { at: logPartition(0, 0), offset: 0, channel: 'channel', subtopic: 'room', publisher: 'thing', protocol: 'http' }

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

/** SenML JSON with the default time bounds. */
export const senmlJson: Transformer = openSenmlJson()

/** The outcome of one message: its rows, or the DecodeError. Other errors are thrown. */
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

/** Decodes with the fast decoder if the pack is plain, and after a byte-order mark, which selects the slow one. Both must agree. */
function outcomeOfBoth(pack: string, transformer: Transformer | undefined): Row[] | DecodeError {
  const payload = new TextEncoder().encode(pack)
  const short = outcomeOf(payload, transformer)
  const long = outcomeOf(Buffer.concat([byteOrderMark, payload]), transformer)
  expect(short).toEqual(long)
  return short
}

/** The rows of a valid pack. */
export function rowsOf(pack: string, transformer?: Transformer): Row[] {
  const outcome = outcomeOfBoth(pack, transformer)
  if (outcome instanceof DecodeError) throw outcome
  return outcome
}

/** The rule and message of a refused pack. */
export function faultOf(pack: string, transformer?: Transformer): { rule: string; message: string; record: number | undefined } {
  const outcome = outcomeOfBoth(pack, transformer)
  if (!(outcome instanceof DecodeError)) throw new Error(`not refused: ${JSON.stringify(outcome)}`)
  expect(outcome.hint, 'every fault says what to do').not.toBe('')
  return { rule: outcome.rule, message: outcome.message, record: outcome.record }
}
