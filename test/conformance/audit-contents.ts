// The part of an audit's contract that concerns the contents of rows: their digests and texts are those of what a sink was given.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import type { AuditedMessage, StoreAudit } from '../../sinks/audit.ts'
import { addDigests, differingColumns, digestOf, textsOf } from '../../sinks/contents.ts'
import type { Sink } from '../../sinks/sink.ts'
import type { JsonObject, RecordBatch } from '../../transformers/record-batch.ts'
import { batchOf, noonUs, plain, type TestMessage, type TestRecord } from '../sinks/batches.ts'
import { type AuditedStore, all } from './audited-store.ts'
import { everyValue, packed } from './sink/fixture.ts'

const signal = new AbortController().signal
const keep = async (): Promise<void> => undefined

export function auditContents(withStore: (work: (store: AuditedStore, sink: Sink) => Promise<void>) => Promise<void>): void {
  test('the digest of a message is that of the rows it was written as, whatever they contain', () =>
    withStore(async ({ audit }, sink) => {
      const messages: TestMessage[] = Object.values(everyValue).map((record, offset) => ({ offset, records: [record, { value: 1 }] }))
      for (const format of ['Temp', `'); DROP TABLE messages; --`, '__proto__'])
        messages.push({ offset: messages.length, documents: [document(format), document(format)] })
      messages.push(...randomMessages(messages.length))
      const batch = batchOf(0, messages.length, messages)
      const encoded = sink.encode(batch)
      const expected = textsIn(batch).map((texts, offset) => ({ offset, texts }))
      const refused = new Set<number>()
      await sink.write(encoded, async some => some.forEach(({ message }) => refused.add(message)), signal)
      expect(refused.size).toBeLessThan(messages.length / 2)
      const positions = new Set(messages.map((_, offset) => packed(sink, offset)))
      const stored = expected.filter(({ offset, texts }) => texts.length > 0 && !refused.has(offset))
      const texts = new Map<number, string[]>()
      await rowTexts(audit, positions, (position, text) => {
        const offset = Number(position & 0xfff_ffff_ffffn)
        if (!refused.has(offset)) texts.set(offset, [...(texts.get(offset) ?? []), text])
      })
      for (const { offset, texts: written } of stored) expect(texts.get(offset)?.sort()).toEqual(written.toSorted())
      expect(texts.size).toBe(stored.length)
      const found = await all(audit.messages(sink.logNumbers[0]!, 0, 0, messages.length, { contents: true }))
      expect(found.filter(({ offset }) => !refused.has(offset))).toEqual(
        stored.map(({ offset, texts }) => ({ offset, rows: texts.length, doubled: 0, replayed: false, digest: digestIn(texts) })),
      )
    }))

  test('a row that was changed in any of its columns has another digest, and its text names the column', () =>
    withStore(async ({ audit, openReplay, remove }, sink) => {
      const [number] = sink.logNumbers as [number]
      const original = [...Object.values(changedRecords), ...Object.values(changedDocuments)].map(({ from }, offset) => ({
        offset,
        ...from,
      }))
      const batch = batchOf(0, original.length, original)
      const encoded = sink.encode(batch)
      const texts = textsIn(batch)
      await sink.write(encoded, keep, signal)
      const before = await all(audit.messages(number, 0, 0, original.length, { contents: true }))
      expect(before.map(({ digest }) => digest)).toEqual(texts.map(digestIn))
      const counted = await all(audit.messages(number, 0, 0, original.length))

      const replays = await openReplay(number)
      for (const [offset, { to, index }] of [...Object.values(changedRecords), ...Object.values(changedDocuments)].entries()) {
        const changed = batchOf(offset, offset + 1, [{ offset, ...to }])
        if (index !== undefined) changed[to.records === undefined ? 'documents' : 'records'].index[0] = index
        await remove(packed(sink, offset))
        await replays.write(changed, new Set(), signal)
      }
      // By their numbers all rows are there.
      const numbersOf = (some: readonly AuditedMessage[]) => some.map(({ offset, rows, doubled }) => ({ offset, rows, doubled }))
      expect(numbersOf(await all(audit.messages(number, 0, 0, original.length)))).toEqual(numbersOf(counted))
      const after = await all(audit.messages(number, 0, 0, original.length, { contents: true }))
      expect(after.filter(({ digest }, offset) => digest === before[offset]!.digest)).toEqual([])
      const differing = original.map((): string[] => [])
      const positions = new Set(original.map((_, offset) => packed(sink, offset)))
      await rowTexts(audit, positions, (position, text) => {
        const offset = Number(position & 0xfff_ffff_ffffn)
        differing[offset]!.push(...differingColumns(text, texts[offset]![0]!))
      })
      const columns = [...Object.values(changedRecords), ...Object.values(changedDocuments)].map(({ column }) => [column].flat())
      expect(differing).toEqual(columns)
    }))

  test('a row that others changed in a way of their own has another digest, and its text names the column', () =>
    withStore(async ({ audit, foreignChanges }, sink) => {
      const [number] = sink.logNumbers as [number]
      const changes = Object.values(foreignChanges)
      const originals = changes.map(({ of }, offset) => ({
        offset,
        ...(of === 'record' ? { records: [everyColumn] } : { documents: [document('engine')] }),
      }))
      const batch = batchOf(0, originals.length, originals)
      await sink.write(sink.encode(batch), keep, signal)
      const texts = textsIn(batch)
      for (const [offset, { change }] of changes.entries()) await change(packed(sink, offset))
      const after = await all(audit.messages(number, 0, 0, changes.length, { contents: true }))
      expect(after.filter(({ offset, digest }) => digest === digestIn(texts[offset]!))).toEqual([])
      const columns = changes.map((): string[] => [])
      await rowTexts(audit, new Set(changes.map((_, offset) => packed(sink, offset))), (position, text) => {
        const offset = Number(position & 0xfff_ffff_ffffn)
        columns[offset]!.push(...differingColumns(text, texts[offset]![0]!))
      })
      const named = Object.fromEntries(Object.keys(foreignChanges).map((what, nth) => [what, columns[nth]]))
      expect(named).toEqual(Object.fromEntries(Object.entries(foreignChanges).map(([what, { column }]) => [what, [column]])))
    }))

  test('the texts of rows are those of the messages that were asked for', () =>
    withStore(async ({ audit }, sink) => {
      const messages = [
        plain(0),
        { offset: 1, records: [{ value: 1 }, { value: 2 }] },
        { offset: 2, documents: [document('engine')] },
        plain(3),
      ]
      const batch = batchOf(0, 4, messages)
      await sink.write(sink.encode(batch), keep, signal)
      const found: string[] = []
      await rowTexts(
        audit,
        new Set([1, 2, 7].map(offset => packed(sink, offset))),
        (position, text) => void found.push(`${position} ${text}`),
      )
      const expected = [1, 2].flatMap(offset => textsIn(batch)[offset]!.map(text => `${packed(sink, offset)} ${text}`))
      expect(found.sort()).toEqual(expected.sort())
    }))
}

