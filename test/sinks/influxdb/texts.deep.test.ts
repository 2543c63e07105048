// Any text in tags, field keys, string values, queries and deletes, through the real server and back: as it was, or refused before.

import * as fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { cell, fluxFrom, fluxText, fluxWhere } from '../../../sinks/influxdb/connection.ts'
import { fieldKeyText, stringText, tagText } from '../../../sinks/influxdb/line-protocol.ts'
import type { StoredPoint } from '../../../sinks/influxdb/registry.ts'
import { describeWithInflux } from '../../servers/influx.ts'
import { lineOf, predicateOf, removePoints, timestampOf } from './points.ts'
import { type InfluxStore, openStore } from './store.ts'

const marks = [
  '\\',
  ',',
  '=',
  ' ',
  '"',
  "'",
  '\t',
  '#',
  '$',
  '{',
  '}',
  '/',
  '_',
  'a',
  'Z',
  '0',
  'ü',
  '€',
  '😀',
  '\u0001',
  '\u007f',
  '\u2028',
  '\ufeff',
]
const mark = fc.constantFrom(...marks)
/** Short ones of marks alone are the hard ones. */
const hostile = fc.oneof(
  fc.string({ unit: mark, minLength: 1, maxLength: 6 }),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 12 }),
)
const lineEnds = fc.string({ unit: fc.constantFrom('\n', '\r', '\\', '"', 'n', 'r', ',', 'ü'), maxLength: 8 })

describeWithInflux('texts', influx => {
  let store: InfluxStore

  beforeAll(async () => {
    store = await openStore(influx, { poisons: {} })
    // Makes the registry.
    await (await store.open()).close()
  })
  afterAll(() => store.close())

  /** Writes many points at once, each at a nanosecond of its own, and reads them back by these. */
  async function throughServer(points: readonly StoredPoint[]): Promise<StoredPoint[]> {
    await removePoints(store.options, timestampOf(-1n), timestampOf(10n ** 18n), '')
    await store.put(...points.map(lineOf))
    return (await store.points()).sort((one, other) => Number(one.ns - other.ns))
  }

  test('tags, field keys and string values', async () => {
    const point = fc.record({
      channel: hostile.filter(text => tagText(text) !== undefined),
      unit: hostile.filter(text => tagText(text) !== undefined),
      key: hostile.filter(text => fieldKeyText(text) !== undefined && text !== 'time'),
      value: fc.oneof(hostile, lineEnds, fc.string({ unit: 'binary' })).filter(text => stringText(text) !== undefined),
      number: fc.oneof(fc.double({ noNaN: true, noDefaultInfinity: true }), fc.integer()),
    })
    await fc.assert(
      fc.asyncProperty(fc.array(point, { minLength: 100, maxLength: 200 }), async given => {
        const points = given.map(
          ({ channel, unit, key, value, number }, at): StoredPoint => ({
            measurement: 'm',
            tags: new Map([
              ['channel', channel],
              ['unit', unit],
            ]),
            ns: BigInt(at),
            // A type is fixed by its first value, so each value has a key of its own.
            fields: new Map<string, string | number>([
              ['/first', 1],
              [`s${key}`, value],
              [`n${key}`, number],
              [`${key}x`, true as unknown as number],
            ]),
          }),
        )
        const found = await throughServer(points)
        const plain = (some: readonly StoredPoint[]) => some.map(({ tags, ns, fields }) => [ns, [...tags], Object.fromEntries(fields)])
        expect(plain(found)).toEqual(
          plain(points).map(([ns, tags, fields]) => [
            ns,
            tags,
            Object.fromEntries(Object.entries(fields as object).map(([key, value]) => [key, value === 0 ? 0 : (value as unknown)])),
          ]),
        )
      }),
      { numRuns: 8 },
    )
  })

  test('long texts', async () => {
    const points: StoredPoint[] = [
      { measurement: 'm', tags: new Map([['unit', 'ü'.repeat(32_000)]]), ns: 0n, fields: new Map([['v', 1]]) },
      { measurement: 'm', tags: new Map(), ns: 1n, fields: new Map([[`k${'ü'.repeat(32_000)}`, 1]]) },
      { measurement: 'm', tags: new Map(), ns: 2n, fields: new Map([['text', 'x'.repeat(65_537)]]) },
      { measurement: 'm', tags: new Map(), ns: 3n, fields: new Map([['text', '\\'.repeat(1_048_576)]]) },
    ]
    expect(await throughServer(points)).toEqual(points)
  })

  test('a Flux literal evaluates to its text', async () => {
    const text = fc.oneof(
      hostile,
      lineEnds,
      fc.string({ unit: 'binary' }).filter(one => one.isWellFormed() && !one.includes('\0')),
    )
    await fc.assert(
      fc.asyncProperty(fc.array(text, { minLength: 50, maxLength: 100 }), async texts => {
        const rows = texts.map(
          (one, at) =>
            `{at: ${at}, is: ${fluxText(one)} == string(v: bytes(v: ${fluxText(one)})), hex: display(v: bytes(v: ${fluxText(one)}))}`,
        )
        const found: string[] = []
        for await (const page of store.connection.query(`import "array"\narray.from(rows: [${rows.join(', ')}])`)) {
          for (const row of page) found.push(cell(row, 'hex')!)
        }
        expect(found).toEqual(texts.map(one => `0x${Buffer.from(one).toString('hex')}`))
      }),
      { numRuns: 10 },
    )
  })

  test('a filter and a delete match only the point with these tags', async () => {
    const { connection } = store
    const tag = hostile.filter(text => tagText(text) !== undefined)
    await fc.assert(
      fc.asyncProperty(fc.uniqueArray(tag, { minLength: 4, maxLength: 12 }), async values => {
        const points = values.map(
          (channel, at): StoredPoint => ({ measurement: 'm', tags: new Map([['channel', channel]]), ns: 5n, fields: new Map([['v', at]]) }),
        )
        await throughServer(points)
        const [one, other] = values
        const found: string[] = []
        for await (const page of connection.query(fluxFrom(connection.bucket) + fluxWhere({ _measurement: 'm', channel: other! }))) {
          for (const row of page) found.push(cell(row, '_value')!)
        }
        expect(found).toEqual(['1'])
        await removePoints(store.options, timestampOf(5n), timestampOf(5n), predicateOf({ _measurement: 'm', channel: one! }))
        expect(new Set((await store.points()).map(({ tags }) => tags.get('channel')))).toEqual(new Set(values.slice(1)))
      }),
      { numRuns: 25 },
    )
  })

  test('the server silently drops the field "time"', async () => {
    const points = await throughServer([
      {
        measurement: 'm',
        tags: new Map(),
        ns: 1n,
        fields: new Map([
          ['time', 1],
          ['other', 2],
        ]),
      },
    ])
    expect(points.map(({ fields }) => [...fields])).toEqual([[['other', 2]]])
  })
})
