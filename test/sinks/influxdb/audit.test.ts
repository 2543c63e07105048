// What an audit remembers of a scan that counted more than was asked for, how two fields are put together, and in which windows contents are read,
// without a server.

import { createFluxTableColumn, createFluxTableMetaData } from '@influxdata/influxdb-client'
import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { openAudit, pairedRows } from '../../../sinks/influxdb/audit.ts'
import type { Connection, Row } from '../../../sinks/influxdb/connection.ts'
import { packedPosition } from '../../../sinks/sink.ts'
import { defaults } from './store.ts'

/** A field of a series that holds a message of each of two partitions. */
function rowsOf(field: string, values: readonly (bigint | number)[]) {
  const names = ['result', 'table', '_start', '_stop', '_time', '_value', '_field', '_measurement']
  const tableMeta = createFluxTableMetaData(names.map(label => createFluxTableColumn({ label })))
  return values.map((value, at) => ({
    tableMeta,
    values: ['', field === '/index' ? '0' : '1', '', '', `2026-03-01T12:00:0${at}Z`, String(value), field, 'messages'],
  }))
}

const positions = [packedPosition(1, 0, 0), packedPosition(1, 1, 0)]

/** @param reached is called when half of a scan's answer has come; its failure is that of the scan */
function auditOver(reached: (scan: number) => Promise<void>) {
  let scans = 0
  async function* query(flux: string) {
    if (!flux.includes('"/index"')) return
    const scan = scans++
    yield rowsOf('/index', [0, 0])
    yield rowsOf('/position', positions.slice(0, 1))
    await reached(scan)
    yield rowsOf('/position', positions.slice(1))
  }
  const audit = openAudit({ bucket: 'b', registryBucket: 'r', query } as unknown as Connection, { ...defaults, url: '', token: '' })
  return {
    scans: () => scans,
    offsets: async (partition: number, ...after: number[]): Promise<number[]> => {
      const found: number[] = []
      const ranges = after.map(partition => ({ partition, from: 0, to: 5 }))
      for await (const { offset } of audit.messages(1, partition, 0, 5, { after: ranges })) found.push(offset)
      return found
    },
  }
}

test('counts of a failed scan are not used: the next partition has its own scan', async () => {
  const { offsets, scans } = auditOver(async scan => {
    if (scan === 0) throw new Error('the server went away in the midst of the scan')
  })
  await expect(offsets(0, 1)).rejects.toThrow('in the midst of the scan')
  expect([await offsets(1), scans()]).toEqual([[0], 2])
})

test('counts of a running scan are not used either', async () => {
  const [halfway, goingOn] = [Promise.withResolvers<void>(), Promise.withResolvers<void>()]
  const { offsets, scans } = auditOver(async scan => {
    if (scan > 0) return
    halfway.resolve()
    await goingOn.promise
  })
  const first = offsets(0, 1)
  await halfway.promise
  expect([await offsets(1), scans()]).toEqual([[0], 2])
  goingOn.resolve()
  expect([await first, await offsets(1), scans()]).toEqual([[0], [0], 2])
})

const names = ['result', 'table', '_time', '_value', '_field', '_measurement', 'name']
const tableMeta = createFluxTableMetaData(names.map(label => createFluxTableColumn({ label, dataType: 'string' })))

function pairedOf(table: number, field: string, name: string, values: readonly number[]): Row[] {
  return values.map(value => ({ tableMeta, values: ['_result', String(table), 't', String(value), field, 'messages', name] }))
}

