// What an audit remembers of a scan that counted more than was asked for, without a server.

import { expect, test } from 'vitest'
import { openAudit } from '../../../sinks/influxdb/audit.ts'
import type { Connection } from '../../../sinks/influxdb/connection.ts'
import { packedPosition } from '../../../sinks/influxdb/position-text.ts'
import { defaults } from './store.ts'

/** A field of a series that holds a message of each of two partitions. */
function rowsOf(field: string, values: readonly (bigint | number)[]) {
  const places = new Map(
    ['', 'result', 'table', '_start', '_stop', '_time', '_value', '_field', '_measurement'].map((name, at) => [name, at]),
  )
  return values.map((value, at) => ({
    columns: { places },
    cells: ['', '', field === '/index' ? '0' : '1', '', '', `2026-03-01T12:00:0${at}Z`, String(value), field, 'messages'],
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
      for await (const { offset } of audit.messages(1, partition, 0, 5, ranges)) found.push(offset)
      return found
    },
  }
}

test('what a scan that failed has counted is not told of: the next partition has a scan of its own', async () => {
  const { offsets, scans } = auditOver(async scan => {
    if (scan === 0) throw new Error('the server went away in the midst of the scan')
  })
  await expect(offsets(0, 1)).rejects.toThrow('in the midst of the scan')
  expect([await offsets(1), scans()]).toEqual([[0], 2])
})

test('what is still being counted is not told of either', async () => {
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
