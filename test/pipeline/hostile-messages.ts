// Whole messages as no well-meaning producer writes them: any bytes in key, value, headers and times, and what looks like our own.

import * as fc from 'fast-check'
import type { EnvelopeOptions } from '../../pipeline/envelope/options.ts'
import { avroType, framed, planFor } from './kafka/confluent/framed-messages.ts'
import { type BatchFields, bits, type RecordFields, type Text } from './kafka/records/record-batches.ts'

/** Also NUL, and halves of surrogate pairs. */
const unit = fc.oneof(
  fc.integer({ min: 0, max: 0xffff }).map(code => String.fromCharCode(code)),
  fc.constantFrom('\0', '.', 'a', '\ud800'),
)
const text = fc.string({ unit, maxLength: 12 })

/** On both sides of each bound, "not set" in several languages, and almost numbers. */
const time = fc.oneof(
  fc.constantFrom('0001-01-01T00:00:00Z', '9999-12-31T23:59:59Z', '2255-06-05T23:47:35Z', '2255-06-05T23:47:34.740991Z', '0', '-1'),
  fc.constantFrom('9223372036854775807', '-9223372036854775808', '9007199254740991999', '9007199254740992000', '1700000000'),
  fc.constantFrom('NaN', '-0', '0.5', '1e400', '1700000000000000000', '2023-11-14T22:13:20+24:00', '2023-11-14T22:13:20.999999999999Z'),
  fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map(String),
)

const large = fc.constantFrom<Text>('x'.repeat(3000), new Uint8Array(20_000).fill(0xff))
const bytes: fc.Arbitrary<Text> = fc.oneof(
  { weight: 4, arbitrary: fc.uint8Array({ maxLength: 40 }) },
  { weight: 3, arbitrary: text },
  { weight: 3, arbitrary: time },
  { weight: 2, arbitrary: fc.constantFrom(null, '') },
  { weight: 1, arbitrary: large },
)

const envelopeNames = ['subtopic', 'publisher', 'protocol', 'created', 'content-type', 'at', 'id']
const ourNames = [
  'sluice.rule',
  'sluice.settled',
  'sluice.settles',
  'sluice.shortened',
  'sluice.timestamp',
  'sluice.offset',
  '__connect.errors.topic',
]
const knownValues = fc.constantFrom('application/senml+json', 'application/json', 'application/senml+cbor', 'dropped', 'a.b')
const name = fc.oneof(fc.constantFrom(...envelopeNames), fc.constantFrom(...ourNames), text, fc.uint8Array({ maxLength: 9 }))
const header = fc.tuple(name, fc.oneof({ weight: 3, arbitrary: bytes }, { weight: 1, arbitrary: knownValues }))
/** With most of these a message has almost a thousand headers, or more. */
const fillers = fc.oneof({ weight: 15, arbitrary: fc.constant(0) }, { weight: 1, arbitrary: fc.integer({ min: 990, max: 1001 }) })

const leaf = fc.oneof(time, text, time.map(Number), fc.double(), fc.constantFrom(null, true, {}, []))
const document = fc.record({ at: leaf, id: leaf, kind: leaf }, { requiredKeys: [] }).map(fields => JSON.stringify(fields))
const pack = fc.record({ n: text, t: leaf, v: fc.double() }, { requiredKeys: [] }).map(fields => JSON.stringify([fields]))

const int64 = fc.oneof(
  fc.bigInt({ min: -(2n ** 63n), max: 2n ** 63n - 1n }),
  fc.constantFrom(
    2n ** 63n - 1n,
    -(2n ** 63n),
    0n,
    -1n,
    9_007_199_254_741n,
    -9_007_199_254_741n,
    1_700_000_000_000n,
    1_700_000_000_000_000_000n,
  ),
)

/** Of Avro records, whose parts can have any bytes: `created` in each unit. */
const schemas = [undefined, 'timestamp-millis', 'timestamp-micros'].map(logicalType => ({
  type: 'record',
  name: 'Reading',
  fields: [
    ...['channel', 'subtopic', 'publisher', 'protocol', 'content_type', 'payload'].map(field => ({ name: field, type: 'bytes' })),
    { name: 'created', type: logicalType === undefined ? 'long' : { type: 'long', logicalType } },
  ],
}))
export const hostilePlans = schemas.map(planFor)
const avro = avroType(schemas[0])
const field = fc.oneof(fc.uint8Array({ maxLength: 20 }), text).map(each => Buffer.from(each as string))
const payload = fc.oneof(field, document, pack).map(each => Buffer.from(each as string))
const avroRecord = fc
  .record({ channel: field, subtopic: field, publisher: field, protocol: field, content_type: field, created: int64, payload })
  .map(fields => framed(avro.toBuffer(fields)))

const value: fc.Arbitrary<Text> = fc.oneof(
  ...[bytes, document, pack, avroRecord, fc.constantFrom('[1]', '[1,"two"]', 'bug')].map(arbitrary => ({ weight: 6, arbitrary })),
  // Larger than a payload may be by default.
  { weight: 1, arbitrary: fc.constant(new Uint8Array(300_000)) },
)

/** A message, without most of its headers, so that a report of it stays short. */
export interface HostileMessage {
  readonly fields: RecordFields
  /** How many more headers it has, before the others. */
  readonly fillers: number
}

export const hostileMessage: fc.Arbitrary<HostileMessage> = fc.record({
  fields: fc.record({
    key: bytes,
    value,
    headers: fc.array(header, { maxLength: 6 }),
    timestampDelta: fc.oneof({ weight: 3, arbitrary: fc.constant(0n) }, { weight: 1, arbitrary: int64 }),
  }),
  fillers,
})

/** Messages of a well-meaning producer, in all parts but one or none. */
export const almostUsualMessage: fc.Arbitrary<HostileMessage> = fc
  .tuple(
    hostileMessage,
    fc.constantFrom('key', 'value', 'headers', 'none'),
    fc.constantFrom('[{"n":"t","v":1.5}]', '[{"n":"t","vs":"on"},{"n":"u","vb":true}]', '{"at":1790000001,"id":"d-1","speed":{"kph":88}}'),
  )
  .map(([{ fields }, part, value]) => {
    const usual = { key: 'plant', value, headers: [['at', '1790000001'] as const, ['id', 'd-1'] as const], timestampDelta: 0n }
    return { fields: part === 'none' ? usual : { ...usual, [part]: fields[part] }, fillers: 0 }
  })

export function recordOf({ fields, fillers }: HostileMessage): RecordFields {
  return { ...fields, headers: [...Array.from({ length: fillers }, () => ['x', 'y'] as const), ...fields.headers!] }
}

/** The times of a batch. */
export const hostileTimes: fc.Arbitrary<BatchFields> = fc.record({
  baseTimestamp: int64,
  maxTimestamp: int64,
  attributes: fc.constantFrom(0, bits.appendTime),
})

const places = ['key', 'topic', 'header:at', 'header:id', 'field:at', 'field:id', 'const:\0', 'const:2255-06-05T23:47:35Z']
const part = fc.option(fc.array(fc.constantFrom(...places), { minLength: 1, maxLength: 3 }), { nil: undefined })

/** Where the parts of their envelope are. */
export const hostileLayout = fc.record({
  channel: part,
  publisher: part,
  subtopic: part,
  contentType: part,
  created: part,
}) as fc.Arbitrary<EnvelopeOptions>