test('each series gives its pairs, and a series whose fields differ in number gives none', () => {
  const series = fc.array(fc.tuple(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 0, max: 9 })), { maxLength: 8 })
  fc.assert(
    fc.property(series, fc.boolean(), (given, positionsFirst) => {
      const found: string[] = []
      const pairs = pairedRows((position, index) => void found.push(`${position}/${index}`))
      const expected: string[] = []
      const uneven: string[] = []
      for (const [nth, [points, more]] of given.entries()) {
        const positions = Array.from({ length: points }, (_, at) => nth * 100 + at)
        const indexes = positions.map((_, at) => at)
        // One in ten was written to meanwhile.
        if (more === 0) indexes.push(99)
        const fields = [pairedOf(nth * 2, '/index', `s${nth}`, indexes), pairedOf(nth * 2 + 1, '/position', `s${nth}`, positions)]
        for (const row of (positionsFirst ? fields.toReversed() : fields).flat()) pairs.add(row)
        if (more === 0) uneven.push(`s${nth}`)
        else expected.push(...positions.map((position, at) => `${position}/${at}`))
      }
      expect(pairs.finish().map(({ name }) => name)).toEqual(uneven)
      expect(found).toEqual(expected)
    }),
  )
})

interface ReadWindow {
  readonly days: number
  points: number
}

function metaOf(valueType: string) {
  const labels = ['result', 'table', '_time', '_value', '_field', '_measurement']
  return createFluxTableMetaData(labels.map(label => createFluxTableColumn({ label, dataType: label === '_value' ? valueType : 'string' })))
}
const [integers, texts] = [metaOf('long'), metaOf('string')]

/**
 * Reads the contents of a store with a message at each of these times.
 *
 * @param text of each message
 */
async function readContents(timesMs: readonly number[], text = 'on') {
  const windows: ReadWindow[] = []
  async function* query(flux: string): AsyncGenerator<Row[]> {
    if (!flux.includes('from(bucket: "b")')) return
    const [start, stop] = /start: time\(v: (-?\d+)\), stop: time\(v: (-?\d+)\)/.exec(flux)!.slice(1).map(BigInt) as [bigint, bigint]
    const found = [...timesMs.entries()].filter(([, ms]) => BigInt(ms) * 1_000_000n >= start && BigInt(ms) * 1_000_000n < stop)
    const rowOf = (ms: number, field: string, value: bigint | string): Row => ({
      tableMeta: typeof value === 'string' ? texts : integers,
      values: [typeof value === 'string' ? 'texts' : 'numbers', '0', new Date(ms).toISOString(), String(value), field, 'messages'],
    })
    if (flux.includes('first()')) {
      for (const [offset, ms] of found.slice(0, 1)) yield [rowOf(ms, '/position', packedPosition(1, 0, offset))]
      return
    }
    const read = { days: Number(stop - start) / 86_400_000_000_000, points: 0 }
    windows.push(read)
    for (const [offset, ms] of found) {
      read.points++
      yield [rowOf(ms, '/position', packedPosition(1, 0, offset)), rowOf(ms, '/index', 0n), rowOf(ms, 'stringValue', text)]
    }
  }
  const connection = { bucket: 'b', registryBucket: 'r', query } as unknown as Connection
  const audit = openAudit(connection, { ...defaults, url: '', token: '' })
  const offsets: number[] = []
  for await (const { offset } of audit.messages(1, 0, 0, timesMs.length, { contents: true })) offsets.push(offset)
  return { offsets, windows }
}

const firstMs = Date.parse('2024-01-01T00:00:00Z')

test('a message in five days is read in few windows, each twice as wide as the one before, up to 256 days', async () => {
  const timesMs = Array.from({ length: 146 }, (_, nth) => firstMs + nth * 5 * 86_400_000)
  const { offsets, windows } = await readContents(timesMs)
  expect(offsets).toEqual([...timesMs.keys()])
  expect(windows.map(({ days }) => days)).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 256, 256])
})

test('a window with more bytes than may be read at once is read again, narrower', async () => {
  const timesMs = Array.from({ length: 40 }, (_, nth) => firstMs + nth * 60_000)
  const { offsets, windows } = await readContents(timesMs, 'x'.repeat(2 ** 20))
  expect(offsets).toEqual([...timesMs.keys()])
  expect(Math.max(...windows.map(({ points }) => points))).toBeLessThanOrEqual(33)
  expect(windows.length).toBeLessThanOrEqual(12)
})
