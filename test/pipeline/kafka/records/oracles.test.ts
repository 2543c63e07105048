// We and the clients' decoders agree on what any of three encoders writes. Names contain the seed of a run; SEED=<seed> repeats it.

import { createRecordsBatch, Reader, readRecordsBatches } from '@platformatic/kafka'
import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { decodeByKafkajs, encodeByKafkajs, type KafkajsMessage } from './kafkajs-codec.ts'
import { encodeBatch, fetch, type RecordFields } from './record-batches.ts'

const seed = Number(process.env['SEED'] ?? Date.now() % 2 ** 31)
const numRuns = 120
const codecs = ['none', 'gzip', 'snappy', 'lz4', 'zstd'] as const

interface Plain {
  readonly offset: number
  readonly key: string | null
  readonly value: string | null
  readonly headers: readonly (readonly [string, string | null])[]
}

const hex = (bytes: Uint8Array | null | undefined): string | null =>
  bytes === null || bytes === undefined ? null : Buffer.from(bytes).toString('hex')

/** Our decoding, in chunks of a few messages so that batches are divided too; key and headers as for dead letters. */
function readByUs(set: Uint8Array, from: number): Plain[] {
  return fetch(set, { from, chunkMessagesMax: 3 }).flatMap(chunk => {
    const cursor = chunk.cursor()
    const messages: Plain[] = []
    while (cursor.next()) {
      const { offset, fault, payload } = cursor.message
      const headers = cursor
        .headers()
        .map(({ key, value }) => [key, typeof value === 'string' ? hex(Buffer.from(value)) : hex(value)] as const)
      const value = fault?.rule === 'no-value' || (fault?.rule === 'no-key' && payload.length === 0) ? null : hex(payload)
      messages.push({ offset, key: hex(cursor.key()), value, headers })
    }
    return messages
  })
}

const name = fc.oneof(
  fc.constantFrom('subtopic', 'publisher', 'protocol', 'created', 'content-type', 'x'),
  fc.string({ maxLength: 80, unit: 'grapheme' }),
)
const bytes = fc.oneof(
  { arbitrary: fc.uint8Array({ maxLength: 200 }), weight: 20 },
  { arbitrary: fc.string({ maxLength: 80 }).map(text => Buffer.from(text)), weight: 20 },
  { arbitrary: fc.nat(2 ** 15).map(length => Buffer.alloc(length, length)), weight: 1 },
)
const full = fc.uint8Array({ minLength: 1, maxLength: 300 })
/** kafkajs stores headers in an object, where integer names change their order, and names of a prototype their meaning. */
const safeName = name.filter(text => text !== '' && !/^\d+$/.test(text) && !(text in {}))

const kafkajsMessage: fc.Arbitrary<KafkajsMessage> = fc.record({
  key: fc.option(full.map(key => Buffer.from(key))),
  value: full.map(value => Buffer.from(value)),
  headers: fc
    .uniqueArray(fc.tuple(safeName, bytes), { selector: ([text]) => text, maxLength: 6 })
    .map(headers => Object.fromEntries(headers.map(([text, value]) => [text, Buffer.from(value)]))),
  timestampDelta: fc.integer({ min: -(2 ** 40), max: 2 ** 40 }),
})

const record = fc.record({
  key: fc.option(full),
  value: full,
  headers: fc.array(fc.tuple(name, fc.option(bytes)), { maxLength: 6 }),
  timestampDelta: fc.integer(),
})

function plainOf(messages: readonly KafkajsMessage[], from: number): Plain[] {
  return messages.map(({ key, value, headers }, at) => ({
    offset: from + at,
    key: hex(key),
    value: hex(value),
    headers: Object.entries(headers).map(([text, value]) => [text, hex(value as Buffer)]),
  }))
}

describe(`we decode what others encode (seed ${seed})`, () => {
  test.each(codecs)('kafkajs, %s', async codec => {
    await fc.assert(
      fc.asyncProperty(
        fc.array(kafkajsMessage, { minLength: 1, maxLength: 12 }),
        fc.nat(2 ** 40),
        fc.boolean(),
        async (messages, from, transactional) => {
          const set = await encodeByKafkajs(messages, from, codecs.indexOf(codec), transactional)
          expect(readByUs(set, from)).toEqual(plainOf(messages, from))
        },
      ),
      { seed, numRuns: codec === 'none' ? numRuns : 25 },
    )
  })

  test.each(codecs)('@platformatic/kafka, %s', codec => {
    fc.assert(
      fc.property(fc.array(kafkajsMessage, { minLength: 1, maxLength: 12 }), messages => {
        const given = messages.map(({ key, value, headers, timestampDelta }) => ({
          topic: 'messages',
          ...(key === null ? {} : { key }),
          value: value!,
          headers: new Map(Object.entries(headers).map(([text, value]) => [Buffer.from(text), value as Buffer])),
          timestamp: BigInt(1_700_000_000_000 + timestampDelta),
        }))
        const set = createRecordsBatch(given, { compression: codec }).buffer
        expect(readByUs(set, 0)).toEqual(plainOf(messages, 0))
      }),
      { seed, numRuns: codec === 'none' ? numRuns : 25 },
    )
  })
})

describe(`others decode what we encode (seed ${seed})`, () => {
  const batches = fc.array(fc.array(record, { minLength: 1, maxLength: 6 }), { minLength: 1, maxLength: 4 })

  function setOf(all: readonly (readonly RecordFields[])[]): Buffer {
    let baseOffset = 0
    return Buffer.concat(
      all.map(records => {
        const batch = encodeBatch(records, { baseOffset })
        baseOffset += records.length
        return batch
      }),
    )
  }

  test('kafkajs: offsets, keys, values and timestamps, and repeated headers', async () => {
    await fc.assert(
      fc.asyncProperty(batches, async all => {
        const set = setOf(all)
        const theirs = await decodeByKafkajs(set)
        const ours = readByUs(set, 0)
        expect(ours.map(({ offset, key, value }) => [offset, key, value])).toEqual(
          theirs.map(({ offset, key, value }) => [Number(offset), hex(key), hex(value)]),
        )
        const created = fetch(set).flatMap(chunk => {
          const cursor = chunk.cursor()
          const times: (number | undefined)[] = []
          while (cursor.next()) times.push(cursor.headers().some(({ key }) => key === 'created') ? undefined : cursor.message.createdUs)
          return times
        })
        for (const [at, { timestamp }] of theirs.entries())
          if (created[at] !== undefined) expect(created[at]).toBe(Number(timestamp) * 1000)
      }),
      { seed, numRuns },
    )
  })

  test('@platformatic/kafka: the same, and every header in its place', () => {
    fc.assert(
      fc.property(batches, all => {
        const set = setOf(all)
        const theirs = readRecordsBatches(Reader.from(set)).flatMap(batch =>
          batch.records.map(({ offsetDelta, key, value, headers }) => ({
            offset: Number(batch.firstOffset) + offsetDelta,
            key: hex(key),
            value: hex(value),
            headers: headers.map(([text, value]) => [text!.toString(), hex(value)]),
          })),
        )
        expect(readByUs(set, 0)).toEqual(theirs)
      }),
      { seed, numRuns },
    )
  })
})
