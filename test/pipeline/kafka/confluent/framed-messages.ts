// Framed messages for tests, encoded and decoded by avsc, which the library uses, and decoded by our cursor.

import { createRequire } from 'node:module'
import type { AvroType } from '../../../../pipeline/kafka/confluent/avro/shape.ts'
import { envelopeSchema } from '../../../../pipeline/kafka/confluent/envelope-schema.ts'
import { type Decoding, openFramedCursor } from '../../../../pipeline/kafka/confluent/framed-cursor.ts'
import { planOf, type RecordPlan } from '../../../../pipeline/kafka/confluent/record-plan.ts'
import { avroTypeOf } from '../../../../pipeline/kafka/confluent/schema-lookup.ts'
import type { RawChunk, RawMessage } from '../../../../pipeline/source.ts'
import { encodeBatch, fetch, type RecordFields } from '../records/record-batches.ts'

/** The part of an avsc type that the tests use. */
export interface Avsc extends AvroType {
  toBuffer(value: unknown): Buffer
  fromBuffer(bytes: Buffer): unknown
  random(): unknown
}

interface AvscModule {
  readonly Type: { forSchema(schema: unknown, options?: object): Avsc }
  readonly types: { readonly LongType: { __with(methods: object): unknown } }
}

const require = createRequire(import.meta.url)
const avsc = createRequire(require.resolve('@kafkajs/confluent-schema-registry'))('avsc') as AvscModule

/** Longs as bigints, because times in nanoseconds exceed 2^53. */
// oxlint-disable-next-line eslint/no-underscore-dangle -- the name is avsc's
const longs = avsc.types.LongType.__with({
  fromBuffer: (bytes: Buffer) => bytes.readBigInt64LE(),
  toBuffer(value: bigint) {
    const bytes = Buffer.alloc(8)
    bytes.writeBigInt64LE(value)
    return bytes
  },
  fromJSON: BigInt,
  toJSON: Number,
  isValid: (value: unknown) => typeof value === 'bigint',
  compare: (one: bigint, other: bigint) => (one === other ? 0 : one < other ? -1 : 1),
})

/** An option of avsc and of the library, which by themselves refuse longs beyond 2^53. */
export function typeHook(node: unknown): unknown {
  return node === 'long' || (node as { type?: unknown }).type === 'long' ? longs : undefined
}

/** Its longs are bigints. */
export function avroType(schema: unknown): Avsc {
  return avsc.Type.forSchema(schema, { typeHook })
}

/** As in the writer. */
export function plainType(schema: unknown): Avsc {
  return avroTypeOf([JSON.stringify(schema)]) as Avsc
}

/** A schema with this many lines and 2^depth records without fields. */
export function emptyTree(depth: number, field: object = {}, name = 'Empty'): object {
  const fields =
    depth === 0
      ? []
      : [
          { ...field, name: 'a', type: emptyTree(depth - 1, field, name) },
          { ...field, name: 'b', type: `${name}${depth - 1}` },
        ]
  return { type: 'record', name: `${name}${depth}`, fields }
}

export const ourType = avroType(envelopeSchema)
export const ourId = 7

/** @throws Error for a schema without a plan */
export function planFor(schema: unknown): RecordPlan {
  const plan = planOf(plainType(schema))
  if (typeof plan === 'string') throw new Error(plan)
  return plan
}

export const ourPlan = planFor(envelopeSchema)

export function framed(record: Uint8Array, id = ourId): Buffer {
  const head = Buffer.alloc(5)
  head.writeInt32BE(id, 1)
  return Buffer.concat([head, record])
}

/** A chunk of these records, decoded from their frames. */
export function framedChunk(
  records: readonly RecordFields[],
  decodings: ReadonlyMap<number, Decoding> = new Map([[ourId, ourPlan]]),
): RawChunk {
  const [chunk] = fetch(encodeBatch(records))
  return { ...chunk!, cursor: () => openFramedCursor(chunk!.cursor(), decodings) }
}

/** The messages of a chunk, copied from the cursor. */
export function messagesOf(chunk: RawChunk): RawMessage[] {
  const cursor = chunk.cursor()
  const messages: RawMessage[] = []
  while (cursor.next()) messages.push({ ...cursor.message, payload: new Uint8Array(cursor.message.payload) })
  return messages
}

/** The message of a single value. */
export function messageOf(value: Uint8Array | null, decoding: Decoding = ourPlan, fields: RecordFields = {}): RawMessage {
  return messagesOf(framedChunk([{ key: 'c1', ...fields, value }], new Map([[ourId, decoding]])))[0]!
}
