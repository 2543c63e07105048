// Any bytes give a message or a fault, with work in proportion to their size, and what is decoded equals what avsc decodes. SEED=<seed> repeats a run.

import { createRequire } from 'node:module'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { envelopeSchema } from '../../../../pipeline/kafka/confluent/envelope-schema.ts'
import { avroType, framed, messageOf, ourType, planFor } from './framed-messages.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const numRuns = 4000

const others = {
  ...envelopeSchema,
  fields: [
    { name: 'labels', type: { type: 'map', values: ['null', 'string'] } },
    ...envelopeSchema.fields,
    {
      name: 'kids',
      type: {
        type: 'array',
        items: {
          type: 'record',
          name: 'Kid',
          fields: [
            { name: 'kids', type: ['null', 'Kid'] },
            { name: 'n', type: 'double' },
          ],
        },
      },
    },
  ],
}
/** avsc's reader, which it does not export. */
interface Tap {
  isValid: () => boolean
  readLong: (this: Tap) => number
}
const { Tap } = createRequire(import.meta.url)('avsc/lib/utils') as { Tap: { prototype: Tap } }

const kinds = [
  { type: ourType, plan: planFor(envelopeSchema), extra: {} },
  { type: avroType(others), plan: planFor(others), extra: { labels: { a: null, b: 'c' }, kids: [{ kids: { kids: null, n: 1 }, n: 2 }] } },
]
// avsc reads as many items as a block declares, even beyond the end of its bytes: 2^31 of them exceed the memory. Each item of these schemas
// begins with a long.
const { readLong } = Tap.prototype
Tap.prototype.readLong = function (this: Tap) {
  if (!this.isValid()) throw new RangeError('the bytes have ended')
  return readLong.call(this)
}

const sound = kinds.map(({ type, plan, extra }) => {
  const texts = { channel: 'c1', subtopic: 'room.temperature', publisher: 't1', protocol: 'mqtt', content_type: 'a/b' }
  return { type, plan, bytes: type.toBuffer({ ...extra, ...texts, created: 1_700_000_000_123_456_789n, payload: Buffer.from('[1,2,3]') }) }
})

const change = fc.record({
  at: fc.nat(),
  remove: fc.nat(3),
  insert: fc.oneof(
    fc.uint8Array({ maxLength: 3 }),
    fc.constantFrom(
      ...[
        [0x01],
        [0x03],
        [0x80],
        [0xff, 0xff, 0xff, 0xff, 0x0f],
        [0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
        [0xff, 0xff],
      ].map(each => Uint8Array.from(each)),
    ),
  ),
})

const given = fc
  .tuple(fc.constantFrom(...sound), fc.array(change, { maxLength: 3 }), fc.boolean())
  .map(([{ type, plan, bytes }, changes, random]) => {
    let record = random && changes.length === 0 ? Buffer.alloc(0) : bytes
    for (const { at, remove, insert } of changes) {
      const place = at % (record.length + 1)
      record = Buffer.concat([record.subarray(0, place), insert, record.subarray(place + remove)])
    }
    return { type, plan, record }
  })

function decodedByAvsc(type: (typeof kinds)[number]['type'], record: Buffer): Record<string, unknown> | undefined {
  try {
    return type.fromBuffer(record) as Record<string, unknown>
  } catch {
    return undefined
  }
}

describe(`for any bytes (seed ${seed})`, () => {
  test('we decode what avsc decodes', () => {
    let read = 0
    let refused = 0
    fc.assert(
      fc.property(given, ({ type, plan, record }) => {
        const message = messageOf(framed(record), plan)
        if (message.fault !== undefined) {
          refused++
          expect(message.fault.rule).toBe('confluent-frame')
          return
        }
        // Not earlier: for a block that declares 2^62 items avsc loops as often.
        const expected = decodedByAvsc(type, record)
        // A block of items that declares its size is skipped without checking its content.
        if (expected === undefined) {
          expect(plan).toBe(sound[1]!.plan)
          return
        }
        read++
        expect(message).toMatchObject({
          channel: expected['channel'] === '' ? 'c1' : expected['channel'],
          subtopic: expected['subtopic'],
          publisher: expected['publisher'],
          payload: new Uint8Array(expected['payload'] as Buffer),
        })
        expect(BigInt(message.createdUs) * 1000n + BigInt(message.createdRestNs)).toBe(expected['created'])
      }),
      { seed, numRuns },
    )
    expect(read).toBeGreaterThan(100)
    expect(refused).toBeGreaterThan(100)
  })

  test('any value gives a message or a fault', () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 200 }), fc.constantFrom(...kinds), fc.boolean(), (bytes, { plan }, withFrame) => {
        const message = messageOf(withFrame ? framed(bytes) : bytes[0] === 0 ? Buffer.concat([Buffer.from([1]), bytes]) : bytes, plan)
        expect(Number.isSafeInteger(message.createdUs)).toBe(true)
        if (message.fault !== undefined) expect(message.payload).toHaveLength(0)
      }),
      { seed, numRuns },
    )
  })
})
