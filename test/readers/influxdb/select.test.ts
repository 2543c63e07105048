// What the InfluxDB reader asks: the channel in every part of it, and texts of strangers as literals alone.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { type Finder, searchOf } from '../../../readers/influxdb/finders.ts'
import { fluxCompared } from '../../../readers/influxdb/flux-number.ts'
import { openInfluxdbReader } from '../../../readers/influxdb/reader.ts'
import { selectRows } from '../../../readers/influxdb/select.ts'
import type { Comparator, PageQuery, Selection } from '../../../readers/query.ts'
import type { Answer } from '../../../sinks/influxdb/annotated-csv.ts'
import type { Connection } from '../../../sinks/influxdb/connection.ts'
import { fluxText } from '../../../sinks/influxdb/flux.ts'
import { aggregateQuery, formatsQuery, pageQuery } from '../../conformance/reader/index.ts'

const signal = new AbortController().signal

const hostile = fc.oneof(
  fc.constantFrom('"', '\\', '\\"', '") |> drop(columns: ["x"]) //', '${r.x}', 'a\nb\r', "' or 1==1", '// ', '/* ', ' |> yield()'),
  fc.string({ unit: 'grapheme', minLength: 1, maxLength: 20 }),
)
const comparator = fc.constantFrom<Comparator>('eq', 'lt', 'le', 'gt', 'ge')
const optional = <Value>(arbitrary: fc.Arbitrary<Value>) => fc.option(arbitrary, { nil: undefined })
const texts = {
  publisher: optional(hostile),
  subtopic: optional(hostile),
  protocol: optional(hostile),
  name: optional(hostile),
  unit: optional(hostile),
  stringValue: optional(hostile),
}
const selections: fc.Arbitrary<Partial<Selection>> = fc.record({
  ...texts,
  value: optional(fc.record({ comparator, number: fc.double({ noNaN: true, noDefaultInfinity: true }) })),
  boolValue: optional(fc.boolean()),
  dataValue: optional(fc.uint8Array({ maxLength: 20 })),
  fromNs: optional(fc.bigInt(-(2n ** 60n), 2n ** 60n)),
  toNs: optional(fc.bigInt(-(2n ** 60n), 2n ** 60n)),
})
const documentSelections: fc.Arbitrary<Partial<Selection>> = fc.record({
  format: hostile.filter(text => text !== 'messages'),
  publisher: texts.publisher,
  subtopic: texts.subtopic,
  protocol: texts.protocol,
  payload: fc.array(
    fc.record({ path: fc.array(hostile, { minLength: 1, maxLength: 3 }), text: fc.oneof(hostile, fc.constantFrom('true', '1.5', '-2')) }),
    { maxLength: 2 },
  ),
  fromNs: optional(fc.bigInt(-(2n ** 60n), 2n ** 60n)),
})

/** A connection that remembers what it was asked. Where a question's range has the microsecond 5, it answers with a line of hostile tags. */
function answeringConnection(asked: string[]): Connection {
  const names = ['result', '_time', '_value', '_field', 'publisher', 'subtopic', 'name', 'unit']
  const columns = { types: names.map(() => 'string'), places: new Map(names.map((name, place) => [name, place])) }
  return {
    bucket: 'b',
    query(flux: string): Answer {
      asked.push(flux)
      const result = flux.includes('aggregateWindow') ? 'count' : '0'
      const cells = [result, '1970-01-01T00:00:00.000005Z', '1', '/position', '") |> drop() //', '\\"', '${r.x}', '']
      const [, start, stop] = /start: time\(v: (-?\d+)\), stop: time\(v: (-?\d+)\)/.exec(flux)!
      return (async function* () {
        if (BigInt(start!) <= 5_000n && BigInt(stop!) > 5_000n) yield [{ columns, cells }]
      })()
    },
    ask: async () => ({ buckets: [] }),
  } as unknown as Connection
}

async function everyQuestion(some: Partial<PageQuery>): Promise<string[]> {
  const asked: string[] = []
  const reader = openInfluxdbReader({ connection: answeringConnection(asked), options: { queryTimeoutMs: 30_000 } })
  const query = pageQuery({ channel: 'c', ...some })
  await reader.read(query, signal)
  await reader.read({ ...query, direction: 'asc', after: { timeNs: 5_000_000n, position: 1n, index: 0 } }, signal)
  await reader.read({ ...query, offset: 100_000, limit: 10 }, signal)
  await reader.count(query, 100, signal)
  await reader.latest(query, signal)
  for (const aggregation of ['avg', 'last'] as const) await reader.aggregate(aggregateQuery({ channel: 'c', ...some, aggregation }), signal)
  if (query.payload.length === 0) await reader.formats(formatsQuery({ channel: query.channel, publisher: query.publisher }), signal)
  return asked
}

