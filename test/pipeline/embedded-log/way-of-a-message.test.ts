// From the embedded log through a writer to a store, with dead letters in a separate log, across a restart.

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { openEmbeddedSource } from '../../../pipeline/embedded-log/source.ts'
import { openDeadLetters } from '../../../pipeline/writer/dead-letters.ts'
import { pipelineMetrics } from '../../../pipeline/writer/metrics.ts'
import { openWriter, type Writer } from '../../../pipeline/writer/writer.ts'
import { createFakeStore, type FakeStore, openFakeSink } from '../../sinks/fake-sink.ts'
import { outgoing } from '../message.ts'
import { numbers, pack, text } from '../writer/numbers.ts'
import { defaults, makeWorld, stored } from '../writer/parts.ts'
import { makeFolder, openLogIn, readAll, silent } from './folder.ts'

/** Opens everything in the order of a start; `stop` closes it in reverse. */
async function start(folder: string, store: FakeStore) {
  const log = openLogIn(folder)
  const name = 'messages.dead-letters.relational'
  const deadLetters = openLogIn(folder, { path: join(folder, `${name}.sqlite`), name })
  const sink = await openFakeSink({ store, logId: log.id })
  const source = openEmbeddedSource({
    log,
    consumer: 'relational',
    startAt: partitions => sink.positions!(partitions),
    chunkBytesMax: 1024 * 1024,
    chunkMessagesMax: 100,
    damaged: 'dead-letter',
  })
  const writer: Writer = openWriter({
    name: 'relational',
    topics: [log.name],
    source,
    sink,
    transformer: numbers,
    deadLetters: openDeadLetters({
      logOf: async () => deadLetters,
      topics: [log.name],
      logIds: [log.id],
      logNumbers: sink.logNumbers,
      writer: 'relational',
    }),
    options: defaults,
    metrics: pipelineMetrics(new Registry(), 'relational', [log.name]),
    outages: makeWorld().outages,
    logger: silent,
    clock: () => 1_700_000_000_000,
  })
  return {
    log,
    letters: deadLetters,
    source,
    async stop() {
      await writer.stop()
      await sink.close()
      await source.close()
      await deadLetters.close()
      await log.close()
    },
  }
}

test('messages acknowledged before and after a restart are stored once, in order; the others are dead letters, byte for byte', async () => {
  const folder = makeFolder()
  const store = createFakeStore()
  const first = await start(folder.path, store)
  const bytes = Uint8Array.from({ length: 256 }, (_, byte) => byte)
  for (let at = 0; at < 50; at++) await first.log.append([pack(at)])
  await first.log.append([outgoing({ channel: 'with\0nul', payload: bytes, headers: [{ key: 'trace', value: '7' }] })])
  await expect.poll(() => stored(store).length).toBe(50)
  await first.stop()

  const second = await start(folder.path, store)
  await Promise.all(Array.from({ length: 50 }, (_, at) => second.log.append([pack(50 + at)])))
  await second.log.append([text('no')])
  await expect.poll(() => stored(store).length).toBe(100)
  await expect.poll(() => readAll(second.letters).length).toBe(2)
  expect(stored(store)).toEqual(Array.from({ length: 100 }, (_, at) => at))
  const [deadLetter] = readAll(second.letters)
  expect(deadLetter!.message).toMatchObject({ channel: 'with\0nul', payload: bytes })
  expect(deadLetter!.message.headers).toContainEqual({ key: 'trace', value: '7' })
  expect(deadLetter!.message.headers).toContainEqual({ key: 'sluice.rule', value: 'text-characters' })
  await second.stop()
  folder.remove()
})

test('a message that is damaged in the log is a dead letter, and its neighbours are stored', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path)
  await log.append([pack(0), outgoing({ headers: [{ key: 'a', value: 'b' }] }), pack(2)])
  await log.close()
  const database = new DatabaseSync(join(folder.path, 'messages.sqlite'))
  database.exec(`UPDATE messages SET headers = '{', created_us = -1, channel = 'other' WHERE "offset" = 1`)
  database.close()
  const store = createFakeStore()
  const running = await start(folder.path, store)
  await expect.poll(() => stored(store)).toEqual([0, 2])
  await expect.poll(() => readAll(running.letters).length).toBe(1)
  const [deadLetter] = readAll(running.letters)
  expect(deadLetter!.message.headers).toContainEqual({ key: 'sluice.rule', value: 'checksum' })
  expect(deadLetter!.message.headers).toContainEqual({ key: 'sluice.offset', value: '1' })
  await running.stop()
  folder.remove()
})

test('a message on an idle log is stored: only its commit wakes the source', async () => {
  const folder = makeFolder()
  const store = createFakeStore()
  const running = await start(folder.path, store)
  await running.log.append([pack(1)])
  await expect.poll(() => stored(store), { interval: 1 }).toEqual([1])
  await running.stop()
  folder.remove()
})
