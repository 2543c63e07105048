// Every sink encodes every field of a record, and makes room for it. That the stores read it as meant is shown by the conformance suite.

import { types } from 'cassandra-driver'
import { describe, expect, test } from 'vitest'
import { openDayRegistry } from '../../sinks/cassandra/day-registry.ts'
import { encode as encodeCassandra } from '../../sinks/cassandra/encode.ts'
import { insertStatement } from '../../sinks/cassandra/schema.ts'
import { encode as encodeInfluxdb } from '../../sinks/influxdb/encode.ts'
import { encode as encodeMongodb } from '../../sinks/mongodb/encode.ts'
import { encode as encodePostgres } from '../../sinks/postgres/encode.ts'
import type { RecordBatch } from '../../transformers/record-batch.ts'
import { batchOf, fullRecord, type RecordField, type TestRecord } from './batches.ts'

const encoders: Readonly<Record<string, (batch: RecordBatch) => Uint8Array>> = {
  PostgreSQL: batch => encodePostgres(batch, [1]).tables[0]!.bytes,
  Cassandra: batch => Buffer.concat(cassandraRow(batch).map(value => (value instanceof Uint8Array ? value : Buffer.from(String(value))))),
  // A buffer without room, which the encoder has to replace.
  InfluxDB: batch => encodeInfluxdb(batch, [1], Buffer.alloc(1)).lines.bytes,
  MongoDB: batch => encodeMongodb(batch, [1]).tables[0]!.bytes,
}

function cassandraRow(batch: RecordBatch): readonly unknown[] {
  const encoding = {
    logNumbers: [1],
    bucketDays: 1,
    dayRegistry: openDayRegistry(),
    insert: (format: string) => insertStatement('k', format),
    unset: types.unset,
    rowBytesMax: Number.POSITIVE_INFINITY,
  }
  return encodeCassandra(batch, encoding).tables[0]!.requests[0]![0]!.params
}

const fields = Object.keys(fullRecord) as RecordField[]
const textFields = [...fields.filter(field => typeof fullRecord[field as keyof typeof fullRecord] === 'string'), 'stringValue' as const]

describe.each(Object.entries(encoders))('%s', (_store, encoder) => {
  const encoded = (record: TestRecord): Buffer => Buffer.from(encoder(batchOf(0, 1, [{ offset: 0, records: [record] }])))

  test.each(fields)('a record with %s is another row than one without', field => {
    const { [field]: _without, ...rest } = fullRecord as TestRecord
    expect(encoded(rest).equals(encoded(fullRecord))).toBe(false)
  })

  test.each(textFields)('%s is encoded whole, however long it is', field => {
    const text = '€'.repeat(5000)
    expect(encoded({ [field]: text }).includes(text)).toBe(true)
  })
})
