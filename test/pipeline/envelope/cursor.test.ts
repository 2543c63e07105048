// Envelopes of topics that were not written for Sluice: where each part is looked up, and what becomes of a message without it. Longer than most files: it has a case for each place of each part.

import { expect, test } from 'vitest'
import { openLaidOutCursor } from '../../../pipeline/envelope/cursor.ts'
import { isSource, layoutOf } from '../../../pipeline/envelope/layout.ts'
import type { EnvelopeOptions } from '../../../pipeline/envelope/options.ts'
import { laidOutTopicReader, withOriginalTimes } from '../../../pipeline/envelope/source.ts'
import { encodeFrame } from '../../../pipeline/kafka/confluent/encode.ts'
import type { RawMessage } from '../../../pipeline/source.ts'
import type { TopicReader } from '../../../pipeline/topic-reader.ts'
import { parseAhead, parseJson } from '../../../transformers/json/parse.ts'
import { avroType, framed, framedChunk, messageOf, ourId, planFor } from '../kafka/confluent/framed-messages.ts'
import { type BatchFields, encodeBatch, fetch, type RecordFields } from '../kafka/records/record-batches.ts'

const timestampMs = 1_700_000_000_123

/** The messages of the records under a layout. */
function readAll(envelope: EnvelopeOptions, records: readonly RecordFields[], batch: BatchFields = {}): RawMessage[] {
  const laidOut = { layout: layoutOf(envelope)!, topic: 'plant.events', payloadBytesMax: 1000 }
  const [chunk] = fetch(encodeBatch([...records], { baseTimestamp: timestampMs, ...batch }))
  const cursor = openLaidOutCursor(chunk!.cursor(), laidOut)
  const messages: RawMessage[] = []
  while (cursor.next()) messages.push({ ...cursor.message })
  return messages
}

function read(envelope: EnvelopeOptions, record: RecordFields, batch: BatchFields = {}): RawMessage {
  return readAll(envelope, [record], batch)[0]!
}

const document = JSON.stringify({
  device: { id: 'd7', number: 7, 'a.b': 'dotted', on: true, nothing: null, list: ['x'] },
  serial: 'SERIAL',
  type: 'temperature',
  ts: 1_699_999_999,
  empty: '',
}).replace('"SERIAL"', '12345678901234567890')

test.each<[string, EnvelopeOptions, RecordFields, Partial<RawMessage>]>([
  ['the topic', { channel: ['topic'] }, {}, { channel: 'plant.events' }],
  ['a text', { channel: ['const:plant'] }, {}, { channel: 'plant' }],
  ['a text with a colon', { channel: ['const:a:b'] }, {}, { channel: 'a:b' }],
  ['a header', { channel: ['header:device'] }, { headers: [['device', 'd1']] }, { channel: 'd1' }],
  [
    'the last of repeated headers',
    { channel: ['header:d'] },
    {
      headers: [
        ['d', '1'],
        ['d', '2'],
        ['dd', '3'],
      ],
    },
    { channel: '2' },
  ],
  ['a nested field', { channel: ['field:device.id'] }, { value: document }, { channel: 'd7' }],
  ['a key with a dot', { channel: ['field:a.b\\.c\\.d.e'] }, { value: '{"a":{"b.c.d":{"e":"x"}}}' }, { channel: 'x' }],
  ['a key that ends with a backslash', { channel: ['field:c:\\\\.x\\.y'] }, { value: '{"c:\\\\":{"x.y":"z"}}' }, { channel: 'z' }],
  ['a number', { channel: ['field:device.number'] }, { value: document }, { channel: '7' }],
  ['an integer beyond 2^53, with all its digits', { channel: ['field:serial'] }, { value: document }, { channel: '12345678901234567890' }],
  ['a boolean', { channel: ['field:device.on'] }, { value: document }, { channel: 'true' }],
  ['the second place, if the first is empty', { channel: ['field:empty', 'key'] }, { value: document, key: 'k' }, { channel: 'k' }],
  ['the second, if the first is null', { channel: ['field:device.nothing', 'key'] }, { value: document, key: 'k' }, { channel: 'k' }],
  ['the second, if the first is an array', { channel: ['field:device.list', 'key'] }, { value: document, key: 'k' }, { channel: 'k' }],
  ['the second, if a field has no fields', { channel: ['field:type.of', 'key'] }, { value: document, key: 'k' }, { channel: 'k' }],
  ['no inherited field', { channel: ['field:constructor.name', 'key'] }, { value: document, key: 'k' }, { channel: 'k' }],
  ['the second, if the root is an array', { channel: ['field:0', 'key'] }, { value: '["x"]', key: 'k' }, { channel: 'k' }],
  [
    'the second, if the payload is too large',
    { channel: ['field:a', 'key'] },
    { value: `{"a":"${'x'.repeat(1000)}"}`, key: 'k' },
    { channel: 'k' },
  ],
  ['a field after a byte-order mark and space', { channel: ['field:a'] }, { value: '\ufeff \n{"a":"x"}' }, { channel: 'x' }],
])('a channel is taken from %s', (_name, envelope, record, expected) => {
  expect(read(envelope, { key: null, value: '{}', ...record })).toMatchObject({ fault: undefined, ...expected })
})

