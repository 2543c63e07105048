// Batches as line protocol: what a line holds, what is refused before it is sent, and what keeps rows of one instant apart.

import * as fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { encode } from '../../../sinks/influxdb/encode.ts'
import { batchOf, noonUs, type TestMessage } from '../batches.ts'

const noonMs = noonUs / 1000

function linesOf(messages: readonly TestMessage[], partition = 0): string[] {
  const { lines } = encode(batchOf(0, 2 ** 44 - 1, messages, partition), [1])
  return Buffer.from(lines.bytes).toString().split('\n').slice(0, -1)
}

const refusedOf = (message: TestMessage) => [
  ...encode(batchOf(0, 100, [{ offset: 0, records: [{ value: 1 }] }, message]), [1]).rejected.values(),
]

describe('lines', () => {
  test('of a record and of a document', () => {
    expect(
      linesOf([
        {
          offset: 12_345,
          records: [
            { value: 1.5, unit: 'Cel', sum: 0, updateTime: 60 },
            { name: 'on', boolValue: false },
          ],
        },
      ]),
    ).toEqual([
      `messages,channel=channel-1,name=temperature,publisher=thing-1,subtopic=room,unit=Cel /index=0i,/position=72057594037940281i,protocol="http",value=1.5,sum=0,updateTime=60 ${noonMs}012345`,
      `messages,channel=channel-1,name=on,publisher=thing-1,subtopic=room /index=1000i,/position=72057594037940281i,protocol="http",boolValue=false ${noonMs}012345`,
    ])
    const payload = { 'd/tmp': 1, on: true, text: 'a "b" \\', protocol: 'x' }
    expect(
      linesOf([
        {
          offset: 1,
          publisher: '',
          documents: [
            { format: 'engine', payload, createdRestNs: 7 },
            { format: 'engine', payload: {} },
          ],
        },
      ]),
    ).toEqual([
      `engine,channel=channel-1,subtopic=room /index=0i,/created=${noonUs}007i,/position=72057594037927937i,/protocol="http",d/tmp=1,on//bool=true,text//text="a \\"b\\" \\\\",protocol//text="x" ${noonMs}000001`,
      `engine,/nth=1,channel=channel-1,subtopic=room /index=1000i,/created=${noonUs}000i,/position=72057594037927937i,/protocol="http" ${noonMs}000001`,
    ])
  })

  test('a key has a field for each type, none of which another key may have', () => {
    const lines = linesOf([
      {
        offset: 0,
        documents: [
          { format: 'engine', payload: { t: 1 } },
          { format: 'engine', payload: { t: 'a' } },
          { format: 'engine', payload: { t: true } },
          { format: 'engine', payload: { 't/text': 1, 't/bool': 2 } },
        ],
      },
    ])
    expect(lines.map(line => /"http",(\S+) /.exec(line)?.[1])).toEqual(['t=1', 't//text="a"', 't//bool=true', 't/text=1,t/bool=2'])
  })

  test('reuse the buffer of another batch, even if it is too small', () => {
    const messages = [{ offset: 1, records: [{ name: 'ü'.repeat(300), value: 1 }, { value: 2 }] }]
    for (const bytes of [1, 900, 100_000]) {
      const { lines } = encode(batchOf(0, 2, messages), [1], Buffer.alloc(bytes, 'x'))
      expect(Buffer.from(lines.bytes).toString().split('\n').slice(0, -1)).toEqual(linesOf(messages))
    }
  })
})

/** By its definition: how many before it in the message have its series and its millisecond. */
function expectedOrdinals(rows: readonly { series: string; timeUs: number }[]): number[] {
  const ms = (timeUs: number): number => Math.floor(timeUs / 1000)
  return rows.map(
    ({ series, timeUs }, at) => rows.slice(0, at).filter(row => row.series === series && ms(row.timeUs) === ms(timeUs)).length,
  )
}

const nthOf = (line: string): number => {
  const [series] = line.split(' ', 1)
  return Number(/,\/?nth=(\d+)/.exec(series!)?.[1] ?? 0)
}