/** The texts of the rows of these messages, in any order. */
async function rowTexts(audit: StoreAudit, positions: ReadonlySet<bigint>, each: (position: bigint, text: string) => void): Promise<void> {
  const ranges = Array.from(positions, position => ({ first: position, last: position }))
  await audit.rows(ranges, true, (position, _index, text) => {
    if (positions.has(position)) each(position, text())
  })
}

const payload = {
  speed: 88.5,
  count: 9_007_199_254_740_993n,
  on: true,
  name: 'a',
  deep: { er: { list: [1, { x: 2 }], text: '' } },
} as const satisfies JsonObject

function document(format: string) {
  return { format, payload }
}

interface Change {
  readonly from: Omit<TestMessage, 'offset'>
  readonly to: Omit<TestMessage, 'offset'>
  /** The index that the row gets. */
  readonly index?: number
  readonly column: string | readonly string[]
}

const everyColumn = { name: 'temperature', unit: 'Cel', timeUs: noonUs + 1001, value: 21.5, sum: 2.5, updateTime: 60 }
const recordChange = (to: TestRecord, column: Change['column'], from: TestRecord = everyColumn): Change => ({
  from: { records: [from] },
  to: { records: [to] },
  column,
})
const originChange = (to: Change['to'], column: string): Change => ({
  from: { records: [everyColumn] },
  to: { records: [everyColumn], ...to },
  column,
})
const { unit: _unit, ...withoutUnit } = everyColumn
const { sum: _sum, ...withoutSum } = everyColumn
const { value: _value, ...withoutValue } = everyColumn

