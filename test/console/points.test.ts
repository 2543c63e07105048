// Points that the console keeps of a channel, and the columns of a chart that it makes of them.

import { describe, expect, test } from 'vitest'

interface Points {
  readonly times: readonly number[]
  readonly values: readonly (number | string)[]
}
interface Range {
  readonly from: number
  readonly to: number
}
type Column = number | null | undefined
interface Store {
  readonly series: ReadonlyMap<string, { readonly newest: { readonly text: string }; readonly live: Points }>
  readonly points: number
  readonly leftOut: number
  readonly gaps: number
  add(record: object): void
}
const { columnsOf, openStore, pointsMax, seriesMax, spansOf } = (await import(
  String(new URL('../../console/page/points.js', import.meta.url))
)) as {
  readonly columnsOf: (sources: readonly Points[], range: Range, number: number) => [low: Column[], high: Column[]]
  readonly spansOf: (sources: readonly Points[], range: Range) => (Range & { text: string })[]
  readonly openStore: () => Store
  readonly pointsMax: number
  readonly seriesMax: number
}

const record = { Publisher: 'p', Subtopic: '', Name: 'n', Time: 0 }

describe('a store', () => {
  test('bounds the series and the points of each, and counts what it leaves out', () => {
    const store = openStore()
    for (let at = 0; at < seriesMax + 3; at++) store.add({ ...record, Name: `n${at}`, Value: 1 })
    expect([store.series.size, store.points, store.leftOut]).toEqual([seriesMax, seriesMax, 3])
    for (let at = 0; at < pointsMax; at++) store.add({ ...record, Name: 'n0', Time: at, Value: -at })
    expect(store.gaps).toBe(1)
    const { live } = [...store.series.values()][0]!
    expect(live.times).toEqual(Array.from({ length: pointsMax / 2 + 1 }, (_, at) => pointsMax / 2 - 1 + at))
    expect(live.times).toEqual(live.values.map(value => -Number(value)))
  })

  test('tells series apart by publisher, subtopic, name and unit, and has the newest value by time', () => {
    const store = openStore()
    store.add({ ...record, Time: 2, BoolValue: true })
    store.add({ ...record, Time: 1, StringValue: 'late' })
    for (const other of [{ Publisher: 'q' }, { Subtopic: 's' }, { Name: 'm' }, { Unit: 'u' }]) store.add({ ...record, ...other, Value: 0 })
    expect(store.series.size).toBe(5)
    const [first] = store.series.values()
    expect([first!.newest.text, first!.live]).toEqual(['true', { times: [2, 1], values: ['true', 'late'] }])
  })
})

describe('columns', () => {
  test('have the smallest and the largest value of their part of the range, from points in any order', () => {
    const live = { times: [9, 0.5, 0, 10, -1, 0.9], values: [1, 4, 2, 100, 100, 3] }
    const stored = { times: [5.3, 5.6], values: [-7, 7] }
    const columns = columnsOf([live, stored], { from: 0, to: 10 }, 10)
    const none = undefined
    expect(columns).toEqual([
      [2, none, none, none, none, -7, none, none, none, 1],
      [4, none, none, none, none, 7, none, none, none, 1],
    ])
  })

  test('are null in a gap: more than five times as long as what is usual between values', () => {
    const every = (seconds: number, from: number) => Array.from({ length: 10 }, (_, at) => from + at * seconds)
    const times = [...every(2, 0), ...every(2, 29), ...every(2, 60)]
    const columns = columnsOf([{ times, values: times }], { from: 0, to: 100 }, 100)
    // From 18 to 29 is 11, from 47 to 60 is 13.
    const gaps = [...Array.from({ length: 10 }, (_, at) => 19 + at), ...Array.from({ length: 12 }, (_, at) => 48 + at)]
    for (const one of columns) expect(one.flatMap((value, at) => (value === null ? [at] : []))).toEqual(gaps)
  })

  test('have a finite height with the largest doubles', () => {
    const store = openStore()
    for (const Value of [Number.MAX_VALUE, -Number.MAX_VALUE]) store.add({ ...record, Value })
    const [[low], [high]] = columnsOf([[...store.series.values()][0]!.live], { from: 0, to: 1 }, 1) as [[number], [number]]
    expect(low).toBeLessThan(0)
    expect(Number.isFinite(high - low)).toBe(true)
  })
})

describe('spans of states', () => {
  test('last until another state begins, from records in any order, also those that came twice', () => {
    const live = { times: [7, 3, 3, 5], values: ['open', 'shut', 'shut', 'shut'] }
    const stored = { times: [1, 3, -2, 12], values: ['open', 'shut', 'shut', 'open'] }
    expect(spansOf([live, stored], { from: 0, to: 10 })).toEqual([
      { from: 1, to: 3, text: 'open' },
      { from: 3, to: 7, text: 'shut' },
      { from: 7, to: 10, text: 'open' },
    ])
  })
})
