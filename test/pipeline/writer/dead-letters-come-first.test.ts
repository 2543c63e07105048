// A dead letter is durable before its batch becomes final; if it cannot be written, the writer does not advance.

import { expect, test, vi } from 'vitest'
import { type Header, LogUnavailableError, MessageRefusedError } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { SinkError } from '../../../sinks/sink-error.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { outgoing } from '../message.ts'
import { pack, text } from './numbers.ts'
import { deadOffsets, makeWorld, startWriter, stored, type World } from './parts.ts'

function header(world: World, deadLetter: number, key: string): Header['value'] | undefined {
  return world.deadLetters.messages[deadLetter]?.headers?.find(header => header.key === key)?.value
}

test('an undecodable message is dead-lettered unchanged, with the reason in the headers of Kafka Connect and ours', async () => {
  const world = makeWorld()
  const bad = outgoing({
    channel: 'c9',
    payload: new TextEncoder().encode('[1,"two"]'),
    createdRestNs: 7,
    headers: [{ key: 'trace', value: 'x' }],
  })
  await world.log.append([pack(1), bad])
  const { writer } = await startWriter(world)
  await expect.poll(() => world.log.committed.get('writer')).toBe(2)
  await writer.stop()
  const { headers, ...deadLetter } = world.deadLetters.messages[0]!
  const { headers: _, ...original } = bad
  expect(deadLetter).toEqual(original)
  expect(headers).toEqual([
    { key: 'trace', value: 'x' },
    { key: '__connect.errors.topic', value: 'messages' },
    { key: '__connect.errors.partition', value: '0' },
    { key: '__connect.errors.offset', value: '1' },
    { key: '__connect.errors.connector.name', value: 'writer' },
    { key: '__connect.errors.task.id', value: '0' },
    { key: '__connect.errors.stage', value: 'VALUE_CONVERTER' },
    { key: '__connect.errors.class.name', value: 'transformer' },
    { key: '__connect.errors.exception.class.name', value: 'numbers' },
    { key: '__connect.errors.exception.message', value: 'record 1: string is no number' },
    { key: 'sluice.log', value: '1' },
    { key: 'sluice.log-id', value: world.log.id },
    { key: 'sluice.partition', value: '0' },
    { key: 'sluice.offset', value: '1' },
    { key: 'sluice.rule', value: 'numbers' },
    { key: 'sluice.record', value: '1' },
  ])
  expect(stored(world.store)).toEqual([1])
})

test('when the dead letter arrives, nothing of its batch is stored or committed yet', async () => {
  const world = makeWorld()
  await world.log.append([pack(1), text('undecodable'), pack(13), pack(2)])
  world.store.refuses = row => (row.value === 13 ? 'unlucky' : undefined)
  const atLetter: unknown[] = []
  const append = world.deadLetters.append.bind(world.deadLetters)
  world.deadLetters.append = async messages => {
    atLetter.push([stored(world.store), world.log.committed.get('writer')])
    return append(messages)
  }
  const { writer } = await startWriter(world)
  await expect.poll(() => world.log.committed.get('writer')).toBe(4)
  await writer.stop()
  expect(atLetter).toEqual([
    [[], undefined],
    [[], undefined],
  ])
  expect(stored(world.store)).toEqual([1, 2])
  expect(deadOffsets(world.deadLetters)).toEqual([1, 2])
  expect(header(world, 1, '__connect.errors.stage')).toBe('TASK_PUT')
  expect(header(world, 1, 'sluice.rule')).toBe('store-refused')
  expect(new TextDecoder().decode(world.deadLetters.messages[1]!.payload)).toBe('[13]')
})

test('if dead letters cannot be written the writer stops advancing, and continues when they can', async () => {
  const world = makeWorld()
  world.deadLetters.failure = new LogUnavailableError('the dead letters are away')
  const append = vi.spyOn(world.deadLetters, 'append')
  await world.log.append([pack(1), text('undecodable'), pack(2)])
  const { writer } = await startWriter(world)
  await expect.poll(() => append.mock.calls.length).toBeGreaterThan(10)
  expect(writer.state()).toBe('retrying')
  expect(stored(world.store)).toEqual([])
  expect(world.log.committed.has('writer')).toBe(false)
  world.deadLetters.failure = undefined
  await expect.poll(() => stored(world.store)).toEqual([1, 2])
  expect(deadOffsets(world.deadLetters)).toEqual([1])
  await writer.stop()
})

