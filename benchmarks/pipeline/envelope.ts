// Decoding JSON documents whose envelope is not where Sluice writes it, from the records of a fetch to rows, compared with the same documents in
// Sluice's own layout.
//
// The layouts read the same channel, publisher, subtopic and time: from other headers, or from fields of the payload, which is parsed for them.

import { createRecordsBatch } from '@platformatic/kafka'
import { openLaidOutCursor } from '../../pipeline/envelope/cursor.ts'
import { layoutOf } from '../../pipeline/envelope/layout.ts'
import type { EnvelopeOptions } from '../../pipeline/envelope/options.ts'
import { envelopeHeaders } from '../../pipeline/envelope-headers.ts'
import { chunksOf } from '../../pipeline/kafka/records/record-set.ts'
import type { RawChunk } from '../../pipeline/source.ts'
import { openJsonDocuments } from '../../transformers/json/documents.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { messageNs, messagesABatch, messagesOf } from '../device-messages.ts'
import { median } from '../median-time.ts'

const turns = 15
const batches = 8
const things = 2000

interface Layout {
  readonly name: string
  readonly envelope: EnvelopeOptions
}

const layouts: readonly Layout[] = [
  { name: 'own', envelope: {} },
  {
    name: 'other headers',
    envelope: { channel: ['header:group'], publisher: ['header:device'], subtopic: ['header:type'], created: ['header:time'] },
  },
  { name: 'one field', envelope: { channel: ['field:device.group'], publisher: ['key'], subtopic: ['const:reading'] } },
  {
    name: 'four fields',
    envelope: {
      channel: ['field:device.group'],
      publisher: ['field:device.id'],
      subtopic: ['field:type'],
      created: ['field:time'],
    },
  },
]

/** Documents of about 230 bytes, with everything that a layout names in headers and in fields. */
function recordSet(ordinal: number): Buffer {
  const messages = messagesOf(ordinal, things).map((message, at) => {
    const { channel, publisher, createdUs } = message
    const time = String(Math.floor(createdUs / 1000))
    const document = {
      device: { id: publisher, group: channel, firmware: '2.1' },
      type: 'reading',
      time: Number(time),
      values: { temperature: 20 + (at % 97) / 10, humidity: 40 + (at % 50), open: at % 2 === 0 },
    }
    const headers = [
      ...envelopeHeaders({ ...message, subtopic: 'reading', contentType: 'application/json' }),
      { key: 'group', value: channel },
      { key: 'device', value: publisher },
      { key: 'type', value: 'reading' },
      { key: 'time', value: time },
    ]
    return {
      topic: 'messages',
      key: Buffer.from(channel),
      value: Buffer.from(JSON.stringify(document)),
      headers: new Map(headers.map(({ key, value }) => [Buffer.from(key), Buffer.from(value as string)])),
      timestamp: 1_700_000_000_000n + BigInt(ordinal * messagesABatch),
    }
  })
  return Buffer.from(createRecordsBatch(messages, { compression: 'none' }).buffer)
}

let kept = 0

/** Prints a line for each layout. */
export async function bench(): Promise<void> {
  const at = logPartition(0, 0)
  const fetched = { topic: 'messages', at, from: 0, chunkBytesMax: 1 << 20, chunkMessagesMax: messagesABatch }
  const chunks = Array.from({ length: batches }, (_, ordinal) => [...chunksOf(recordSet(ordinal), fetched)]).flat()
  const transformer = openJsonDocuments()
  const origin = { at, offset: 0, channel: '', subtopic: '', publisher: '', protocol: '' }
  let batch = new RecordBatch()
  const decodeBy = ({ envelope }: Layout) => {
    const layout = layoutOf(envelope)
    return (chunk: RawChunk): void => {
      const cursor =
        layout === undefined ? chunk.cursor() : openLaidOutCursor(chunk.cursor(), { layout, topic: 'messages', payloadBytesMax: 262_144 })
      const { message } = cursor
      if (batch.rowCount >= messagesABatch) batch = new RecordBatch()
      while (cursor.next()) {
        if (message.fault !== undefined) throw new Error(message.fault.reason)
        batch.beginMessage(origin)
        transformer.decode(message.payload, message, batch)
        batch.endMessage()
        kept += message.channel.length + message.publisher.length + message.createdUs
      }
    }
  }
  const measured = layouts.map(layout => ({ layout, decode: decodeBy(layout), figures: [] as number[] }))
  for (let turn = 0; turn < turns; turn++) {
    for (const { decode, figures } of measured) figures.push(await messageNs(decode, chunks))
  }
  console.log('medians in CPU ns a message        ns   ratio')
  const base = median(measured[0]!.figures)
  for (const { layout, figures } of measured) {
    const ns = median(figures)
    console.log(layout.name.padEnd(30), ns.toFixed(0).padStart(7), (ns / base).toFixed(2).padStart(7))
  }
  if (kept === 0) console.log('nothing was decoded')
}

if (import.meta.main) await bench()
