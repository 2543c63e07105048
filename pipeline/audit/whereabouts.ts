// Tells where in a store to look for the rows of a decoded message, so that not all rows have to be read.

import type { Whereabouts } from '../../sinks/audit.ts'
import { type RecordBatch, senmlFormat } from '../../transformers/record-batch.ts'

/** For one message of a batch; undefined if it has no rows. */
export function whereabouts({ messages, records, documents }: RecordBatch, message: number): Whereabouts | undefined {
  let format: string | undefined
  let earliestUs = Number.POSITIVE_INFINITY
  let latestUs = Number.NEGATIVE_INFINITY
  function add(timeUs: number): void {
    earliestUs = Math.min(earliestUs, timeUs)
    latestUs = Math.max(latestUs, timeUs)
  }
  for (let at = 0; at < records.length; at++) {
    if (records.message[at] !== message) continue
    format = senmlFormat
    add(records.timeUs[at]!)
  }
  for (let at = 0; at < documents.length; at++) {
    if (documents.message[at] !== message) continue
    format = documents.format[at]!
    add(documents.createdUs[at]!)
  }
  return format === undefined ? undefined : { channel: messages.channel[message]!, format, earliestUs, latestUs }
}
