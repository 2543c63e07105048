// How fast batches become BSON: `node benchmarks/sinks/mongodb-encode.ts`. One line for each shape of batch; and, for the first shape, what the driver
// takes to serialise the same rows from objects that are ready.

import { BSON, type Document } from 'mongodb'
import { encode } from '../../sinks/mongodb/encode.ts'
import { batchesOf, shapesWith, speedOf } from './batches.ts'

const shapes = shapesWith('document')

for (const shape of shapes) {
  const batches = batchesOf(shape)
  console.log(
    speedOf(shape.name, nth => encode(batches[nth % batches.length]!, 1).tables.reduce((sum, { bytes }) => sum + bytes.length, 0)),
  )
}

const [table] = encode(batchesOf(shapes[0]!)[0]!, 1).tables
const documents: Document[] = table!.rowMessage.map((_, row) =>
  BSON.deserialize(table!.bytes.subarray(table!.rowStart[row], table!.rowStart[row + 1]), { promoteLongs: false, promoteValues: false }),
)
console.log(
  speedOf('the driver, from objects, one record a message, 1,000 channels', () =>
    documents.reduce((bytes, document) => bytes + BSON.serialize(document).length, 0),
  ),
)