test('a log that refuses what a dead letter contains is not an outage: the letter has no content, and the next message is stored', async () => {
  const world = makeWorld()
  const append = world.deadLetters.append.bind(world.deadLetters)
  world.deadLetters.append = async messages => {
    if (messages.some(({ channel }) => channel !== '')) throw new MessageRefusedError('the topic accepts no such message')
    return append(messages)
  }
  await world.log.append([text('undecodable'), pack(1)])
  const { writer } = await startWriter(world)
  await expect.poll(() => stored(world.store)).toEqual([1])
  await writer.stop()
  expect(deadOffsets(world.deadLetters)).toEqual([0])
  expect(world.lines()).toEqual([])
})

test.each<[string, Error, RegExp]>([
  ['that refuses every dead letter', new MessageRefusedError('its limit is 1'), /^the topic messages\.dead-letters\.writer refuses even/],
  ['that needs a person', new SystemicError('correct the clock'), /^correct the clock$/],
  ['that fails otherwise', new TypeError('a bug'), /^a bug$/],
])('a log %s stops the writer with one sentence, instead of looking like an outage', async (_name, error, sentence) => {
  const world = makeWorld()
  world.deadLetters.failure = error
  await world.log.append([text('undecodable'), pack(1)])
  const { writer } = await startWriter(world)
  const end = await writer.done.catch((reason: unknown) => reason)
  expect(end).toBeInstanceOf(SystemicError)
  expect((end as Error).message).toMatch(sentence)
  expect(world.lines()).toEqual([])
  expect(stored(world.store)).toEqual([])
})

test('a refusal by the store whose dead letter cannot be written is retried as well, however the sink classifies the error', async () => {
  const world = makeWorld()
  world.store.refuses = row => (row.value === 13 ? 'unlucky' : undefined)
  world.deadLetters.failure = new LogUnavailableError('the dead letters are away')
  await world.log.append([pack(1), pack(13)])
  const { writer } = await startWriter(world, {
    wrapSink: sink => ({
      ...sink,
      write: (encoded, reject, signal) =>
        sink.write(encoded, reject, signal).catch((cause: unknown) => {
          throw new SinkError('systemic', 'the transaction was rolled back', { cause })
        }),
    }),
  })
  await expect.poll(() => writer.state()).toBe('retrying')
  expect(stored(world.store)).toEqual([])
  world.deadLetters.failure = undefined
  await expect.poll(() => stored(world.store)).toEqual([1])
  expect(deadOffsets(world.deadLetters)).toEqual([1])
  await writer.stop()
})

test('a message is dead-lettered once, however often its batch is tried', async () => {
  const world = makeWorld()
  world.store.refuses = row => (row.value === 13 ? 'unlucky' : undefined)
  for (let at = 0; at < 5; at++) world.store.failures.push({ errorClass: 'transient', when: 'commit' })
  await world.log.append([text('undecodable'), pack(13), pack(1)])
  const { writer } = await startWriter(world)
  await expect.poll(() => stored(world.store)).toEqual([1])
  await writer.stop()
  expect(deadOffsets(world.deadLetters)).toEqual([0, 1])
  expect(writer.counts().get(logPartition(0, 0))).toMatchObject({ received: 3, stored: 1, deadLettered: 2 })
})

test('a message without a key is a dead letter without a key', async () => {
  const world = makeWorld()
  await world.log.append([outgoing({ channel: '' })])
  const { writer } = await startWriter(world, { subjects: ['channels.c1'] })
  await expect.poll(() => world.log.committed.get('writer')).toBe(1)
  await writer.stop()
  expect(header(world, 0, 'sluice.rule')).toBe('no-key')
  expect(header(world, 0, '__connect.errors.stage')).toBe('KEY_CONVERTER')
  expect(world.deadLetters.messages[0]!.channel).toBe('')
})

test('a message whose envelope cannot be decoded keeps its key and headers unchanged', async () => {
  const world = makeWorld()
  const headers: Header[] = [
    { key: 'created', value: 'soon' },
    { key: 'publisher', value: Buffer.of(0xff) },
    { key: 'created', value: null },
  ]
  const key = Buffer.of(0xfe, 1)
  await world.log.append([{ ...outgoing({ channel: '' }), headers, key }])
  const { writer } = await startWriter(world)
  await expect.poll(() => world.log.committed.get('writer')).toBe(1)
  await writer.stop()
  const deadLetter = world.deadLetters.messages[0]!
  expect(deadLetter.key).toEqual(key)
  expect(deadLetter.headers?.slice(0, 3)).toEqual(headers)
  expect(header(world, 0, '__connect.errors.stage')).toBe('KEY_CONVERTER')
})