test.each(['a..b', '.a', 'a.', '', 'a\\b', 'a\\', 'a\\\\\\'])('%j is not the path of a field', path => {
  expect(isSource(`field:${path}`)).toBe(false)
})

test('a UUID as channel or publisher is in lower case, wherever it comes from', () => {
  const sent = '7ACB5F9E-3C0E-4A57-9D0A-5F9F0A3C1B77'
  const record = { key: sent, value: JSON.stringify({ id: sent }), headers: [['h', sent]] as const }
  for (const place of ['key', 'field:id', 'header:h', `const:${sent}`]) {
    expect(read({ channel: [place], publisher: [place], subtopic: [place] }, record)).toMatchObject({
      channel: sent.toLowerCase(),
      publisher: sent.toLowerCase(),
      subtopic: sent,
    })
  }
  expect(read({ publisher: ['const:p'] }, record)).toMatchObject({ channel: sent.toLowerCase() })
})

test('each part has places of its own, and the others stay where Sluice writes them', () => {
  const record: RecordFields = {
    key: 'k',
    value: document,
    headers: [
      ['publisher', 'p'],
      ['subtopic', 'ignored'],
      ['type', 'Application/JSON; charset=utf-8'],
      ['protocol', 'mqtt'],
    ],
  }
  expect(read({ subtopic: ['field:type'], contentType: ['header:type'] }, record)).toMatchObject({
    fault: undefined,
    channel: 'k',
    publisher: 'p',
    subtopic: 'temperature',
    contentType: 'application/json',
    protocol: 'mqtt',
    createdUs: timestampMs * 1000,
  })
})

test.each<[string, string, number, number]>([
  ['seconds', '1699999999', 1_699_999_999_000_000, 0],
  ['seconds with a fraction', '1699999999.000001', 1_699_999_999_000_001, 0],
  ['seconds with more digits than nanoseconds', '1699999999.95456123352050781250', 1_699_999_999_954_561, 233],
  ['milliseconds', '1699999999123', 1_699_999_999_123_000, 0],
  ['nanoseconds with a fraction', '1699999999123456789.9999999999', 1_699_999_999_123_456, 789],
  ['microseconds', '1699999999123456', 1_699_999_999_123_456, 0],
  ['nanoseconds', '1699999999123456789', 1_699_999_999_123_456, 789],
  ['RFC 3339', '2023-11-14T22:13:19.5+00:00', 1_699_999_999_500_000, 0],
])('created is read as %s', (_name, text, createdUs, createdRestNs) => {
  const expected = { fault: undefined, createdUs, createdRestNs }
  expect(read({ created: ['header:at'] }, { key: 'k', headers: [['at', text]] })).toMatchObject(expected)
  expect(read({ created: ['field:at'] }, { key: 'k', value: JSON.stringify({ at: text }) })).toMatchObject(expected)
})

/** RFC 3339 with microseconds. */
function rfc3339Of(us: bigint): string {
  const ms = (us < 0n ? us - 999n : us) / 1000n
  return new Date(Number(ms)).toISOString().replace('Z', `${String(us - ms * 1000n).padStart(3, '0')}Z`)
}