/** Changes of a record, by what is changed. */
const changedRecords: Readonly<Record<string, Change>> = {
  channel: originChange({ channel: 'evil' }, 'channel'),
  subtopic: originChange({ subtopic: 'rooms' }, 'subtopic'),
  publisher: originChange({ publisher: 'thing-2' }, 'publisher'),
  protocol: originChange({ protocol: 'mqtt' }, 'protocol'),
  name: recordChange({ ...everyColumn, name: 'Temperature' }, 'name'),
  unit: recordChange({ ...everyColumn, unit: 'K' }, 'unit'),
  'a unit that is gone': recordChange(withoutUnit, 'unit'),
  'a microsecond': recordChange({ ...everyColumn, timeUs: noonUs + 1002 }, 'time'),
  'another month': recordChange({ ...everyColumn, timeUs: noonUs - 40 * 86_400e6 }, 'time'),
  value: recordChange({ ...everyColumn, value: 21.500000000000004 }, 'value'),
  'a number that is a text': recordChange({ ...withoutValue, stringValue: '21.5' }, ['value', 'string_value']),
  'an empty text that is no text': recordChange(withoutValue, 'string_value', { ...withoutValue, stringValue: '' }),
  'the end of a text': recordChange({ stringValue: 'open ' }, 'string_value', { stringValue: 'open' }),
  'no bytes that are none': recordChange(withoutValue, 'data_value', { ...withoutValue, dataValue: new Uint8Array(0) }),
  'true that is false': recordChange({ boolValue: false }, 'bool_value', { boolValue: true }),
  'a byte': recordChange({ dataValue: Uint8Array.of(1, 2, 4) }, 'data_value', { dataValue: Uint8Array.of(1, 2, 3) }),
  sum: recordChange({ ...everyColumn, sum: 2 }, 'sum'),
  'a sum that is gone': recordChange(withoutSum, 'sum'),
  'the update time': recordChange({ ...everyColumn, updateTime: 0 }, 'update_time'),
  index: { ...recordChange(everyColumn, 'index'), index: 7 },
}

const documentChange = (to: Change['to'], column: string): Change => ({
  from: { documents: [document('engine')] },
  to: { documents: [document('engine')], ...to },
  column,
})
const payloadChange = (to: JsonObject): Change => documentChange({ documents: [{ format: 'engine', payload: to }] }, 'payload')

/** Changes of a document. */
const changedDocuments: Readonly<Record<string, Change>> = {
  channel: documentChange({ channel: 'evil' }, 'channel'),
  subtopic: documentChange({ subtopic: 'rooms' }, 'subtopic'),
  publisher: documentChange({ publisher: 'thing-2' }, 'publisher'),
  index: { ...documentChange({}, 'index'), index: 7 },
  format: documentChange({ documents: [document('gearbox')] }, 'format'),
  protocol: documentChange({ protocol: 'mqtt' }, 'protocol'),
  'a nanosecond': {
    from: { documents: [{ ...document('engine'), createdRestNs: 998 }] },
    to: { documents: [{ ...document('engine'), createdRestNs: 999 }] },
    column: 'created',
  },
  'another month': {
    from: { documents: [document('engine')] },
    to: { documents: [{ ...document('engine'), createdUs: noonUs - 40 * 86_400e6 }] },
    column: 'created',
  },
  'a number': payloadChange({ ...payload, speed: 88 }),
  'a digit of a long integer': payloadChange({ ...payload, count: 9_007_199_254_740_995n }),
  'a field that is gone': payloadChange({ speed: 88.5, count: payload.count, on: true, deep: payload.deep }),
  'a field that is new': payloadChange({ ...payload, more: 1 }),
  'an element of a nested array': payloadChange({ ...payload, deep: { er: { list: [1, { x: 3 }], text: '' } } }),
  'the order of an array': payloadChange({ ...payload, deep: { er: { list: [{ x: 2 }, 1], text: '' } } }),
  'a nested empty text': payloadChange({ ...payload, deep: { er: { list: [1, { x: 2 }], text: ' ' } } }),
}

/** The texts of each message's rows. */
function textsIn(batch: RecordBatch): string[][] {
  const { messages, records, documents } = batch
  const owners = [...records.message.subarray(0, records.length), ...documents.message.subarray(0, documents.length)]
  const texts = Array.from({ length: messages.length }, (): string[] => [])
  for (const [at, text] of [...textsOf(batch, 0, 0)].entries()) texts[owners[at]!]!.push(text)
  return texts
}

