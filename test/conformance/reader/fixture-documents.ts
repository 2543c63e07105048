// The JSON documents of the fixture: payloads of every kind, in formats whose names not every store can use unchanged.

import type { DocumentRow } from '../../../readers/reader.ts'
import { canonicalPayload } from '../../../transformers/json/canonical.ts'
import { jsonText } from '../../../transformers/json/json-text.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import type { JsonObject, RecordBatch } from '../../../transformers/record-batch.ts'
import { channel, dayUs, packed, publishers, startUs } from './fixture-origin.ts'

const [first, second] = publishers

/** Names that a store must not use unchanged: too long, upper and lower case, with punctuation, not ASCII. */
export const formats = ['weather', 'Weather', 'room-1', '温度', `${'long-'.repeat(24)}name`] as const

/** Documents, each with its text in an answer. */
export const payloads: readonly [payload: JsonObject, text: string][] = [
  [{ b: 1, a: { z: [1, { y: 2, x: 3 }], '10': null, '9': true } }, '{"a":{"10":null,"9":true,"z":[1,{"x":3,"y":2}]},"b":1}'],
  [
    { id: 8_659_456_789_564_231_564n, least: -9_223_372_036_854_775_808n, beyond: 12_345_678_901_234_567_890n },
    '{"beyond":12345678901234567000,"id":8659456789564231564,"least":-9223372036854775808}',
  ],
  [{ f: 1.5, tiny: 1e-7, huge: 1e21, whole: 1e15, zero: 0 }, '{"f":1.5,"huge":1e+21,"tiny":1e-7,"whole":1000000000000000,"zero":0}'],
  [
    { 'a/b': 'slash', '': 'empty', 'quote"': '\\', '😀': '\u2028\u0001' },
    '{"":"empty","a/b":"slash","quote\\"":"\\\\","😀":"\u2028\\u0001"}',
  ],
  [JSON.parse('{"__proto__":{"b":1,"a":2},"constructor":"c"}') as JsonObject, '{"__proto__":{"a":2,"b":1},"constructor":"c"}'],
  [{}, '{}'],
  [{ '1-0:1.8.0': 5, 'c:\\': { 'x.y': 'both' } }, '{"1-0:1.8.0":5,"c:\\\\":{"x.y":"both"}}'],
]

interface StoredDocument {
  readonly offset: number
  readonly index: number
  readonly format: string
  readonly publisher: string
  readonly protocol: string
  readonly createdUs: number
  readonly restNs: number
  readonly payload: JsonObject
}

/** For each format a message of several documents at almost the same time, and a later message of two, in partition 3. */
const storedDocuments: readonly StoredDocument[] = formats.flatMap((format, nth): StoredDocument[] => [
  ...payloads.map(([payload], index) => ({
    offset: 2 * nth,
    index,
    format,
    publisher: first,
    protocol: 'http',
    createdUs: startUs,
    // The same time except for the last digits: they are ordered by position and index.
    restNs: index < 2 ? 1 : 999,
    payload,
  })),
  {
    offset: 2 * nth + 1,
    index: 0,
    format,
    publisher: second,
    protocol: 'mqtt',
    createdUs: startUs + 2 * dayUs,
    restNs: 0,
    payload: { later: true },
  },
  {
    offset: 2 * nth + 1,
    index: 1,
    format,
    publisher: second,
    protocol: 'mqtt',
    createdUs: startUs - 2 * dayUs,
    restNs: 7,
    payload: { later: false },
  },
])

/** What a store keeps of a payload; undefined if it refuses it. */
export type KeptOf = (payload: JsonObject) => JsonObject | undefined

/** The JSON of the fixture. */
export const documents = {
  /** @param keptOf refused payloads are left out */
  appendTo(batch: RecordBatch, keptOf: KeptOf = payload => payload): void {
    for (const [offset, rows] of Map.groupBy(storedDocuments, ({ offset }) => offset)) {
      const { publisher, protocol, format } = rows[0]!
      batch.beginMessage({ at: logPartition(0, 3), offset, channel, subtopic: `house.${format}`, publisher, protocol })
      for (const { index, createdUs, restNs, payload } of rows) {
        if (keptOf(payload) !== undefined) batch.appendDocument(index, format, createdUs, restNs, payload)
      }
      batch.endMessage()
    }
    batch.cover(logPartition(0, 3), 0, 2 * formats.length)
  },

  rows(keptOf: KeptOf = payload => payload): { format: string; row: DocumentRow }[] {
    return storedDocuments.flatMap(({ offset, index, format, publisher, protocol, createdUs, restNs, payload }) => {
      const kept = keptOf(payload)
      if (kept === undefined) return []
      const createdNs = BigInt(createdUs) * 1000n + BigInt(restNs)
      const origin = { channel, subtopic: `house.${format}`, publisher, protocol, position: packed(3, offset), index }
      return [{ format, row: { kind: 'document' as const, ...origin, createdNs, payloadText: canonicalPayload(jsonText(kept)) } }]
    })
  },
}

/** The answer to `limit=1000` of a format, with the payloads that are kept, each as a whole. */
export function documentsAnswer(format: string, keptOf: KeptOf = payload => payload): string {
  const text = (publisher: string, protocol: string, created: string, payload: string): string =>
    `{"Channel":"${channel}","Subtopic":"house.${format}","Publisher":"${publisher}","Protocol":"${protocol}","Created":${created},"Payload":${payload}}`
  const lines = [
    text(second, 'mqtt', `${startUs + 2 * dayUs}000`, '{"later":true}'),
    ...payloadTexts(keptOf, [6, 5, 4, 3, 2]).map(payload => text(first, 'http', `${startUs}999`, payload)),
    ...payloadTexts(keptOf, [1, 0]).map(payload => text(first, 'http', `${startUs}001`, payload)),
    text(second, 'mqtt', `${startUs - 2 * dayUs}007`, '{"later":false}'),
  ]
  return `{"total":${lines.length},"offset":0,"limit":1000,"format":"${format}","messages":[${lines.join(',')}]}`
}

function payloadTexts(keptOf: KeptOf, indexes: readonly number[]): string[] {
  return indexes.map(index => payloads[index]!).flatMap(([payload, text]) => (keptOf(payload) === undefined ? [] : [text]))
}
