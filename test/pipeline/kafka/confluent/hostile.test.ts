// Any bytes give a message or a fault, and what is decoded equals what avsc decodes; the work is in proportion to the schema. SEED=<seed> repeats a run.

import { createRequire } from 'node:module'
import * as fc from 'fast-check'
import { pino } from 'pino'
import { describe, expect, test } from 'vitest'
import { envelopeSchema } from '../../../../pipeline/kafka/confluent/envelope-schema.ts'
import { planOf } from '../../../../pipeline/kafka/confluent/record-plan.ts'
import { openRegistry } from '../../../../pipeline/kafka/confluent/registry.ts'
import { countWork } from '../../../work-counter.ts'
import { serveAnswers } from './fake-registry.ts'
import { avroType, emptyTree, framed, messageOf, ourType, plainType, planFor } from './framed-messages.ts'

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

describe('records that take no bytes, nested by name, take work in proportion to the lines of the schema:', () => {
  // Those of avsc count as well, which parses the schema.
  const workDone = countWork(url => /\/pipeline\/kafka\/confluent\/|\/avsc\//.test(url))

  /** A walk over all of them takes 2^depth steps. */
  async function expectProportion(work: (depth: number) => unknown): Promise<void> {
    const workOf = async (depth: number): Promise<number> => {
      await workDone()
      await work(depth)
      return await workDone()
    }
    // Loads and fills what is kept.
    await workOf(2)
    const less = await workOf(8)
    const more = await workOf(16)
    expect(less, 'it is counted').toBeGreaterThan(100)
    expect(more).toBeLessThan(2.5 * less)
  }

  const payload = { name: 'payload', type: 'bytes' }
  const recordOf = (...fields: readonly object[]): object => ({ type: 'record', name: 'Reading', fields })
  const x = Buffer.from('x')

  test.each<[string, (tree: object) => unknown, readonly number[]]>([
    ['as a field', tree => tree, []],
    ['in a union', tree => ['null', tree], [2]],
    ['in an array', tree => ({ type: 'array', items: tree }), [20, 0]],
    ['in a map', tree => ({ type: 'map', values: tree }), [2, 2, 0x61, 0]],
    [
      'beside what takes bytes',
      tree => ({
        type: 'record',
        name: 'Site',
        fields: [
          { name: 'x', type: tree },
          { name: 'floor', type: 'int' },
        ],
      }),
      [2],
    ],
  ])('%s', (_name, typeOf, bytes) =>
    expectProportion(depth => {
      const schema = recordOf({ name: 'other', type: typeOf(emptyTree(depth)) }, payload)
      const message = messageOf(framed(Buffer.from([...bytes, 2, 0x78])), planFor(schema))
      expect(message).toMatchObject({ fault: undefined, payload: new Uint8Array(x) })
    }),
  )

  test('as the payload, which they cannot be', () =>
    expectProportion(depth => {
      const tree = emptyTree(depth)
      const schema = recordOf({ name: 'payload', type: tree })
      expect(planOf(plainType(schema))).toMatch(/field payload is a record/)
      const choice = recordOf({ name: 'payload', type: ['bytes', tree] })
      expect(messageOf(framed(Buffer.from([2])), planFor(choice)).fault?.rule).toBe('confluent-frame')
    }))

  test('with defaults', () =>
    expectProportion(async depth => {
      const nested = recordOf({ name: 'x', type: emptyTree(depth, { default: {} }), default: {} }, payload)
      const { url } = await serveAnswers({ '/schemas/ids/7': [200, { schema: JSON.stringify(nested) }] })
      const { lookUp } = openRegistry({ registry: url, registryTimeoutMs: 60_000, topic: 'messages' }, pino({ level: 'silent' }))
      expect(await lookUp(7, new AbortController().signal)).toEqual(planFor(recordOf(payload)))
    }))
})