test('every part of every question names the channel, and a measurement or the position', async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(selections, documentSelections), hostile, async (some, channel) => {
      for (const flux of await everyQuestion({ ...some, channel })) {
        const sources = flux.split('from(bucket: ').slice(1)
        expect(sources.length).toBeGreaterThan(0)
        for (const source of sources) {
          const [, measurement, series] = source.split(' |> filter(fn: (r) => ')
          expect(measurement).toMatch(/^r\._measurement == "|^r\["_field"\] == "\/position"/)
          expect(series!.startsWith(`r["channel"] == ${fluxText(channel)}`)).toBe(true)
        }
      }
    }),
    { numRuns: 200 },
  )
})

/** With other values of the same filters. */
function withOthers(some: Partial<Selection>, text: string): Partial<Selection> {
  const other = <Value>(value: Value): Value | string | undefined => (value === undefined ? undefined : text)
  return {
    ...some,
    ...Object.fromEntries(Object.keys(texts).map(name => [name, other(some[name as keyof Selection])])),
  }
}

const literal = /"(?:[^"\\]|\\x[0-9a-f]{2})*"/g

test('the text of a stranger changes a literal and nothing else', async () => {
  await fc.assert(
    fc.asyncProperty(selections, hostile, async (some, text) => {
      const shapes = async (given: Partial<Selection>) => (await everyQuestion(given)).map(flux => flux.replaceAll(literal, '"…"'))
      expect(await shapes(withOthers(some, text))).toEqual(await shapes(withOthers(some, 'x')))
    }),
    { numRuns: 200 },
  )
})

test('rows are read by the tags of the row that was found, an absent tag by its absence', () => {
  const tags = { publisher: 'p', subtopic: '', name: 'n"', unit: '' }
  const flux = selectRows('b', pageQuery({ channel: 'c' }), [{ startUs: 5, endUs: 6, tags }])
  expect(flux).toContain(
    `range(start: time(v: 5000), stop: time(v: 6000)) |> filter(fn: (r) => r._measurement == "messages") |> filter(fn: (r) => r["channel"] == "c" and r["publisher"] == "p" and not exists r["subtopic"] and r["name"] == "n\\x22" and not exists r["unit"])`,
  )
})

test('a number is a literal of all its digits, with a sign before it only where Flux compares', () => {
  expect(fluxCompared('eq', 5e-324).filter).toMatch(/== 0\.0{323}5\)$/)
  expect(fluxCompared('lt', -1.5)).toEqual({
    filter: ' |> filter(fn: (r) => r._value < 0.0)',
    rowFilter: ' |> filter(fn: (r) => r._value < -1.5)',
  })
  expect(fluxCompared('ge', -0)).toEqual({ filter: ' |> filter(fn: (r) => r._value >= 0.0)', rowFilter: '' })
  fc.assert(
    fc.property(fc.double({ noNaN: true, noDefaultInfinity: true }), comparator, (number, how) => {
      const { filter, rowFilter } = fluxCompared(how, number)
      const [, text] = /[<>=] (-?\d+\.\d+)\)$/.exec(rowFilter || filter)!
      expect(Number(text) === number).toBe(true)
    }),
  )
})

const finders = (some: Partial<Selection>): readonly Finder[] => searchOf(pageQuery(some)).finders

test('a field of a payload is looked for in every type that has the asked text', () => {
  const types = (text: string) =>
    finders({ format: 'f', payload: [{ path: ['a', 'b'], text }] }).map(({ filter }) => filter.slice(' |> filter(fn: (r) => '.length))
  expect(types('x')).toEqual(['r._value == "x")'])
  expect(types('true')).toEqual(['r._value == "true")', 'r._value == true)'])
  expect(types('21.5')).toEqual(['r._value == "21.5")', 'r._value == 21.5)'])
  expect(types('1e+21')).toEqual(['r._value == "1e\\x2b21")', `r._value == 1${'0'.repeat(21)}.0)`])
  for (const text of ['1.0', '', '-0', 'Infinity', ' 1', '0x1', 'null']) expect(types(text)).toHaveLength(1)
  expect(finders({ format: 'f', payload: [{ path: ['a', 'b'], text: 'x' }] })[0]!.field).toBe('a/b')
})

test('a key that no document has in this store is looked for nowhere', async () => {
  for (const path of [['a/b'], ['a', ''], ['/position']]) {
    const payload = [
      { path: ['b'], text: '1' },
      { path, text: '1' },
    ]
    expect(finders({ format: 'f', payload })).toEqual([])
    expect(await everyQuestion({ format: 'f', payload })).toEqual([])
  }
})
