// The transformer of docs/guides/add-a-transformer.md fulfils the contract.

import { expect, test } from 'vitest'
import { logPartition } from '../../transformers/log-partition.ts'
import { RecordBatch } from '../../transformers/record-batch.ts'
import { transformerConformance } from '../conformance/transformer.ts'
import { envelope } from '../transformers/senml/rows.ts'
import { openAssignments } from './assignments.ts'

transformerConformance('assignments', () => ({
  transformer: openAssignments(),
  envelope,
  accepted: ['temperature=21.5', 'a=0\n\nb=-1\n'].map(text => Buffer.from(text)),
  empty: ['', '\n\n'].map(text => Buffer.from(text)),
  refused: [
    ...['temperature', '=1', 'a=x', 'a=1e999', 'a=1\r\n', '\u0000=1', '\n'.repeat(8192)].map(text => Buffer.from(text)),
    Uint8Array.of(0xff),
  ],
  refusedHalfWay: Buffer.from('a=1\nb=2\nc'),
}))

test('each line is a record, at the time of the message', () => {
  const batch = new RecordBatch()
  batch.beginMessage({ at: logPartition(0, 0), offset: 0, channel: 'c', subtopic: '', publisher: '', protocol: 'kafka' })
  openAssignments().decode(Buffer.from('temperature=21.5\nhumidity=-4'), envelope, batch)
  const { length, name, number, timeUs } = batch.records
  expect(name.slice(0, length)).toEqual(['temperature', 'humidity'])
  expect(number.slice(0, length)).toEqual(Float64Array.of(21.5, -4))
  expect(timeUs.slice(0, length)).toEqual(Float64Array.of(envelope.createdUs, envelope.createdUs))
})