describe('ordinals', () => {
  const timestamps = fc.array(fc.constantFrom(0, 1, 999, 1000, 2000), { minLength: 1, maxLength: 60 })

  test('of records with the same series and millisecond', () => {
    // Mostly one series and one instant, so that many rows share both.
    const names = fc.constantFrom('a', 'a', 'a', 'a', 'b', 'a\0')
    const rows = fc.array(fc.record({ name: names, unit: fc.constantFrom(undefined, '', 'C'), time: fc.constantFrom(0, 0, 1, 1000) }), {
      maxLength: 60,
    })
    fc.assert(
      fc.property(rows, given => {
        const sorted = given.filter(({ name }) => name !== 'a\0').sort((one, other) => one.time - other.time)
        if (sorted.length === 0) return
        const records = sorted.map(({ name, unit, time }) => ({
          name,
          timeUs: noonUs + time,
          value: 1,
          ...(unit === undefined ? {} : { unit }),
        }))
        const expected = expectedOrdinals(records.map(({ name, unit, timeUs }) => ({ series: `${name} ${unit ?? ''}`, timeUs })))
        expect(linesOf([{ offset: 0, records }]).map(nthOf)).toEqual(expected)
      }),
    )
  })

  test('of documents, whose times come in any order', () => {
    fc.assert(
      fc.property(timestamps, times => {
        const documents = times.map(time => ({ format: 'engine', payload: { time2: time }, createdUs: noonUs + time }))
        expect(linesOf([{ offset: 0, documents }]).map(nthOf)).toEqual(expectedOrdinals(times.map(timeUs => ({ series: '', timeUs }))))
      }),
    )
  })

  test('of many different documents with the same time', () => {
    const documents = Array.from({ length: 40 }, () => ({ format: 'engine', payload: { time2: 0 }, createdUs: noonUs }))
    expect(linesOf([{ offset: 0, documents }]).map(nthOf)).toEqual(documents.map((_, nth) => nth))
  })

  test('start again with each message', () => {
    const records = [{ value: 1 }, { value: 2 }]
    expect(
      linesOf([
        { offset: 0, records },
        { offset: 1, records },
      ]).map(nthOf),
    ).toEqual([0, 1, 0, 1])
  })
})

describe('what is refused before it is sent', () => {
  const document = (payload: Record<string, string | number>): TestMessage => ({
    offset: 1,
    documents: [
      { format: 'engine', payload: { a: 1 } },
      { format: 'engine', payload },
    ],
  })
  /** As long as a key may be beside the tags of these documents, of which the second has an ordinal. */
  const keyOfMost = 'k'.repeat(65_535 - 4 - 'engine,/nth=1,channel=channel-1,publisher=thing-1,subtopic=room'.length)

  test.each([
    'time',
    '_time',
    '_field',
    '_measurement',
    '_value',
    '_start',
    '_stop',
    'channel',
    '',
    '/own',
    'a\\',
    'a\\,b',
    'a\nb',
    'a\rb',
    'a\0b',
    '\ud800',
  ])('the key %j', key => {
    expect(refusedOf(document({ [key]: 1 }))).toEqual([expect.objectContaining({ message: 1, record: 1, rule: 'reserved-key' })])
  })

  test.each(['times', 'd/time', 'table', 'result', 'a,b', 'a=b', 'a b', '"', 'a\\b', '😀', '#', 'error'])('not the key %j', key => {
    expect(refusedOf(document({ [key]: 1 }))).toEqual([])
  })

  test.each([
    ['a tag', 'store-refused', { offset: 1, records: [{ value: 1 }, { value: 1, unit: 'a\\' }] }],
    ['a text', 'store-refused', { offset: 1, records: [{ value: 1 }, { stringValue: 'a\0' }] }],
    ['a text too long', 'store-refused', { offset: 1, records: [{ value: 1 }, { stringValue: 'ü'.repeat(524_289) }] }],
    ['bytes too many', 'store-refused', { offset: 1, records: [{ value: 1 }, { dataValue: new Uint8Array(786_433) }] }],
    ['a time', 'store-refused', { offset: 1, records: [{ value: 1 }, { value: 1, timeUs: 2 ** 53 }] }],
    ['a series', 'identifier-length', { offset: 1, records: [{ value: 1 }, { value: 1, name: 'n'.repeat(65_500) }] }],
    ['a long key', 'identifier-length', document({ [`k${'ü'.repeat(33_000)}`]: 1 })],
    ['a key too long with its type', 'identifier-length', document({ [keyOfMost]: 'x' })],
  ] satisfies [string, string, TestMessage][])('%s rejects the whole message', (_what, rule, message) => {
    expect(refusedOf(message)).toEqual([expect.objectContaining({ message: 1, record: 1, rule })])
    expect(linesOf([message])).toEqual([])
  })

  test('not the longest key of a number', () => {
    expect(refusedOf(document({ [keyOfMost]: 1 }))).toEqual([])
    expect(refusedOf(document({ [`${keyOfMost}k`]: 1 }))).toEqual([expect.objectContaining({ rule: 'identifier-length' })])
  })

  test('ids that are too long together', () => {
    expect(refusedOf({ offset: 1, publisher: 'p'.repeat(2100), records: [{ value: 1 }] })).toEqual([
      expect.objectContaining({ message: 1, rule: 'identifier-length' }),
    ])
    expect(refusedOf({ offset: 1, publisher: 'p'.repeat(2000), records: [{ value: 1 }] })).toEqual([])
  })

  test('a nested payload is an error of the caller', () => {
    for (const value of [{ b: 1 }, null, [1], 1n, Number.NaN]) {
      expect(() => linesOf([{ offset: 0, documents: [{ format: 'engine', payload: { a: value } }] }])).toThrow(RangeError)
    }
  })
})
