// How chunks become batches: lost offsets are counted once, at the start of a range.

import { expect, test } from 'vitest'
import { emptyMessage, type RawChunk } from '../../../pipeline/source.ts'
import { batches } from '../../../pipeline/writer/batch.ts'
import type { Decoder } from '../../../pipeline/writer/decode.ts'
import { logOf, logPartition, partitionOf } from '../../../transformers/log-partition.ts'
import { append, plain } from '../../sinks/batches.ts'

/** A chunk of the offsets `[from, to)`, the first `lost` of which have no message. */
function chunkOf(from: number, to: number, lost = 0, log = 0): RawChunk {
  return {
    at: logPartition(log, 0),
    from,
    to,
    lost,
    byteLength: 10,
    cursor() {
      const message = emptyMessage()
      let offset = from + lost - 1
      return {
        message,
        next() {
          message.offset = ++offset
          return offset < to
        },
        key: () => null,
        headers: () => [],
      }
    },
  }
}

const oneRow: Decoder = {
  decode({ offset }, from, batch) {
    append(batch, { ...plain(offset), log: logOf(from), partition: partitionOf(from) })
    return undefined
  },
}

/** The ranges of the batches from these chunks, with two rows in each. */
async function rangesOf(...chunks: RawChunk[]): Promise<[from: number, to: number, lost: number][][]> {
  async function* source(): AsyncGenerator<RawChunk> {
    yield* chunks
  }
  const found: [number, number, number][][] = []
  for await (const { batch } of batches(source(), oneRow, { rows: 2, bytes: 1e6, ageMs: 10_000 }))
    found.push(batch.ranges.map(({ from, to, lost }) => [from, to, lost]))
  return found
}

test('a divided chunk counts its lost offsets once', async () => {
  expect(await rangesOf(chunkOf(0, 8, 3))).toEqual([[[0, 5, 3]], [[5, 7, 0]], [[7, 8, 0]]])
})

test('a chunk after a loss begins a batch', async () => {
  expect(await rangesOf(chunkOf(0, 1), chunkOf(1, 4, 2))).toEqual([[[0, 1, 0]], [[1, 4, 2]]])
})

test('chunks without a loss share a batch', async () => {
  expect(await rangesOf(chunkOf(0, 1), chunkOf(1, 2))).toEqual([[[0, 2, 0]]])
})

test('a batch has a range for each log, of the same partition and offsets', async () => {
  expect(await rangesOf(chunkOf(0, 1), chunkOf(0, 1, 0, 1))).toEqual([
    [
      [0, 1, 0],
      [0, 1, 0],
    ],
  ])
})
