// Decoding and encoding messages framed with the encoding `confluent`, compared with the same messages with their envelope in headers.
//
// Messages of one SenML record of about 80 bytes, 1,000 to a batch. Decoding: from the bytes of a fetch to envelope and payload, including the lookup
// of each schema id; and avsc, which the library uses, on the same records. Encoding: to the bytes of a record batch.

import { createRequire } from 'node:module'
import { frame, frameBytes } from '../../pipeline/kafka/confluent/encode.ts'
import { envelopeSchema } from '../../pipeline/kafka/confluent/envelope-schema.ts'
import { withConfluentFraming } from '../../pipeline/kafka/confluent/framed-source.ts'
import { planOf, type RecordPlan } from '../../pipeline/kafka/confluent/record-plan.ts'
import { avroTypeOf } from '../../pipeline/kafka/confluent/schema-lookup.ts'
import { openSchemas } from '../../pipeline/kafka/confluent/schemas.ts'
import { encodeBatch } from '../../pipeline/kafka/producer/batch.ts'
import { chunksOf, type Fetched } from '../../pipeline/kafka/records/record-set.ts'
import type { Source } from '../../pipeline/source.ts'
import { logPartition } from '../../transformers/log-partition.ts'
import { messageNs, messagesABatch, messagesOf, walk } from '../device-messages.ts'
import { median } from '../median-time.ts'

const turns = 15
const batches = 8
const schemaId = 7
const producer = { producerId: 1n, epoch: 0, sequence: 0 }
const fetched: Fetched = { topic: 'messages', at: logPartition(0, 0), from: 0, chunkBytesMax: 1 << 20, chunkMessagesMax: messagesABatch }

const require = createRequire(import.meta.url)
interface AvscType {
  readonly typeName: string
  fromBuffer(bytes: Buffer): { payload: Buffer; channel: string }
}
const avsc = createRequire(require.resolve('@kafkajs/confluent-schema-registry'))('avsc') as {
  Type: { forSchema(schema: unknown): AvscType }
}
/** avsc rejects longs beyond 2^53, so it gets the time as a double of eight bytes, which is cheaper for it. */
const avscType = avsc.Type.forSchema({
  ...envelopeSchema,
  fields: envelopeSchema.fields.map(field => (field.name === 'created' ? { name: 'created', type: 'double' } : field)),
})

let kept = 0

const schemas = openSchemas({ lookUp: async () => planOf(avroTypeOf([JSON.stringify(envelopeSchema)])) as RecordPlan })
const unasked = (): never => {
  throw new Error('unexpected call')
}

async function walkFramed(set: Buffer): Promise<void> {
  const source: Source = {
    async *chunks() {
      yield* chunksOf(set, fetched)
    },
    ends: unasked,
    commit: unasked,
    close: unasked,
  }
  for await (const chunk of withConfluentFraming(source, schemas).chunks(new AbortController().signal)) kept += walk(chunk)
}

/** Prints a line for each number of things. */
export async function bench(): Promise<void> {
  console.log(
    'medians in CPU ns a message'.padEnd(24),
    '   out: headers    framed   avsc alone   in: headers    framed   bytes: headers    framed',
  )
  for (const things of [100, 2000, 100_000]) {
    const messages = Array.from({ length: batches }, (_, ordinal) => messagesOf(ordinal, things))
    const framed = messages.map(batch => batch.map(message => frame(message, schemaId)))
    const rawSets = messages.map(batch => encodeBatch(batch, producer, 1_700_000_000_000))
    const framedSets = framed.map(batch => encodeBatch(batch, producer, 1_700_000_000_000))
    const records = framed.map(batch => batch.map(({ payload }) => asDouble(Buffer.from(payload).subarray(frameBytes))))
    const figures: number[][] = Array.from({ length: 5 }, () => [])
    for (let turn = 0; turn < turns; turn++) {
      figures[0]!.push(
        await messageNs(set => {
          for (const chunk of chunksOf(set, fetched)) kept += walk(chunk)
        }, rawSets),
      )
      figures[1]!.push(await messageNs(walkFramed, framedSets))
      figures[2]!.push(
        await messageNs(batch => {
          for (const record of batch) kept += avscType.fromBuffer(record).payload.length
        }, records),
      )
      figures[3]!.push(await messageNs(batch => void (kept += encodeBatch(batch, producer, 0).length), messages))
      figures[4]!.push(
        await messageNs(
          batch =>
            void (kept += encodeBatch(
              batch.map(message => frame(message, schemaId)),
              producer,
              0,
            ).length),
          messages,
        ),
      )
    }
    const printed = figures.map((each, at) => median(each).toFixed(0).padStart([15, 10, 13, 14, 10][at]!))
    const bytes = [rawSets, framedSets].map((sets, at) => (sets[0]!.length / messagesABatch).toFixed(0).padStart([17, 10][at]!))
    console.log(`${things.toLocaleString('en')} things`.padEnd(24), [...printed, ...bytes].join(''))
  }
  if (kept === 0) throw new Error('nothing was read')
}

/** The record with eight bytes of a double in place of the nine bytes of the time. */
function asDouble(record: Buffer): Buffer {
  let at = 0
  for (let text = 0; text < 4; text++) at += 1 + (record[at]! >> 1)
  let end = at
  while (record[end++]! > 0x7f);
  return Buffer.concat([record.subarray(0, at), Buffer.alloc(8), record.subarray(end)])
}

if (import.meta.main) await bench()
