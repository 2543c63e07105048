// What an audit remembers of a scan that counted more than was asked for, and two fields that are put together, without a server.

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
