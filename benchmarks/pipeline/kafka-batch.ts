// Decoding a message from the bytes of a fetch to envelope and payload, compared with the decoders of the clients on the same bytes.
//
// Messages of one SenML record of about 80 bytes with the five headers of the envelope, 1,000 to a batch; each turn decodes several batches
// of other devices, which are in separate memory. Ours checks the CRC and creates the texts of the envelope; the clients do neither:
// they create an object for each record and leave keys and headers as bytes.

import { createRequire } from 'node:module'
import { createRecordsBatch, Reader, readRecordsBatches, crc32c as theirCrc32c } from '@platformatic/kafka'
import { envelopeHeaders } from '../../pipeline/envelope-headers.ts'
import { crc32c } from '../../pipeline/kafka/records/crc32c.ts'
import { chunksOf, type Fetched } from '../../pipeline/kafka/records/record-set.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { messageNs, messagesABatch, messagesOf, walk } from '../device-messages.ts'
import { median } from '../median-time.ts'

const turns = 15
const batches = 8

const require = createRequire(import.meta.url)
const KafkajsDecoder = require('kafkajs/src/protocol/decoder') as new (bytes: Buffer) => unknown
const decodeMessages = require('kafkajs/src/protocol/requests/fetch/v4/decodeMessages') as (decoder: unknown) => Promise<unknown[]>

const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const
const fetched: Fetched = { topic: 'messages', at: logPartition(0, 0), from: 0, chunkBytesMax: 1 << 20, chunkMessagesMax: messagesABatch }

function recordSet(ordinal: number, things: number, compression: (typeof codecs)[number]): Buffer {
  const messages = messagesOf(ordinal, things).map(message => ({
    topic: 'messages',
    key: Buffer.from(message.channel),
    value: Buffer.from(message.payload),
    headers: new Map(envelopeHeaders(message).map(({ key, value }) => [Buffer.from(key), Buffer.from(value as string)])),
    timestamp: 1_700_000_000_000n + BigInt(ordinal * messagesABatch),
  }))
  return Buffer.from(createRecordsBatch(messages, { compression }).buffer)
}

let kept = 0

/** Prints a line for each kind of batch. */
export async function bench(): Promise<void> {
  const cases: [codec: (typeof codecs)[number], things: number][] = [
    ['none', 100],
    ['none', 2000],
    ['none', 100_000],
    ...codecs.slice(1).map((codec): [typeof codec, number] => [codec, 2000]),
  ]
  console.log('medians in CPU ns a message'.padEnd(44), '    all   walk again   its crc   their crc   kafkajs   platformatic')
  for (const [codec, things] of cases) {
    const sets = Array.from({ length: batches }, (_, ordinal) => recordSet(ordinal, things, codec))
    // kafkajs also reads the length of the set.
    const prefixed = sets.map(set => {
      const length = Buffer.alloc(4)
      length.writeInt32BE(set.length)
      return Buffer.concat([length, set])
    })
    const whole = (set: Buffer): void => {
      for (const chunk of chunksOf(set, fetched)) kept += walk(chunk)
    }
    const chunks = new Map(sets.map(set => [set, [...chunksOf(set, fetched)]]))
    const again = (set: Buffer): void => {
      for (const chunk of chunks.get(set)!) kept += walk(chunk)
    }
    const measured: [(set: Buffer) => unknown, readonly Buffer[]][] = [
      [whole, sets],
      [again, sets],
      [set => crc32c(set), sets],
      [set => theirCrc32c(set), sets],
      [set => decodeMessages(new KafkajsDecoder(set)), codec === 'none' || codec === 'gzip' ? prefixed : []],
      [set => readRecordsBatches(Reader.from(set)), sets],
    ]
    const figures: number[][] = measured.map(() => [])
    for (let turn = 0; turn < turns; turn++) {
      for (const [at, [each, given]] of measured.entries()) if (given.length > 0) figures[at]!.push(await messageNs(each, given))
    }
    const printed = figures.map((each, at) => (each.length === 0 ? '-' : median(each).toFixed(0)).padStart([7, 13, 10, 12, 10, 15][at]!))
    console.log(
      `${codec}, ${things.toLocaleString('en')} things, ${Math.round(sets[0]!.length / messagesABatch)} bytes`.padEnd(44),
      printed.join(''),
    )
  }
  if (kept === 0) throw new Error('nothing was read')
}

if (import.meta.main) await bench()
