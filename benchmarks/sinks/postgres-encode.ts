// How fast batches become COPY bytes: `node benchmarks/sinks/postgres-encode.ts`. One line for each shape of batch.

import { encode } from '../../sinks/postgres/encode.ts'
import { batchesOf, shapesWith, speedOf } from './batches.ts'

for (const shape of shapesWith('document')) {
  const batches = batchesOf(shape)
  console.log(
    speedOf(shape.name, nth => encode(batches[nth % batches.length]!, 1).tables.reduce((sum, { bytes }) => sum + bytes.length, 0)),
  )
}
