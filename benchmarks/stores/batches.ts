// The rows that sinks and raw loops write: SenML messages as devices send them, in batches of a writer's default size.

import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../transformers/record-batch.ts'

const batchRows = 10_000
const channels = 100
const things = 1000
/** A thing sends about once a second, so a batch is ten seconds of all things. */
const spreadUs = 10_000_000

/** New strings, like those of a transformer. */
function fresh(text: string): string {
  return Buffer.from(text).toString('latin1')
}

/**
 * @param records in each message
 * @param nowUs time of the last record, microseconds since 1970
 */
export function batchesOf(rows: number, records: number, nowUs: number): RecordBatch[] {
  const batches: RecordBatch[] = []
  const messages = Math.ceil(rows / records)
  const batchMessages = Math.ceil(batchRows / records)
  for (let from = 0; from < messages; from += batchMessages) {
    const to = Math.min(messages, from + batchMessages)
    const batch = new RecordBatch()
    const endUs = nowUs - Math.floor((messages - to) / batchMessages) * spreadUs
    for (let offset = from; offset < to; offset++)
      append(batch, offset, records, endUs - Math.round(((to - offset) / batchMessages) * spreadUs))
    batch.cover(logPartition(0, 0), from, to)
    batches.push(batch)
  }
  return batches
}

function append(batch: RecordBatch, offset: number, records: number, timeUs: number): void {
  // Multiplied by a prime, so that channels and things are mixed; a thing stays in its channel.
  const thing = (offset * 7919) % things
  const [device, channel] = [thing, thing % channels].map(number => String(number).padStart(12, '0'))
  batch.beginMessage({
    at: logPartition(0, 0),
    offset,
    channel: fresh(`0a1b2c3d-4e5f-4a6b-8c7d-${channel}`),
    subtopic: fresh('floor.3.room'),
    publisher: fresh(`f0e1d2c3-b4a5-4968-8778-${device}`),
    protocol: 'http',
  })
  for (let index = 0; index < records; index++) {
    const name = fresh(`urn:dev:ow:10e2073a0108${thing}:${index === 0 ? 'temperature' : `current-${index}`}`)
    batch.appendRecord(index, name, 'Cel', timeUs + index, ValueKind.number, 20 + (offset % 97) / 10, undefined, Number.NaN, Number.NaN)
  }
  batch.endMessage()
}
