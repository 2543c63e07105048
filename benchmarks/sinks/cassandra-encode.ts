// How fast batches become values of CQL: `node benchmarks/sinks/cassandra-encode.ts`. One line for each shape of batch.

import { types } from 'cassandra-driver'
import { openDays } from '../../sinks/cassandra/days.ts'
import { type Encoding, encode } from '../../sinks/cassandra/encode.ts'
import { rowStatements } from '../../sinks/cassandra/statements.ts'
import { batchesOf, shapesWith, speedOf } from './batches.ts'

for (const shape of shapesWith('document')) {
  const days = openDays()
  const insert = (format: string) => rowStatements('benchmark', format).insert
  const encoding: Encoding = { logNumber: 1, bucketDays: 1, days, insert, unset: types.unset, rowBytesMax: 16_777_216 }
  const batches = batchesOf(shape)
  const requestsOf = (nth: number): number => {
    const encoded = encode(batches[nth % batches.length]!, encoding)
    days.remember(encoded.days)
    return encoded.tables.reduce((sum, { requests }) => sum + requests.length, 0)
  }
  console.log(speedOf(shape.name, requestsOf, (requests, rows) => `${(rows / requests).toFixed(1)} rows/request`))
}
