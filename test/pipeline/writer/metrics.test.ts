// The ledger and the metrics of a writer agree, and no label contains data from devices.

import { expect, test } from 'vitest'
import type { PartitionLag } from '../../../pipeline/writer/lag.ts'
import { pipelineMetrics } from '../../../pipeline/writer/metrics.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { outgoing } from '../message.ts'
import { pack, text } from './numbers.ts'
import { makeWorld, startWriter, type World } from './parts.ts'

async function metric(world: World, name: string): Promise<Record<string, number>> {
  const { values } = (await world.registry.getMetricsAsJSON()).find(metric => metric.name === name)!
  const label = ({ intentional, reason, error_code: code, error_type: type }: Partial<Record<string, string | number>>) =>
    [intentional, reason, type, code].filter(part => part !== undefined && part !== '').join(' ')
  return Object.fromEntries(values.map(({ labels, value }) => [label(labels), value]))
}

test('each outcome is counted once, in the ledger and in the metrics', async () => {
  const world = makeWorld()
  world.store.refuses = row => (row.value === 13 ? 'unlucky' : undefined)
  world.store.failures.push({ errorClass: 'transient' })
  world.store.unnumbered = 3
  await world.log.append([pack(1, 2), pack(3), pack(), pack(), pack(), text('no'), pack(13), outgoing({ channel: 'other' })])
  const { writer } = await startWriter(world, { subjects: ['channels.c1.>'] })
  await expect.poll(() => world.log.committed.get('writer')).toBe(8)
  await writer.stop()
  expect(writer.counts().get(logPartition(0, 0))).toEqual({
    received: 8,
    stored: 2,
    empty: 3,
    filtered: 1,
    skipped: 0,
    duplicate: 0,
    deadLettered: 2,
    inFlight: 0,
    lost: 0,
  })
  expect(await metric(world, 'component_received_events_total')).toEqual({ '': 8 })
  expect(await metric(world, 'component_sent_events_total')).toEqual({ '': 2 })
  expect(await metric(world, 'component_sent_unnumbered_records_total')).toEqual({ '': 3 })
  expect(await metric(world, 'component_discarded_events_total')).toEqual({
    'true filtered': 1,
    'true empty': 3,
    'false dead-lettered': expect.any(Number),
    // From the start, so that an alert sees the first one.
    'false deleted-unread': 0,
  })
  expect(await metric(world, 'component_errors_total')).toEqual({
    'parser_failed numbers': 1,
    'value_invalid store-refused': 1,
    request_failed: 1,
  })
  expect(await metric(world, 'buffer_events')).toEqual({ '': 0 })
  expect(await metric(world, 'buffer_byte_size')).toEqual({ '': 0 })
})

test('lost messages are counted', async () => {
  const world = makeWorld()
  const { writer } = await startWriter(world)
  writer.lost(logPartition(0, 0), 15)
  expect(writer.counts().get(logPartition(0, 0))).toMatchObject({ lost: 15, received: 0 })
  expect(await metric(world, 'component_discarded_events_total')).toEqual({ 'false dead-lettered': 0, 'false deleted-unread': 15 })
  await writer.stop()
})

test('several writers share the metrics of a registry', async () => {
  const world = makeWorld()
  for (const writer of ['relational', 'document']) pipelineMetrics(world.registry, writer, ['messages']).lost(1)
  const text = await world.registry.metrics()
  for (const writer of ['relational', 'document'])
    expect(text).toMatch(new RegExp(`component_discarded_events_total\\{component_id="${writer}".* 1`))
})

test('the lag of equal partitions of several topics is distinguished by the topic, and a lost partition leaves', async () => {
  const { registry } = makeWorld()
  const metrics = pipelineMetrics(registry, 'relational', ['hall', 'plant'])
  const lag = (messages: number): PartitionLag => ({ messages, seconds: 0 })
  const lags = async (): Promise<string[]> =>
    [...(await registry.metrics()).matchAll(/^consumer_lag_messages\{.*topic="(\w+)",partition="(\d)"\} (\d+)$/gm)].map(([, ...of]) =>
      of.join(' '),
    )
  metrics.lagging(
    new Map([
      [logPartition(0, 1), lag(5)],
      [logPartition(1, 1), lag(7)],
    ]),
  )
  expect(await lags()).toEqual(['hall 1 5', 'plant 1 7'])
  metrics.lagging(new Map([[logPartition(1, 1), lag(8)]]))
  expect(await lags()).toEqual(['plant 1 8'])
})

test('no label contains data from devices', async () => {
  const world = makeWorld()
  await world.log.append([
    outgoing({ channel: 'secret-channel', subtopic: 'secret', publisher: 'secret', payload: new TextEncoder().encode('secret') }),
  ])
  const { writer } = await startWriter(world)
  await expect.poll(() => world.log.committed.get('writer')).toBe(1)
  await writer.stop()
  expect(await world.registry.metrics()).not.toContain('secret')
})
