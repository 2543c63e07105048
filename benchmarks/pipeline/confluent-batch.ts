// What a message costs in frames of the encoding `confluent`, beside the same message with its envelope in headers, on its way in and out.
//
// Messages of one SenML record of about 80 bytes, 1,000 to a batch. Out: from the bytes of a fetch to envelope and payload, the look at every
// schema id included; and avsc, which the library decodes with, on the same records. In: to the bytes of a record batch.

import { createRequire } from 'node:module'
import { frame, frameBytes } from '../../pipeline/kafka/confluent/encode.ts'
import { envelopeSchema } from '../../pipeline/kafka/confluent/envelope-schema.ts'
import { withConfluentFraming } from '../../pipeline/kafka/confluent/framed-source.ts'
import { planOf, type RecordPlan } from '../../pipeline/kafka/confluent/record-plan.ts'
import { openSchemas } from '../../pipeline/kafka/confluent/schemas.ts'
import { encodeBatch } from '../../pipeline/kafka/produced-batch.ts'
import { type Fetched, runsOf } from '../../pipeline/kafka/record-set.ts'
import type { OutgoingMessage } from '../../pipeline/log.ts'
import type { RawRun, Source } from '../../pipeline/source.ts'
import { median } from '../median-time.ts'

const turns = 15
const turnMs = 40
const batches = 8
const messagesABatch = 1000
const schemaId = 7
const producer = { producerId: 1n, epoch: 0, sequence: 0 }
const fetched: Fetched = { topic: 'messages', partition: 0, from: 0, runBytesMax: 1 << 20, runMessagesMax: messagesABatch }

const require = createRequire(import.meta.url)
interface AvscType {
  readonly typeName: string
  fromBuffer(bytes: Buffer): { payload: Buffer; channel: string }
}
const avsc = createRequire(require.resolve('@kafkajs/confluent-schema-registry'))('avsc') as {
  Type: { forSchema(schema: unknown): AvscType }
}
/** avsc refuses longs beyond 2^53, so that it has the instant as eight bytes of a double, which costs it less. */
const avscType = avsc.Type.forSchema({
  ...envelopeSchema,
  fields: envelopeSchema.fields.map(field => (field.name === 'created' ? { name: 'created', type: 'double' } : field)),
})

function id(kind: string, ordinal: number): string {
  return `${kind}f0f0b5-2f0c-4a7f-a7a4-${String(ordinal).padStart(12, '0')}`
}

function messagesOf(ordinal: number, things: number): OutgoingMessage[] {
  return Array.from({ length: messagesABatch }, (_, at) => {
    const message = ordinal * messagesABatch + at
    const thing = (Math.imul(message + 1, 0x9e3779b1) >>> 0) % things
    const value = `[{"n":"urn:dev:mac:0024befffe${String(thing).padStart(6, '0')}:temperature","u":"Cel","v":${20 + (message % 97) / 10}}]`
    return {
      channel: id('0f', thing % Math.ceil(things / 10)),
      subtopic: 'room.temperature',
      publisher: id('b8', thing),
      protocol: 'http',
      contentType: 'application/senml+json',
      createdUs: 1_700_000_000_000_000 + message * 1237,
      createdRestNs: message % 1000,
      payload: Buffer.from(value),
    }
  })
}

let kept = 0
function walk(run: RawRun): void {
  const cursor = run.cursor()
  const { message } = cursor
  while (cursor.next()) {
    kept += message.channel.length + message.subtopic.length + message.publisher.length + message.protocol.length
    kept += message.contentType.length + message.createdUs + message.createdRestNs + message.payload.byteLength + message.offset
  }
}

function cpuUs(): number {
  const { user, system } = process.threadCpuUsage()
  return user + system
}

/** Nanoseconds of the processor a message, over one turn of all sets. */
async function messageNs<Given>(each: (given: Given) => void | Promise<void>, given: readonly Given[]): Promise<number> {
  const startUs = cpuUs()
  let calls = 0
  while (cpuUs() - startUs < turnMs * 1000) {
    for (const one of given) await each(one)
    calls += given.length
  }
  return ((cpuUs() - startUs) * 1000) / (calls * messagesABatch)
}

const schemas = openSchemas({ lookUp: async () => planOf(avsc.Type.forSchema(envelopeSchema), envelopeSchema) as RecordPlan })
const unasked = (): never => {
  throw new Error('nobody asks for it here')
}

async function walkFramed(set: Buffer): Promise<void> {
  const source: Source = {
    async *runs() {
      yield* runsOf(set, fetched)
    },
    bounds: unasked,
    ends: unasked,
    commit: unasked,
    close: unasked,
  }
  for await (const run of withConfluentFraming(source, schemas).runs(new AbortController().signal)) walk(run)
}

/** Measures and prints a line for each number of things. */
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
          for (const run of runsOf(set, fetched)) walk(run)
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

/** The record with eight bytes of any double in place of its nine of the instant. */
function asDouble(record: Buffer): Buffer {
  let at = 0
  for (let text = 0; text < 4; text++) at += 1 + (record[at]! >> 1)
  let end = at
  while (record[end++]! > 0x7f);
  return Buffer.concat([record.subarray(0, at), Buffer.alloc(8), record.subarray(end)])
}

if (import.meta.main) await bench()
