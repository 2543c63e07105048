// The envelope of a message from Kafka: key and headers, defaults, and faults.

import { describe, expect, test } from 'vitest'
import { deadLetterHeadersMax } from '../../../../pipeline/dead-letters/headers.ts'
import { type BatchFields, bits, encodeBatch, fetch, messagesOf, type Read, type RecordFields } from './record-batches.ts'

const notUtf8 = Uint8Array.of(0x61, 0xff)

function envelopeOf(record: RecordFields, batch: BatchFields = {}): Read {
  return messagesOf(encodeBatch([record], batch))[0]!
}

test('the key is the channel, and five headers are the envelope', () => {
  const message = envelopeOf({
    key: 'c7',
    value: '[{"n":"a","v":1}]',
    headers: [
      ['subtopic', 'room.temperature'],
      ['publisher', 't1'],
      ['protocol', 'mqtt'],
      ['created', '1700000000000000001'],
      ['content-type', 'application/senml+json'],
    ],
  })
  expect(message).toEqual({
    offset: 0,
    fault: undefined,
    channel: 'c7',
    subtopic: 'room.temperature',
    publisher: 't1',
    protocol: 'mqtt',
    contentType: 'application/senml+json',
    createdUs: 1_700_000_000_000_000,
    createdRestNs: 1,
    payload: '[{"n":"a","v":1}]',
  })
})

test('missing parts have defaults: created is the timestamp, protocol is kafka, the rest is empty', () => {
  expect(envelopeOf({ timestampDelta: 5 }, { baseTimestamp: 1_700_000_000_000 })).toMatchObject({
    fault: undefined,
    subtopic: '',
    publisher: '',
    protocol: 'kafka',
    contentType: '',
    createdUs: 1_700_000_000_005_000,
    createdRestNs: 0,
  })
})

test("the broker's timestamp applies to all messages of a batch that has it", () => {
  const batch = { attributes: bits.appendTime, baseTimestamp: 1, maxTimestamp: 1_700_000_000_009 }
  expect(envelopeOf({ timestampDelta: 5 }, batch).createdUs).toBe(1_700_000_000_009_000)
})

test('timestamps are relative to the delete horizon of a compacted batch', () => {
  const batch = { attributes: bits.deleteHorizon, baseTimestamp: 1_700_000_100_000 }
  expect(envelopeOf({ timestampDelta: -60_000 }, batch).createdUs).toBe(1_700_000_040_000_000)
})

test('a header without a value, or an empty one, counts as missing', () => {
  for (const value of [null, '']) {
    const headers = ['subtopic', 'publisher', 'protocol', 'created', 'content-type'].map(name => [name, value] as const)
    expect(envelopeOf({ headers }, { baseTimestamp: 1_700_000_000_000 })).toMatchObject({
      fault: undefined,
      subtopic: '',
      protocol: 'kafka',
      createdUs: 1_700_000_000_000_000,
    })
  }
})

test('of a repeated header the last value counts', () => {
  const headers = [
    ['subtopic', 'a'],
    ['created', '1000'],
    ['protocol', 'mqtt'],
    ['subtopic', 'b'],
    ['created', '2000'],
    ['protocol', null],
  ] as const
  expect(envelopeOf({ headers })).toMatchObject({ subtopic: 'b', createdUs: 2, protocol: 'kafka' })
})

test('a content type loses its parameters and upper case', () => {
  for (const written of ['application/senml+json', 'Application/SenML+JSON; charset=utf-8', ' application/senml+json ;a=b'])
    expect(envelopeOf({ headers: [['content-type', written]] }).contentType).toBe('application/senml+json')
})

test('other headers, and names similar to those of the envelope, are ignored', () => {
  const headers = [
    'Subtopic',
    'subtopid',
    'publishes',
    'publixher',
    'protocil',
    'createx',
    'content-typf',
    'content_type',
    '',
    'x'.repeat(300),
  ].map(name => [name, 'other'] as const)
  expect(envelopeOf({ headers })).toMatchObject({ fault: undefined, subtopic: '', publisher: '', protocol: 'kafka', contentType: '' })
})

