// The schema registry that the suites of a run share.

import { SchemaRegistry, SchemaType } from '@kafkajs/confluent-schema-registry'
import { expect, test } from 'vitest'
import { describeWithRegistry } from './registry.ts'

describeWithRegistry('the shared registry', registry => {
  test('gives a schema an id, and the schema for the id', { timeout: 60_000 }, async () => {
    const schema = JSON.stringify({ type: 'record', name: 'Reading', namespace: 'plants', fields: [{ name: 'moisture', type: 'double' }] })
    const writer = new SchemaRegistry({ host: registry.url })
    const { id } = await writer.register({ type: SchemaType.AVRO, schema }, { subject: `plants-${crypto.randomUUID()}` })
    const message = await writer.encode(id, { moisture: 0.5 })
    expect(message.readInt8(0)).toBe(0)
    expect(message.readInt32BE(1)).toBe(id)
    expect(await new SchemaRegistry({ host: registry.url }).decode(message)).toEqual({ moisture: 0.5 })
  })
})
