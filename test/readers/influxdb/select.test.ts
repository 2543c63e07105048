// What the InfluxDB reader asks: the channel in every part of it, and texts of strangers as literals alone.

import { createFluxTableColumn, createFluxTableMetaData } from '@influxdata/influxdb-client'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { openInfluxdbReader } from '../../../readers/influxdb/reader.ts'
import { type Finder, fluxCompared, searchOf, selectRows } from '../../../readers/influxdb/select.ts'
import type { Comparator, Filter, PageQuery } from '../../../readers/reader.ts'
import { type Answer, type Connection, fluxText } from '../../../sinks/influxdb/connection.ts'
import { encode } from '../../../sinks/influxdb/encode.ts'
import { aggregateQuery, formatsQuery, pageQuery } from '../../conformance/reader/index.ts'
import { batchOf, fullRecord } from '../../sinks/batches.ts'

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
const filters: fc.Arbitrary<Partial<Filter>> = fc.record({
  ...texts,
  value: optional(fc.record({ comparator, number: fc.double({ noNaN: true, noDefaultInfinity: true }) })),
  boolValue: optional(fc.boolean()),
  dataValue: optional(fc.uint8Array({ maxLength: 20 })),
  fromNs: optional(fc.bigInt(-(2n ** 60n), 2n ** 60n)),
  toNs: optional(fc.bigInt(-(2n ** 60n), 2n ** 60n)),
})
const documentFilters: fc.Arbitrary<Partial<Filter>> = fc.record({
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

/** A connection that remembers what it was asked. Where a query's range has the millisecond 5, it answers with a line of hostile tags. */
function answeringConnection(asked: string[]): Connection {
  const names = ['result', '_time', '_value', '_field', 'publisher', 'subtopic', 'name', 'unit']
  const tableMeta = createFluxTableMetaData(names.map(label => createFluxTableColumn({ label, dataType: 'string' })))
  return {
    bucket: 'b',
    query(flux: string): Answer {
      asked.push(flux)
      const result = flux.includes('aggregateWindow') ? 'count' : '0'
      const values = [result, '1970-01-01T00:00:00.005Z', '1', '/position', '") |> drop() //', '\\"', '${r.x}', '']
      const [, start, stop] = /start: time\(v: (-?\d+)\), stop: time\(v: (-?\d+)\)/.exec(flux)!
      return (async function* () {
        if (BigInt(start!) <= 5_000_000n && BigInt(stop!) > 5_000_000n) yield [{ tableMeta, values }]
      })()
    },
  } as unknown as Connection
}

async function everyQuery(some: Partial<PageQuery>): Promise<string[]> {
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

const literal = /"(?:[^"\\]|\\.)*"/gs

test('every part of every query contains the channel, and a measurement or the position', async () => {
  await fc.assert(
    fc.asyncProperty(fc.oneof(filters, documentFilters), hostile, async (some, channel) => {
      for (const flux of await everyQuery({ ...some, channel })) {
        const literals: string[] = []
        const plain = flux.replaceAll(literal, one => `"${literals.push(one) - 1}"`)
        const whole = (part: string): string => part.replaceAll(/"(\d+)"/g, (_all, at: string) => literals[Number(at)]!)
        const sources = plain.split('from(bucket: ').slice(1)
        expect(sources.length).toBeGreaterThan(0)
        for (const source of sources) {
          const [, measurement, series] = source.split(' |> filter(fn: (r) => ')
          expect(whole(measurement!)).toMatch(/^r\._measurement == "|^r\["_field"\] == "\/position"/)
          expect(whole(series!).startsWith(`r["channel"] == ${fluxText(channel)}`)).toBe(true)
        }
      }
    }),
    { numRuns: 200 },
  )
})

/** With other values of the same filters. */
function withOthers(some: Partial<Filter>, text: string): Partial<Filter> {
  const other = <Value>(value: Value): Value | string | undefined => (value === undefined ? undefined : text)
  return {
    ...some,
    ...Object.fromEntries(Object.keys(texts).map(name => [name, other(some[name as keyof Filter])])),
  }
}

test('untrusted text changes only a literal', async () => {
  await fc.assert(
    fc.asyncProperty(filters, hostile, async (some, text) => {
      const shapes = async (given: Partial<Filter>) => (await everyQuery(given)).map(flux => flux.replaceAll(literal, '"…"'))
      expect(await shapes(withOthers(some, text))).toEqual(await shapes(withOthers(some, 'x')))
    }),
    { numRuns: 200 },
  )
})

test('rows are read by the tags of the row that was found, a missing tag by its absence', () => {
  const tags = { publisher: 'p', subtopic: '', name: 'n"', unit: '' }
  const flux = selectRows('b', pageQuery({ channel: 'c' }), [{ startMs: 5, endMs: 6, tags }])
  expect(flux).toContain(
    `range(start: time(v: 5000000), stop: time(v: 6000000)) |> filter(fn: (r) => r._measurement == "messages") |> filter(fn: (r) => r["channel"] == "c" and r["publisher"] == "p" and not exists r["subtopic"] and r["name"] == "n\\x22" and not exists r["unit"])`,
  )
})

test('each text of a record is asked for by its name: one that is empty or has a line end would come back changed', () => {
  const { value: _value, ...others } = fullRecord
  const records = [
    { ...others, stringValue: 'x' },
    { ...others, dataValue: Uint8Array.of(1) },
  ]
  const written = Buffer.from(encode(batchOf(0, 1, [{ offset: 0, records }]), [1]).lines.bytes).toString()
  const texts = new Set([...written.matchAll(/[ ,](\w+)="/g)].map(([, field]) => field!))
  expect([...texts].sort()).toEqual(expect.arrayContaining(['dataValue', 'protocol', 'stringValue']))
  const flux = selectRows('b', pageQuery({ channel: 'c' }), [{ startMs: 5, endMs: 6 }])
  expect([...texts].filter(field => !flux.includes(`r._field == ${fluxText(field)}`))).toEqual([])
})

test('so is each text of a document, by the end of its name', () => {
  const payload = { number: 1, text: 'x', 'd/text': 'y', boolean: true, 'text/number': 2 }
  const written = Buffer.from(encode(batchOf(0, 1, [{ offset: 0, documents: [{ format: 'f', payload }] }]), [1]).lines.bytes).toString()
  const fields = [...written.matchAll(/[ ,]([\w/]+)=("?)[^, ]*/g)]
    // After channel, publisher and subtopic.
    .slice(3)
    .map(([, field, quote]) => ({ field: field!, isText: quote === '"' }))
  const flux = selectRows('b', pageQuery({ channel: 'c', format: 'f' }), [{ startMs: 5, endMs: 6 }])
  const ends = /r\._field =~ \/(.*?)\/ or r\._field == "\/protocol"/.exec(flux)![1]!
  const isText = (field: string): boolean => new RegExp(ends, 'u').test(field) || field === '/protocol'
  expect(fields.filter(one => isText(one.field) !== one.isText)).toEqual([])
  expect(fields.filter(one => one.isText).map(({ field }) => field)).toEqual(['/protocol', 'text//text', 'd/text//text'])
  expect(flux).toContain(`(r._field !~ /${ends}/ and r._field != "/protocol") or r._value =~`)
})

test('a number is a literal of all its digits, with a sign only where Flux compares', () => {
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

const finders = (some: Partial<Filter>): readonly Finder[] => searchOf(pageQuery(some)).finders

test('a field of a payload is searched in every type that has the text', () => {
  const types = (text: string) =>
    finders({ format: 'f', payload: [{ path: ['a', 'b'], text }] }).map(
      ({ field, filter }) => `${field}: ${filter.slice(' |> filter(fn: (r) => '.length)}`,
    )
  expect(types('x')).toEqual(['a/b//text: r._value == "x")'])
  expect(types('true')).toEqual(['a/b//text: r._value == "true")', 'a/b//bool: r._value == true)'])
  expect(types('21.5')).toEqual(['a/b//text: r._value == "21.5")', 'a/b: r._value == 21.5)'])
  expect(types('1e+21')).toEqual(['a/b//text: r._value == "1e\\x2b21")', `a/b: r._value == 1${'0'.repeat(21)}.0)`])
  for (const text of ['1.0', '', '-0', 'Infinity', ' 1', '0x1', 'null']) expect(types(text)).toHaveLength(1)
})

test('a key that no document can have in this store is not searched', async () => {
  for (const path of [['a/b'], ['a', ''], ['/position']]) {
    const payload = [
      { path: ['b'], text: '1' },
      { path, text: '1' },
    ]
    expect(finders({ format: 'f', payload })).toEqual([])
    expect(await everyQuery({ format: 'f', payload })).toEqual([])
  }
})