function digestIn(texts: readonly string[]): number {
  return texts.map(digestOf).reduce(addDigests, 0)
}

/** Messages with anything that the pipeline may give a sink, always the same. */
function randomMessages(from: number): TestMessage[] {
  const text = fc.oneof(
    fc.constantFrom('', ' ', 'a', 'a\nb', '\r', 'a\r\nb', '"', "'", '\\', ',', '=', 'ü€😀', '\u{1f}', '\ufeff', 'null', '1', 'true'),
    fc.string({ maxLength: 12 }),
    fc.string({ unit: 'grapheme', maxLength: 8 }),
  )
  const id = fc.string({ unit: 'grapheme', minLength: 1, maxLength: 8 })
  const double = fc.oneof(
    fc.constantFrom(0, -0, 1, -1, 0.1, 1e21, 1e-7, 5e-324, Number.MAX_VALUE, 2 ** 53, 2 ** 60, 1e18, 123_456_789_012_345_680),
    fc.double({ noNaN: true, noDefaultInfinity: true }),
    fc.integer(),
  )
  const timeUs = fc.integer({ min: -(2 ** 36), max: 2 ** 36 }).map(us => noonUs + us)
  const integer = fc.bigInt({ min: -(2n ** 70n), max: 2n ** 70n }).map(one => (Number.isSafeInteger(Number(one)) ? Number(one) : one))
  const value = fc.oneof(
    double.map(value => ({ value })),
    text.map(stringValue => ({ stringValue })),
    fc.boolean().map(boolValue => ({ boolValue })),
    fc.uint8Array({ maxLength: 40 }).map(dataValue => ({ dataValue })),
    double.map(sum => ({ sum })),
  )
  const record = fc
    .tuple(value, fc.record({ name: id, unit: id, timeUs, sum: double, updateTime: double }, { requiredKeys: ['timeUs'] }))
    .map(([one, more]): TestRecord => ({ ...more, ...one }))
  // A key with a slash is refused where documents are flattened.
  const key = fc.oneof(
    fc.constantFrom('a', 'b', '__proto__', 'constructor', '1', '10', 'ü'),
    fc.string({ minLength: 1, maxLength: 6 }).map(text => text.replaceAll('/', '|')),
  )
  const { json } = fc.letrec<{ json: unknown; object: JsonObject }>(tie => ({
    json: fc.oneof(
      { maxDepth: 4 },
      text,
      double,
      integer,
      fc.boolean(),
      fc.constant(null),
      fc.array(tie('json'), { maxLength: 3 }),
      tie('object'),
    ),
    object: fc.dictionary(key, tie('json'), { maxKeys: 4, noNullPrototype: true }) as fc.Arbitrary<JsonObject>,
  }))
  const object = fc.dictionary(key, json, { maxKeys: 6, noNullPrototype: true }) as fc.Arbitrary<JsonObject>
  const documents = fc
    .tuple(
      fc.constantFrom('engine', 'Gear-1', 'ü'),
      fc.array(fc.record({ payload: object, createdUs: timeUs, createdRestNs: fc.nat(999) }), { minLength: 1, maxLength: 3 }),
    )
    .map(([format, some]) => some.map(one => ({ format, ...one })))
  const origin = { channel: id, subtopic: text, publisher: text, protocol: fc.constantFrom('http', 'mqtt') }
  const message = fc.oneof(
    fc.record({ ...origin, records: fc.array(record, { minLength: 1, maxLength: 4 }) }),
    fc.record({ ...origin, documents }),
  )
  const isPlain = (one: unknown): boolean =>
    !/\\u0000|\\ud[89a-f]/i.test(JSON.stringify(one, (_, part: unknown) => (typeof part === 'bigint' ? 0 : part)))
  return fc
    .sample(message.filter(isPlain), { numRuns: 400, seed: 20_261_128 })
    .map((one, nth) => ({ ...withSortedTimes(one), offset: from + nth }))
}

/** As a transformer gives them. */
function withSortedTimes<Message extends Omit<TestMessage, 'offset'>>(message: Message): Message {
  return message.records === undefined
    ? message
    : { ...message, records: message.records.toSorted((one, other) => one.timeUs! - other.timeUs!) }
}
