// Points that the console keeps of a channel, and the columns of a chart that it makes of them.

import { describe, expect, test } from 'vitest'

interface Points {
  readonly times: ArrayLike<number>
  readonly low: ArrayLike<number>
  readonly mid: ArrayLike<number>
  readonly high: ArrayLike<number>
  readonly size: number
}
interface Ring {
  push(time: number, value: number): void
  points(): Points
  completeSince(): number
}
interface Store {
  readonly series: ReadonlyMap<string, { readonly newest: { readonly text: string }; readonly ring: Ring }>
  readonly points: number
  readonly leftOut: number
  add(record: object): void
}
const { columnsOf, openRing, openStore, ringMax, seriesMax } = (await import(
  String(new URL('../../console/page/points.js', import.meta.url))
)) as {
  readonly columnsOf: (
    sources: readonly Points[],
    range: { from: number; to: number },
    number: number,
  ) => Record<'low' | 'mid' | 'high', (number | null)[]>
  readonly openRing: (max?: number) => Ring
  readonly openStore: () => Store
  readonly ringMax: number
  readonly seriesMax: number
}

const record = { Publisher: 'p', Subtopic: '', Name: 'n', Time: 0 }

describe('a ring', () => {
  test('keeps the newest points in bounded memory, and knows since when it has all', () => {
    const ring = openRing(1000)
    for (let at = 0; at < 1000; at++) ring.push(at, -at)
    expect(ring.completeSince()).toBe(-Infinity)
    for (let at = 1000; at < 3500; at++) ring.push(at, -at)
    const { times, mid, size } = ring.points()
    expect([size, times.length, ring.completeSince()]).toEqual([1000, 1000, 2500])
    expect(Array.from(times).toSorted((one, other) => one - other)).toEqual(Array.from({ length: 1000 }, (_, at) => 2500 + at))
    expect(Array.from(times)).toEqual(Array.from(mid, value => -value))
  })
})

describe('a store', () => {
  test('bounds the series and the points of each, and counts what it leaves out', () => {
    const store = openStore()
    for (let at = 0; at < seriesMax + 3; at++) store.add({ ...record, Name: `n${at}`, Value: 1 })
    expect([store.series.size, store.points, store.leftOut]).toEqual([seriesMax, seriesMax, 3])
    for (let at = 0; at < ringMax + 10; at++) store.add({ ...record, Name: 'n0', Time: at, Value: at })
    expect([...store.series.values()].reduce((sum, { ring }) => sum + ring.points().times.length, 0)).toBeLessThan(
      ringMax + seriesMax * 256,
    )
  })

  test('tells series apart by publisher, subtopic, name and unit, and has the newest value by time', () => {
    const store = openStore()
    store.add({ ...record, Time: 2, BoolValue: true })
    store.add({ ...record, Time: 1, StringValue: 'late' })
    for (const other of [{ Publisher: 'q' }, { Subtopic: 's' }, { Name: 'm' }, { Unit: 'u' }]) store.add({ ...record, ...other, Value: 0 })
    expect(store.series.size).toBe(5)
    const [first] = store.series.values()
    expect([first!.newest.text, first!.ring.points().size]).toEqual(['true', 1])
  })
})

describe('columns', () => {
  test('have the smallest, mean and largest value of their part of the range, from points in any order', () => {
    const ring = openRing()
    for (const [time, value] of [
      [9, 1],
      [0.5, 4],
      [0, 2],
      [10, 100],
      [-1, 100],
      [0.9, 3],
    ] as const)
      ring.push(time, value)
    const bucket = { times: [5.5], low: [-7], mid: [0], high: [7], size: 1 }
    const { low, mid, high } = columnsOf([ring.points(), bucket], { from: 0, to: 10 }, 10)
    expect(low).toEqual([2, null, null, null, null, -7, null, null, null, 1])
    expect(mid).toEqual([3, null, null, null, null, 0, null, null, null, 1])
    expect(high).toEqual([4, null, null, null, null, 7, null, null, null, 1])
  })

  test('stay finite with the largest doubles', () => {
    const ring = openRing()
    for (const value of [Number.MAX_VALUE, Number.MAX_VALUE, -Number.MAX_VALUE]) ring.push(0, value)
    for (const column of Object.values(columnsOf([ring.points()], { from: 0, to: 1 }, 1))) expect(column.every(Number.isFinite)).toBe(true)
  })
})