describe('a message is faulty', () => {
  test.each([null, ''])('without a key: %j', key => {
    expect(envelopeOf({ key, headers: [['publisher', 't1']] })).toMatchObject({ fault: { rule: 'no-key' }, channel: '', publisher: 't1' })
  })

  test('whose key is not text', () => expect(envelopeOf({ key: notUtf8 })).toMatchObject({ fault: { rule: 'key-text' }, channel: '' }))

  test('without a value: a tombstone deletes nothing here', () =>
    expect(envelopeOf({ value: null })).toMatchObject({ fault: { rule: 'no-value' }, channel: 'c1', payload: '' }))

  test('but not with an empty value', () => expect(envelopeOf({ value: '' })).toMatchObject({ fault: undefined, payload: '' }))

  test.each(['subtopic', 'publisher', 'protocol', 'content-type'])('whose header %s is not text', name => {
    const message = envelopeOf({ headers: [[name, notUtf8]] })
    expect(message).toMatchObject({ fault: { rule: 'header', reason: `the header ${name} is not UTF-8` }, channel: 'c1' })
    expect([message.subtopic, message.publisher, message.contentType]).toEqual(['', '', ''])
    if (name === 'protocol') expect(message.protocol).toBe('')
  })

  test.each(['soon', '1.5', '99999999999999999999'])('whose header created is %j', value =>
    expect(envelopeOf({ headers: [['created', value]] })).toMatchObject({
      fault: { rule: 'created', reason: expect.stringMatching(/^the header created is not a time within /) as string },
      channel: 'c1',
      createdUs: 0,
      createdRestNs: 0,
    }),
  )

  test.each([2n ** 62n, -(2n ** 62n), 9_007_199_254_741n])('whose timestamp is %s if created is missing', baseTimestamp => {
    expect(envelopeOf({}, { baseTimestamp })).toMatchObject({ fault: { rule: 'created' }, createdUs: 0 })
    expect(envelopeOf({ headers: [['created', '1000']] }, { baseTimestamp })).toMatchObject({ fault: undefined, createdUs: 1 })
  })

  test('but not the messages before and after it', () => {
    const set = encodeBatch([{}, { key: null, headers: [['created', 'x']] }, { headers: [['created', '1000']] }])
    expect(messagesOf(set).map(({ fault, createdUs }) => [fault?.rule, createdUs])).toEqual([
      [undefined, 1_700_000_000_000_000],
      ['no-key', 0],
      [undefined, 1],
    ])
  })
})

test('a timestamp of -1 means none: created is unknown', () =>
  expect(envelopeOf({}, { baseTimestamp: -1 })).toMatchObject({ fault: undefined, createdUs: 0 }))

test('a UUID as channel or publisher is in lower case, whatever its spelling; other ids and other parts are as they were sent', () => {
  const sent = '7ACB5F9E-3C0E-4a57-9D0A-5F9F0A3C1B77'
  const others = ['7ACB5F9E-3C0E-4A57-9D0A-5F9F0A3C1B7G', '7ACB5F9E3C0E4A579D0A5F9F0A3C1B77', 'Gateway', 'X'.repeat(36), `${sent} `]
  const records = [sent, sent.toLowerCase(), ...others].flatMap((id): RecordFields[] => [
    { key: id, headers: [['subtopic', id]] },
    { key: 'k', headers: [['publisher', id]] },
  ])
  // Twice, since texts are cached, and at the end of the bytes they are not.
  const messages = messagesOf(encodeBatch([...records, ...records, { key: sent, value: '' }]))
  const stored = [sent.toLowerCase(), sent.toLowerCase(), ...others]
  const expected = [sent, sent.toLowerCase(), ...others].flatMap((id, at) => [
    [stored[at], id, ''],
    ['k', '', stored[at]],
  ])
  expect(messages.map(({ channel, subtopic, publisher }) => [channel, subtopic, publisher])).toEqual([
    ...expected,
    ...expected,
    [sent.toLowerCase(), '', ''],
  ])
})

