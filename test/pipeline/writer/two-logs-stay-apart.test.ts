// One writer of two logs: the same partition and offset in both are different messages, from the source to the commit. And a log's number is taken
// before the first batch with something to store or to dead-letter, and not for a log of which everything is filtered.

import { once } from 'node:events'
import { expect, test } from 'vitest'
import type { OnStart, RawChunk } from '../../../pipeline/source.ts'
import type { Positions, Sink } from '../../../sinks/sink.ts'
import { type LogPartition, logPartition, partitionOf } from '../../../transformers/log-partition.ts'
import { type FakeEncoded, failed } from '../../sinks/fake-sink.ts'
import { openFakeLog } from '../fake-log.ts'
import { type FakeSource, openFakeSource } from '../fake-source.ts'
import { outgoing } from '../message.ts'
import { pack, text } from './numbers.ts'
import { makeWorld, startWriter, stored } from './parts.ts'

test('rows, dead letters, counts and commits of two logs are kept apart', async () => {
  const world = makeWorld()
  world.store.refuses = row => (row.value === 13 ? 'unlucky' : undefined)
  const events = openFakeLog('events')
  await world.log.append([pack(1), text('undecodable'), pack(2)])
  await events.append([text('undecodable'), pack(3), pack(13), pack(4)])
  const logs = [logPartition(0, 0), logPartition(1, 0)] as const
  const committed = new Map<LogPartition, number>()

  /** The first chunk of each log, then nothing more. */
  function both(source: FakeSource): FakeSource {
    const sources = [source, openFakeSource(events)]
    async function* chunks(signal: AbortSignal, onStart?: OnStart): AsyncGenerator<RawChunk> {
      onStart?.(new Map(logs.map(at => [at, 0])), new AbortController().signal, new Map())
      for (const [log, one] of sources.entries()) {
        for await (const chunk of one.chunks(signal)) {
          yield { ...chunk, at: logPartition(log, partitionOf(chunk.at)) }
          break
        }
      }
      await once(signal, 'abort')
    }
    const commit = async (positions: Positions): Promise<void> => positions.forEach((offset, at) => committed.set(at, offset))
    return { ...source, chunks, commit, ends: async () => new Map() }
  }

  const { writer } = await startWriter(world, { otherLogs: ['events'], wrap: both, batch: { rows: 3 } })
  await expect.poll(() => committed.get(logs[1])).toBe(4)
  await writer.stop()

  expect(committed).toEqual(
    new Map([
      [logs[0], 3],
      [logs[1], 4],
    ]),
  )
  expect(world.store.nextOffsets).toEqual(
    new Map([
      ['1/0', 3],
      ['2/0', 4],
    ]),
  )
  expect(stored(world.store)).toEqual([1, 2, 3, 4])
  expect(writer.counts().get(logs[0])).toMatchObject({ received: 3, stored: 2, deadLettered: 1, inFlight: 0 })
  expect(writer.counts().get(logs[1])).toMatchObject({ received: 4, stored: 2, deadLettered: 2, inFlight: 0 })
  const names = ['__connect.errors.topic', 'sluice.log', 'sluice.partition', 'sluice.offset', 'sluice.rule']
  const deadLetters = world.deadLetters.messages.map(({ headers = [] }) =>
    names.map(name => headers.find(({ key }) => key === name)?.value),
  )
  expect(new Set(deadLetters.map(deadLetter => deadLetter.join(' ')))).toEqual(
    new Set(['messages 1 0 1 numbers', 'events 2 0 0 numbers', 'events 2 0 2 store-refused']),
  )
  expect(deadLetters).toHaveLength(3)
})

const subjects = ['channels.c1.>']
const ours = (value: number) => ({ ...pack(value), channel: 'c1' })
const theirs = () => outgoing({ channel: 'c2' })

/** A sink without transactions, which resumes at what is committed to the log. */
function keyed(sink: Sink<FakeEncoded>): Sink<FakeEncoded> {
  const without = { ...sink }
  delete without.positions
  return without
}

test.each([
  ['keeps positions', undefined],
  ['does not', keyed],
])('a log without a number is read again after a restart, if the store %s', async (_how, wrapSink) => {
  const world = makeWorld()
  const settings = { subjects, ...(wrapSink === undefined ? {} : { wrapSink }) }
  await world.log.append([theirs(), theirs()])
  let { writer } = await startWriter(world, settings)
  await expect.poll(() => [...writer.counts().values()][0]?.filtered).toBe(2)
  await writer.stop()
  expect([world.store.logs, [...world.store.nextOffsets]]).toEqual([[], []])
  // Commits to the log serve its retention where the store keeps positions.
  expect(world.log.committed.get('writer') ?? 0).toBe(wrapSink === undefined ? 2 : 0)

  await world.log.append([ours(1), theirs()])
  writer = (await startWriter(world, settings)).writer
  await expect.poll(() => world.log.committed.get('writer')).toBe(4)
  await writer.stop()
  expect([...writer.counts().values()]).toMatchObject([{ received: 4, filtered: 3, stored: 1 }])
  expect(world.store.logs).toMatchObject([{ number: 1, name: 'messages', id: world.log.id }])
  expect(stored(world.store)).toEqual([1])
})

test('a dead letter takes the number, and says it and the id of the topic', async () => {
  const world = makeWorld()
  await world.log.append([text('undecodable')])
  const { writer } = await startWriter(world)
  await expect.poll(() => world.log.committed.get('writer')).toBe(1)
  await writer.stop()
  const headers = new Map(world.deadLetters.messages[0]!.headers!.map(({ key, value }) => [key, value]))
  expect([headers.get('sluice.log'), headers.get('sluice.log-id')]).toEqual(['1', world.log.id])
})

test('a store that is away when the number is taken is waited for', async () => {
  const world = makeWorld()
  let attempts = 0
  const wrapSink = (sink: Sink<FakeEncoded>): Sink<FakeEncoded> => ({
    ...sink,
    async takeNumbers(logs) {
      if (++attempts <= 3) throw failed({ errorClass: 'transient' })
      await sink.takeNumbers(logs)
    },
  })
  await world.log.append([pack(1)])
  const { writer } = await startWriter(world, { wrapSink })
  await expect.poll(() => stored(world.store)).toEqual([1])
  expect([attempts, writer.state()]).toEqual([4, 'running'])
  await writer.stop()
})

test('a writer whose log another one has taken meanwhile stops, and stores nothing', async () => {
  const world = makeWorld()
  const { writer } = await startWriter(world)
  world.store.logs.push({ number: 1, name: 'messages', id: world.log.id, writer: 'another', acceptedMs: 1 })
  await world.log.append([pack(1), text('undecodable')])
  await expect(writer.done).rejects.toThrow(/belong to the writer "another"/)
  expect([stored(world.store), world.deadLetters.messages]).toEqual([[], []])
})
