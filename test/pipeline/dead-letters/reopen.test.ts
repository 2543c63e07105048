// The upgrade from versions that replayed through a separate topic: unread messages in it are open again, and `verify` reports them until they are stored.

import { existsSync } from 'node:fs'
import { expect, onTestFinished, test } from 'vitest'
import { openDeadLetterQueue } from '../../../pipeline/dead-letters/queue.ts'
import { reopenDeadLetters, reopenedSentence } from '../../../pipeline/dead-letters/reopen.ts'
import { replay } from '../../../pipeline/dead-letters/replay.ts'
import { openEmbeddedLog } from '../../../pipeline/embedded-log/log.ts'
import { reopenEmbeddedReplays } from '../../../pipeline/embedded-log/old-replays.ts'
import { openEmbeddedTopicReader } from '../../../pipeline/embedded-log/topic-reader.ts'
import type { Log } from '../../../pipeline/log.ts'
import { openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { type LogPartition, logPartition } from '../../../transformers/log-partition.ts'
import { openFakeReplaySink } from '../../sinks/fake-replays.ts'
import { decoderFor, siteWith } from '../audit/site.ts'
import { makeFolder, silent } from '../embedded-log/folder.ts'
import { openFakeLog } from '../fake-log.ts'
import { openFakeTopicReader } from '../fake-topic-reader.ts'
import { pack, text } from '../writer/numbers.ts'
import { oldReplay, oldResolution } from './old-replays.ts'

test('three waiting replays are open again after the upgrade, and verify reports them until they are stored', async () => {
  // With the current options they are numbers; the writer could not decode them.
  const site = await siteWith([pack(1), text('two'), text('three'), text('four'), text('five')])
  const { world, deadLetters, verify } = site
  const replays = openFakeLog('messages.replays.writer-1')
  await replays.append([1, 2, 3, 4].map(offset => oldReplay(text('x'), offset)))
  await world.deadLetters.append([1, 2, 3, 4].map(offset => oldResolution(offset)))
  const decoder = {
    decode: (
      message: Parameters<ReturnType<typeof decoderFor>['decode']>[0],
      ...of: [LogPartition, Parameters<ReturnType<typeof decoderFor>['decode']>[2]]
    ) => decoderFor().decode(message.payload[0] === 0x5b ? message : { ...message, payload: new TextEncoder().encode('[7]') }, ...of),
  }
  const deadLettersReader = openFakeTopicReader(world.deadLetters)
  expect((await verify({ decoder })).partitions[0]!.faults).toMatchObject({ 'replay missing': 4 })

  // The first one was read and stored before the upgrade.
  world.store.rows.push({ ...world.store.rows[0]!, position: (1n << 56n) | 1n })
  world.store.replayed.add((1n << 56n) | 1n)
  const parts = {
    deadLetters: deadLettersReader,
    log: world.deadLetters,
    replays: openFakeTopicReader(replays),
    committed: new Map([[0, 1]]),
  }
  expect(await reopenDeadLetters(parts)).toBe(3)
  expect((await verify({ decoder })).partitions[0]).toMatchObject({ recount: { open: 3, replayed: 1 }, faults: {} })
  const { letters: listed } = await deadLetters().list({}, 10)
  expect(listed.map(({ id, rule, reason }) => [id, rule, reason])).toEqual(
    [2, 3, 4].map(offset => [`1-0-${offset}`, 'numbers', 'the root is no array']),
  )
  // A process that starts at the same time duplicates nothing.
  expect(await reopenDeadLetters(parts)).toBe(0)

  const report = await replay(
    {
      reader: deadLettersReader,
      log: world.deadLetters,
      decoder,
      audit: site.audit,
      sinkOf: async log => openFakeReplaySink(world.store, log),
      topic: 'messages',
      writer: 'writer-1',
    },
    {},
  )
  expect(report).toEqual({ replayed: 3, left: 0, reasons: [], missing: [] })
  expect((await verify({ decoder })).partitions[0]).toMatchObject({ recount: { open: 0, replayed: 4 } })
})

test('a letter dropped after its replay stays dropped, and foreign messages are skipped', async () => {
  const [deadLetters, replays] = [openFakeLog('messages.dead-letters.writer-1'), openFakeLog('messages.replays.writer-1')]
  await put(deadLetters, 1, 2)
  await deadLetters.append([oldResolution(1), oldResolution(2), oldResolution(2, 'dropped')])
  await replays.append([text('no replay'), oldReplay(text('x'), 1), oldReplay(text('x'), 2)])
  const parts = {
    deadLetters: openFakeTopicReader(deadLetters),
    log: deadLetters,
    replays: openFakeTopicReader(replays),
    committed: new Map(),
  }
  expect(await reopenDeadLetters(parts)).toBe(1)
  const { letters: open } = await openDeadLetterQueue({ reader: openFakeTopicReader(deadLetters), log: deadLetters }).list({}, 10)
  expect(open.map(({ id }) => id)).toEqual(['1-0-1'])
})

test('an old replays log of ./sluice up is read from its committed offset, and deleted', async () => {
  const folder = makeFolder()
  onTestFinished(() => folder.remove())
  const open = (name: string) =>
    openEmbeddedLog({ path: `${folder.path}/${name}.sqlite`, name, queueBytesMax: 1 << 24, retentionMs: 1e9, logger: silent })
  const deadLetters = open('messages.dead-letters.relational')
  onTestFinished(() => deadLetters.close())
  await put(deadLetters, 1, 2, 3)
  await deadLetters.append([1, 2, 3].map(offset => oldResolution(offset)))
  const replays = open('messages.replays.relational')
  await replays.append([1, 2, 3].map(offset => oldReplay(text('x'), offset)))
  replays.file.database.prepare('INSERT INTO consumers (name, committed) VALUES (?, ?)').run('relational.replays', 1)
  await replays.close()

  const upgrade = () => reopenEmbeddedReplays(folder.path, deadLetters, open, { topic: 'messages', writer: 'relational' })
  expect(await upgrade()).toBe(2)
  expect(existsSync(`${folder.path}/messages.replays.relational.sqlite`)).toBe(false)
  expect(await upgrade()).toBe(0)
  const listed = await openDeadLetterQueue({ reader: openEmbeddedTopicReader(deadLetters), log: deadLetters }).list({}, 10)
  expect(listed.letters.map(({ id, channel, payload_bytes }) => [id, channel, payload_bytes])).toEqual([
    ['1-0-2', 'c1', 1],
    ['1-0-3', 'c1', 1],
  ])
})

test('the operator reads how many letters were reopened, and what to do', () => {
  expect(reopenedSentence(1)).toBe(
    '1 dead letter was reopened, because an earlier release had not finished replaying: store them with ./sluice dlq replay',
  )
  expect(reopenedSentence(3)).toMatch(/^3 dead letters were reopened, .*: store them with \.\/sluice dlq replay$/)
})

async function put(log: Log, ...offsets: number[]): Promise<void> {
  const dead = openDeadLetters({ logOf: async () => log, topics: ['messages'], logIds: ['id-1'], logNumbers: [1], writer: 'writer-1' })
  const rejection = { message: 0, rule: 'numbers', reason: 'no' }
  await dead.put(offsets.map(offset => ({ stage: 'decode', at: logPartition(0, 0), offset, rejection, message: text('x') })))
}