test('texts of every kind and length are decoded unchanged, in any order and repeatedly', () => {
  const texts = [
    'a',
    'ab',
    'abc',
    'abcd',
    'ünï',
    '日本',
    '😀',
    '\uFEFFx',
    'a\0b',
    ...Array.from({ length: 80 }, (_, at) => 'x'.repeat(at)),
    'é'.repeat(40),
  ]
  const doubled = [...texts, ...texts.toReversed(), ...texts]
  const set = encodeBatch(
    doubled.map(text => ({
      key: `k${text}`,
      headers: [
        ['subtopic', text],
        ['publisher', `p${text}`],
      ] as const,
    })),
  )
  expect(messagesOf(set).map(({ channel, subtopic, publisher }) => [channel, subtopic, publisher])).toEqual(
    doubled.map(text => [`k${text}`, text, `p${text}`]),
  )
})

test.each<[string, (at: number) => string]>([
  ['that differ in their middle', at => `id-${at * 7919}-temperature`],
  ['that differ at their end', at => `urn:dev:mac:0024befffe80${at}`],
  ['of which every other has a NUL more', at => `${at >> 1}${(at & 1) === 0 ? '' : '\0'}`],
])('more texts than the cache holds are decoded correctly: %s', (_, textOf) => {
  const texts = Array.from({ length: 60_000 }, (_, at) => textOf(at))
  const set = encodeBatch(texts.map(key => ({ key })))
  for (let turn = 0; turn < 2; turn++) {
    const read = messagesOf(set, { chunkBytesMax: 1 << 26, chunkMessagesMax: 1e6 })
    expect(read.findIndex(({ channel }, at) => channel !== texts[at])).toBe(-1)
  }
})

test('a header says that a message was published with the retain flag, the last one if it is repeated', () => {
  const flags = [['1'], ['0', '1'], ['1', null], ['1', '0'], [notUtf8], []].map(values => ({
    headers: [['retain', '1'] as const, ...values.map(value => ['mqtt-retain', value] as const)],
  }))
  const cursor = fetch(encodeBatch(flags))[0]!.cursor()
  expect(flags.map(() => cursor.next() && cursor.isRetained!())).toEqual([true, true, false, false, false, false])
})

test('key and headers are available unchanged for dead letters', () => {
  const headers = [
    ['subtopic', 'a'],
    ['x', null],
    ['x', ''],
    ['blob', notUtf8],
    ['created', 'soon'],
    ['\uFEFFb', '\uFEFFv'],
  ] as const
  const [chunk] = fetch(encodeBatch([{ key: notUtf8, headers }, { key: null }, { key: '' }]))
  const cursor = chunk!.cursor()
  expect(cursor.next()).toBe(true)
  expect(cursor.key()).toEqual(notUtf8)
  expect(cursor.headers()).toEqual(headers.map(([key, value]) => ({ key, value })))
  cursor.next()
  expect([cursor.key(), cursor.headers()]).toEqual([null, []])
  cursor.next()
  expect(cursor.key()).toEqual(new Uint8Array(0))
  expect(cursor.next()).toBe(false)
  expect(cursor.next()).toBe(false)
})

test('a message with a thousand headers is decoded; with more it is a dead letter without any of them', () => {
  const headers = (count: number) => Array.from({ length: count }, () => ['', null] as const)
  expect(envelopeOf({ headers: [['subtopic', 'a'], ...headers(999)] })).toMatchObject({ fault: undefined, subtopic: 'a' })

  const chunk = fetch(encodeBatch([{ headers: [['subtopic', 'a'], ...headers(1000)] }, { value: '[2]' }]))[0]!
  const cursor = chunk.cursor()
  cursor.next()
  expect(cursor.message).toMatchObject({ channel: 'c1', subtopic: '', fault: { rule: 'header-limit' } })
  expect(cursor.headers()).toEqual([])
  expect(Buffer.from(cursor.key()!).toString()).toBe('c1')
  cursor.next()
  expect(cursor.message).toMatchObject({ offset: 1, fault: undefined })
})

test('a reader of dead letters takes those of messages with a thousand headers, which have more', () => {
  const letter = { headers: Array.from({ length: 1024 }, () => ['', null] as const) }
  const cursor = fetch(encodeBatch([letter]), { headersMax: deadLetterHeadersMax })[0]!.cursor()
  cursor.next()
  expect(cursor.message.fault).toBeUndefined()
  expect(cursor.headers()).toHaveLength(1024)
})