function framedAt(created: bigint, logicalType?: string): RawMessage {
  const type = logicalType === undefined ? 'long' : { type: 'long', logicalType }
  const fields = [
    { name: 'created', type },
    { name: 'payload', type: 'bytes' },
  ]
  const schema = { type: 'record', name: 'Reading', fields }
  const longMax = 2n ** 63n - 1n
  const long = created > longMax ? longMax : created < -longMax ? -longMax : created
  return messageOf(framed(avroType(schema).toBuffer({ created: long, payload: Buffer.from('{}') })), planFor(schema))
}

/** Everywhere a time can be: the name of the place in a fault, and the message with this time there. */
const places: readonly (readonly [place: (us: bigint) => string, readAt: (us: bigint) => RawMessage])[] = [
  [() => 'the field at', us => read({ created: ['field:at'] }, { key: 'k', value: JSON.stringify({ at: rfc3339Of(us) }) })],
  [() => 'the header at', us => read({ created: ['header:at'] }, { key: 'k', headers: [['at', rfc3339Of(us)]] })],
  [() => 'the key', us => read({ created: ['key'] }, { key: rfc3339Of(us) })],
  [us => JSON.stringify(rfc3339Of(us)), us => read({ created: [`const:${rfc3339Of(us)}`] }, { key: 'k' })],
  [() => 'the header created', us => read({ publisher: ['key'] }, { key: 'k', headers: [['created', `${us}000`]] })],
  [() => 'the timestamp of the record', us => read({ publisher: ['key'] }, { key: 'k' }, { baseTimestamp: us / 1000n })],
  [() => 'the timestamp of the record', us => read({ created: ['header:at'] }, { key: 'k' }, { baseTimestamp: us / 1000n })],
  [() => 'the field created of the record', us => framedAt(us * 1000n)],
  [() => 'the field created of the record', us => framedAt(us, 'timestamp-micros')],
  [() => 'the field created of the record', us => framedAt(us / 1000n, 'timestamp-millis')],
]

const latestUs = 2n ** 53n - 1n

test.each<[string, bigint]>([
  ['0001-01-01, the time that is not set of .NET and Go,', -62_135_596_800_000_000n],
  ['9999-12-31, the last one of .NET,', 253_402_300_799_000_000n],
  ['the first second after the range', 9_007_199_255_000_000n],
  ['the last millisecond before the range', -9_007_199_254_741_000n],
])('%s is no time of a message, wherever it is: one rule, in one sentence', (_name, us) => {
  for (const [place, readAt] of places) {
    expect(readAt(us)).toMatchObject({
      fault: {
        rule: 'created',
        reason: `${place(us)} is not a time within 2^53 microseconds of 1970 (1684-07-28 to 2255-06-05)`,
        hint: expect.stringMatching(/; leave it out if it is not set$/) as string,
      },
      createdUs: 0,
      createdRestNs: 0,
    })
  }
})

test.each([latestUs, -latestUs])('%s microseconds from 1970 are a time, wherever it is', us => {
  for (const [place, readAt] of places) {
    const { fault, createdUs } = readAt(us)
    expect(fault, place(us)).toBeUndefined()
    // A record has milliseconds.
    expect(Math.abs(Number(us) - createdUs), place(us)).toBeLessThan(1000)
  }
})

test('a number in a field is a time, and without one the timestamp of the record counts', () => {
  expect(read({ created: ['field:ts'] }, { key: 'k', value: document })).toMatchObject({ createdUs: 1_699_999_999_000_000 })
  expect(read({ created: ['field:other'] }, { key: 'k', value: document })).toMatchObject({ createdUs: timestampMs * 1000 })
})

