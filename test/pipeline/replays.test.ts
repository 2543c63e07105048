// Replays: stored once, at the first position and with the first time; one that fails again is the dead letter that it was.

import { pino } from 'pino'
import { expect, onTestFinished, test } from 'vitest'
import { openDeadLetters } from '../../pipeline/dead-letters.ts'
import { openLetters } from '../../pipeline/letters/letters.ts'
import { pipelineMetrics } from '../../pipeline/metrics.ts'
import { replaying } from '../../pipeline/replays.ts'
import { openWriter, type Writer } from '../../pipeline/writer.ts'
import type { Transformer } from '../../transformers/transformer.ts'
import { openFakeSink } from '../sinks/fake-sink.ts'
import { type FakeLog, openFakeLog } from './fake-log.ts'
import { openFakeSource } from './fake-source.ts'
import { openFakeTopicReader } from './fake-topic-reader.ts'
import { outgoing } from './message.ts'
import { numbers, pack, text } from './numbers.ts'
import { deadOffsets, defaults, makeWorld, startWriter, type World } from './parts.ts'

/** The second flow of the writer of `startWriter`, over the log of replays. */
async function startReplays(world: World, replays: FakeLog, transformer: Transformer = numbers): Promise<Writer> {
  const sink = await openFakeSink({ store: world.store, logName: replays.name, logId: replays.id })
  const source = openFakeSource(replays, { consumer: 'replays', startAt: partitions => sink.positions!(partitions) })
  const deadLetters = openDeadLetters({ log: world.letters, topic: world.log.name, logNumber: 1, writer: 'writer' })
  const writer = openWriter({
    name: 'writer',
    sink,
    ...replaying({ source, transformer, deadLetters, logNumber: sink.logNumber }),
    options: defaults,
    metrics: pipelineMetrics(world.registry, 'replays'),
    outages: world.outages,
    logger: pino({ level: 'silent' }),
    backOff: { waitMsMin: 1, waitMsMax: 4 },
    clock: () => 1_700_000_100_000,
  })
  onTestFinished(() => writer.stop())
  return writer
}

/** Everything undecodable here is text; this reads it as a number of its own. */
const mended: Transformer = {
  decode: (payload, envelope, batch) =>
    numbers.decode(new TextEncoder().encode(`[${new TextDecoder().decode(payload).length}]`), envelope, batch),
}

async function worldWithLetters(...payloads: string[]): Promise<{ world: World; replays: FakeLog; tool: ReturnType<typeof openLetters> }> {
  const world = makeWorld()
  await world.log.append([pack(1), ...payloads.map(payload => text(payload))])
  const { writer } = await startWriter(world)
  await expect.poll(() => world.log.committed.get('writer')).toBe(1 + payloads.length)
  await writer.stop()
  const replays = openFakeLog('messages.replays.writer')
  const tool = openLetters({ reader: openFakeTopicReader(world.letters), log: world.letters, replays: async () => replays })
  return { world, replays, tool }
}

test('a replayed message is stored at its first position, with its own time, and is open no more', async () => {
  const { world, replays, tool } = await worldWithLetters('four', 'eleven more')
  await startReplays(world, replays, mended)
  await tool.replay({})
  await expect.poll(() => replays.committed.get('replays')).toBe(2)
  const position = (offset: number): bigint => (1n << 56n) | BigInt(offset)
  expect(world.store.rows.map(({ position, value, timeUs }) => [position, value, timeUs])).toEqual([
    [position(0), 1, 1_700_000_000_000_000],
    [position(1), 4, 1_700_000_000_000_000],
    [position(2), 11, 1_700_000_000_000_000],
  ])
  expect(await tool.list({}, 10)).toEqual({ letters: [], total: 0 })
})

test('however often it is replayed, it is stored once', async () => {
  const { world, replays, tool } = await worldWithLetters('four')
  await startReplays(world, replays, mended)
  await tool.replay({ ids: ['0-1'] })
  await expect.poll(() => replays.committed.get('replays')).toBe(1)
  await tool.replay({ ids: ['0-1'] })
  await expect.poll(() => replays.committed.get('replays')).toBe(2)
  expect(world.store.rows.map(({ value }) => value)).toEqual([1, 4])
})

test('one that fails again is a dead letter of its first position, with what is wrong now, and its headers do not grow', async () => {
  const { world, replays, tool } = await worldWithLetters('four')
  const again: Transformer = {
    decode() {
      throw new TypeError('nothing is mended')
    },
  }
  await startReplays(world, replays, again)
  for (const round of [1, 2]) {
    await tool.replay({})
    await expect.poll(() => replays.committed.get('replays')).toBe(round)
    const { letters } = await tool.list({}, 10)
    expect(letters.map(({ id, state, rule, topic }) => [id, state, rule, topic])).toEqual([
      ['1-0-1', 'open', 'transformer-fault', 'messages'],
    ])
    expect((await tool.show('0-1'))[0]!.headers).toEqual([])
  }
  const headers = world.letters.messages.at(-1)!.headers!
  expect(headers.filter(({ key }) => key.endsWith('offset')).map(({ value }) => value)).toEqual(['1', '1'])
})

test('of another log than the one that is read now, it stays a letter of that log', async () => {
  const { world, replays } = await worldWithLetters()
  const marks = ['log', 'partition', 'offset'].map((name, at) => ({ key: `sluice.${name}`, value: String([5, 7, 9][at]) }))
  await startReplays(world, replays)
  await replays.append([{ ...text('no numbers'), headers: marks }])
  await expect.poll(() => world.letters.messages.length).toBe(1)
  const values = ['sluice.log', 'sluice.partition', 'sluice.offset'].map(
    name => world.letters.messages[0]!.headers!.find(({ key }) => key === name)?.value,
  )
  expect(values).toEqual(['5', '7', '9'])
})

test.each([
  ['none', []],
  [
    'a place that cannot be',
    [
      ['sluice.log', '1'],
      ['sluice.partition', '4096'],
      ['sluice.offset', '0'],
    ],
  ],
  [
    'a log that cannot be',
    [
      ['sluice.log', '0'],
      ['sluice.partition', '0'],
      ['sluice.offset', '0'],
    ],
  ],
  [
    'no numbers',
    [
      ['sluice.log', 'x'],
      ['sluice.partition', '0'],
      ['sluice.offset', '0'],
    ],
  ],
  [
    'another behind them',
    [
      ['sluice.log', '1'],
      ['sluice.partition', '0'],
      ['sluice.offset', '0'],
      ['trace', 'x'],
    ],
  ],
])('a message that nobody replayed (%s) is a dead letter of the topic of replays', async (_what, pairs) => {
  const { world, replays } = await worldWithLetters()
  await startReplays(world, replays)
  await replays.append([outgoing({ headers: pairs.map(([key, value]) => ({ key: key!, value: value! })) })])
  await expect.poll(() => deadOffsets(world.letters)).toEqual([expect.any(Number)])
  const own = world.letters.messages[0]!.headers!.slice(pairs.length)
  expect(own.find(({ key }) => key === 'sluice.rule')?.value).toBe('not-a-replay')
  expect(own.find(({ key }) => key === 'sluice.log')?.value).toBe('2')
  expect(world.store.rows.map(({ value }) => value)).toEqual([1])
})
