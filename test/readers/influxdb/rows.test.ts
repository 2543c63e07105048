// The first of many rows, which may all be of one millisecond and come in any order: what is kept is bounded, in rows and in bytes.

import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { firstRows, rowOrder } from '../../../readers/influxdb/rows.ts'
import { QueryTooLargeError, type SenmlRow } from '../../../readers/reader.ts'

const megabyte = 'x'.repeat(1_000_000)
const absent = { unit: undefined, value: undefined, boolValue: undefined, dataValue: undefined, sum: undefined, updateTime: undefined }

function rowOf(timeUs: number, position: number): SenmlRow {
  const origin = { channel: 'c', subtopic: '', publisher: 'p', protocol: 'http', position: BigInt(position), index: 0 }
  return { kind: 'senml', ...origin, name: 'n', timeUs, stringValue: megabyte, ...absent }
}

async function* inPieces(rows: readonly SenmlRow[], length: number): AsyncGenerator<SenmlRow[]> {
  for (let at = 0; at < rows.length; at += length) yield rows.slice(at, at + length)
}

test('they are the first, however many more there are', async () => {
  const many = fc.array(fc.tuple(fc.nat(999), fc.nat()), { maxLength: 300 })
  await fc.assert(
    fc.asyncProperty(
      many,
      fc.constantFrom('asc', 'desc'),
      fc.integer({ min: 1, max: 60 }),
      fc.integer({ min: 1, max: 20 }),
      async (keys, direction, max, length) => {
        const rows = keys.map(([us, position]) => rowOf(us, position))
        const isWanted = (row: { position: bigint }): boolean => row.position % 7n !== 0n
        const expected = rows.filter(isWanted).sort(rowOrder(direction)).slice(0, max)
        expect(await firstRows(inPieces(rows, length), direction, max, isWanted)).toEqual(expected)
      },
    ),
  )
})

test('those that an offset skips may not take any amount of memory', async () => {
  const rows = Array.from({ length: 200 }, (_, at) => rowOf(0, at))
  await expect(firstRows(inPieces(rows, 10), 'desc', 1_100)).rejects.toBeInstanceOf(QueryTooLargeError)
  await expect(firstRows(inPieces(rows, 10), 'desc', 1_100)).rejects.toThrow('use cursor instead of offset')
  expect(await firstRows(inPieces(rows, 10), 'desc', 1_000)).toHaveLength(200)
})