test.each<[string, EnvelopeOptions, RecordFields, string, RegExp]>([
  [
    'no channel anywhere',
    { channel: ['header:d', 'field:x.y', 'key'] },
    {},
    'no-channel',
    /none was found in the header d, the field x\.y or the key$/,
  ],
  ['a key that is not UTF-8', { channel: ['key'], subtopic: ['topic'] }, { key: Uint8Array.of(0xff) }, 'key-text', /not UTF-8/],
  [
    'a header that is not UTF-8',
    { subtopic: ['header:s'] },
    { key: 'k', headers: [['s', Uint8Array.of(0xff)]] },
    'header',
    /^the header s is not UTF-8$/,
  ],
  [
    'a time that is none',
    { created: ['field:ts'] },
    { key: 'k', value: '{"ts":"soon"}' },
    'created',
    /^the field ts is not a time within /,
  ],
  [
    'a publisher in a key that is not UTF-8',
    { channel: ['const:plant'], publisher: ['key'] },
    { key: Uint8Array.of(0xff) },
    'key-text',
    /^the key is not UTF-8$/,
  ],
  [
    'a channel in a payload that is too large to be read',
    { channel: ['field:id', 'header:none'] },
    { value: `{"id":"${'x'.repeat(1000)}"}` },
    'payload-size',
    /^the payload's 1009 bytes exceed the limit of 1000$/,
  ],
  ['a channel in what is not JSON', { channel: ['field:id'] }, { value: '{"id":' }, 'json-syntax', /not JSON/],
  [
    'a channel in what is nested too deep',
    { channel: ['field:id'] },
    { value: `{"a":${'['.repeat(70)}${']'.repeat(70)}}` },
    'nesting-depth',
    /levels/,
  ],
  ['no value', { channel: ['const:plant'] }, { value: null }, 'no-value', /no value/],
  [
    'too many headers',
    { channel: ['const:plant'] },
    { headers: Array.from({ length: 1001 }, () => ['a', 'b'] as const) },
    'header-limit',
    /1001 headers/,
  ],
])('a message with %s is a dead letter', (_name, envelope, record, rule, reason) => {
  expect(read(envelope, { key: null, value: '{}', ...record }).fault).toMatchObject({ rule, reason: expect.stringMatching(reason) })
})

test('a part that is not placed stays where Sluice writes it, with its fault', () => {
  const created = '1000000001'
  const headers = [
    ['created', created],
    ['publisher', Uint8Array.of(0xff)],
  ] as const
  // In nanoseconds as always: by the number of its digits it would be seconds.
  expect(read({ publisher: ['key'] }, { key: 'k', headers })).toMatchObject({
    fault: undefined,
    publisher: 'k',
    createdUs: 1_000_000,
    createdRestNs: 1,
  })
  expect(read({ created: ['header:created'] }, { key: 'k', headers: [['created', created]] })).toMatchObject({
    createdUs: 1_000_000_001_000_000,
  })
  expect(read({ subtopic: ['key'] }, { key: 'k', headers }).fault).toMatchObject({
    rule: 'header',
    reason: 'the header publisher is not UTF-8',
  })
  expect(read({ publisher: ['const:p'] }, { key: null }).fault).toMatchObject({ rule: 'no-key' })
})

test('the parts of a framed record come from its fields, unless they are placed elsewhere', () => {
  const record = encodeFrame(
    {
      channel: 'in the record',
      subtopic: 's',
      publisher: 'p',
      protocol: 'mqtt',
      contentType: 'application/json',
      createdUs: 1_700_000_001_000_000,
      createdRestNs: 7,
      payload: Buffer.from(document),
    },
    ourId,
  )
  const records = [{ key: 'k', value: record, headers: [['device', 'd1']] as const }]
  const readFramed = (envelope: EnvelopeOptions): RawMessage => {
    const laidOut = { layout: layoutOf(envelope)!, topic: 't', payloadBytesMax: 1000 }
    const cursor = openLaidOutCursor(framedChunk(records).cursor(), laidOut)
    expect(cursor.next()).toBe(true)
    return cursor.message
  }
  const others = { fault: undefined, protocol: 'mqtt', contentType: 'application/json', createdUs: 1_700_000_001_000_000, createdRestNs: 7 }
  expect(readFramed({ publisher: ['header:device'] })).toMatchObject({
    ...others,
    channel: 'in the record',
    subtopic: 's',
    publisher: 'd1',
  })
  expect(readFramed({ channel: ['key'], subtopic: ['field:type'] })).toMatchObject({
    ...others,
    channel: 'k',
    subtopic: 'temperature',
    publisher: 'p',
  })
  const broken = { key: null, value: Buffer.from('no frame') }
  const cursor = openLaidOutCursor(framedChunk([broken]).cursor(), {
    layout: layoutOf({ channel: ['const:c'] })!,
    topic: 't',
    payloadBytesMax: 9,
  })
  expect(cursor.next()).toBe(true)
  expect(cursor.message.fault).toMatchObject({ rule: 'confluent-frame' })
})

