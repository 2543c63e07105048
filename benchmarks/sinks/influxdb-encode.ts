// How fast batches become line protocol, and how fast that is compressed: `node benchmarks/sinks/influxdb-encode.ts`. One line for each shape of
// batch.

import { constants, gzipSync } from 'node:zlib'
import { encode } from '../../sinks/influxdb/encode.ts'
import { batchesOf, rowsPerBatch, shapesWith, speedOf } from './batches.ts'

const compressions = 20

for (const shape of shapesWith('flat document')) {
  const batches = batchesOf(shape)
  let room: Buffer | undefined
  const speed = speedOf(shape.name, nth => {
    const { lines } = encode(batches[nth % batches.length]!, 1, room)
    room = Buffer.from(lines.bytes.buffer)
    return lines.bytes.length
  })
  const text = encode(batches[0]!, 1).lines.bytes
  const started = performance.now()
  let compressed = 0
  for (let nth = 0; nth < compressions; nth++) compressed += gzipSync(text, { level: constants.Z_BEST_SPEED }).length
  const rows = compressions * rowsPerBatch
  const compressNs = ((performance.now() - started) * 1e6) / rows
  console.log(`${speed}; compressed ${(compressed / rows).toFixed(0)} bytes/row in ${compressNs.toFixed(0)} ns/row`)
}