test('a payload is parsed once for its fields and for its decoder, and by no one else', () => {
  const [first, second] = [Buffer.from('{"a":1}'), Buffer.from('{"a":1}')]
  const root = parseAhead(first)
  expect(parseJson(second)).not.toBe(root)
  expect(parseJson(first)).toBe(root)
  expect(parseJson(first)).not.toBe(root)
  expect(() => parseAhead(Buffer.from('{'))).toThrow(/not JSON/)
})

test('what is not JSON is left to its decoder, if the channel is elsewhere', () => {
  expect(read({ subtopic: ['field:type'] }, { key: 'k', value: '{"type":' })).toMatchObject({
    fault: undefined,
    channel: 'k',
    subtopic: '',
  })
})

test('nothing of a message stays for the next one', () => {
  const records = [
    { key: 'a', value: '{"s":"x","ts":1700000001}', headers: [] },
    { key: null, value: 'broken', headers: [] },
    { key: 'c', value: '{}', headers: [] },
  ] as const
  const messages = readAll({ channel: ['key'], subtopic: ['field:s'], created: ['field:ts'] }, records)
  expect(messages.map(({ channel, subtopic, createdUs, fault }) => [channel, subtopic, createdUs, fault?.rule])).toEqual([
    ['a', 'x', 1_700_000_001_000_000, undefined],
    ['', '', timestampMs * 1000, 'no-channel'],
    ['c', '', timestampMs * 1000, undefined],
  ])
})

test('a dead letter keeps key, headers and value as they were', () => {
  const laidOut = { layout: layoutOf({ channel: ['header:subtopic'] })!, topic: 't', payloadBytesMax: 1000 }
  const headers = [
    ['subtopic', 's'],
    ['own', 'o'],
    ['mqtt-retain', '1'],
  ] as const
  const [chunk] = fetch(encodeBatch([{ key: 'k', value: '{}', headers }]))
  const cursor = openLaidOutCursor(chunk!.cursor(), laidOut)
  expect(cursor.next()).toBe(true)
  expect(Buffer.from(cursor.key()!).toString()).toBe('k')
  expect(cursor.headers()).toEqual([
    { key: 'subtopic', value: 's' },
    { key: 'own', value: 'o' },
    { key: 'mqtt-retain', value: '1' },
  ])
  expect(cursor.isRetained!()).toBe(true)
  expect(Buffer.from(cursor.value!()).toString()).toBe('{}')
})

test('messages in dead letters have the time of their own record again, or none if it had none, unless their envelope says one', async () => {
  const records: RecordFields[] = [
    { key: 'a', headers: [['sluice.timestamp', '1700000001000002']] },
    {
      key: 'b',
      headers: [
        ['created', '1600000000000000001'],
        ['sluice.timestamp', '1700000001000002'],
      ],
    },
    { key: 'c', headers: [['sluice.timestamp', 'none']] },
    { key: 'd' },
  ]
  const reader: TopicReader = {
    name: 't.dead-letters.w',
    id: 'id',
    partitions: 1,
    bounds: async () => new Map(),
    async *read() {
      yield* fetch(encodeBatch(records, { baseTimestamp: timestampMs }))
    },
    close: async () => undefined,
  }
  const times = async (read: TopicReader): Promise<unknown[]> => {
    const found: unknown[] = []
    for await (const chunk of read.read(0, 0, 3)) {
      const cursor = chunk.cursor()
      while (cursor.next()) found.push([cursor.message.createdUs, cursor.message.createdRestNs, cursor.message.fault?.rule])
    }
    return found
  }
  const own = [1_700_000_001_000_002, 0, undefined]
  const none = [0, 0, 'created']
  const appended = [timestampMs * 1000, 0, undefined]
  expect(await times(withOriginalTimes(reader))).toEqual([own, [1_600_000_000_000_000, 1, undefined], none, appended])
  const laidOut = { layout: layoutOf({ created: ['field:none'] })!, topic: 't', payloadBytesMax: 1000 }
  expect(await times(laidOutTopicReader(withOriginalTimes(reader), laidOut))).toEqual([own, own, none, appended])
  const elsewhere = { layout: layoutOf({ publisher: ['key'] })!, topic: 't', payloadBytesMax: 1000 }
  expect((await times(laidOutTopicReader(withOriginalTimes(reader), elsewhere))).slice(2)).toEqual([none, appended])
})

test('without options the messages are read as Sluice writes them', () => {
  expect(layoutOf({})).toBeUndefined()
})
