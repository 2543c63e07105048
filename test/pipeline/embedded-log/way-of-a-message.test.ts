// From the embedded log through a writer to a store, with dead letters in a log of their own, over a restart.

import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { openDeadLetters } from '../../../pipeline/dead-letters.ts'
import { openEmbeddedSource } from '../../../pipeline/embedded-log/index.ts'
import { pipelineMetrics } from '../../../pipeline/metrics.ts'
import { openWriter, type Writer } from '../../../pipeline/writer.ts'
import { createFakeStore, type FakeStore, openFakeSink } from '../../sinks/fake-sink.ts'
import { outgoing } from '../message.ts'
import { numbers, pack, text } from '../numbers.ts'
import { defaults, makeWorld, stored } from '../parts.ts'
import { makeFolder, openLogIn, readAll, silent } from './folder.ts'

/** Opens everything in the order of a start; `stop` closes it in the order of an end. */
async function start(folder: string, store: FakeStore) {
  const log = openLogIn(folder)
  const name = 'messages.dead-letters.relational'
  const letters = openLogIn(folder, { path: join(folder, `${name}.sqlite`), name })
  const sink = await openFakeSink({ store, logId: log.id })
  const source = openEmbeddedSource({
    log,
    consumer: 'relational',
    startAt: partitions => sink.positions!(partitions),
    runBytesMax: 1024 * 1024,
    runMessagesMax: 100,
    damaged: 'dead-letter',
  })
  const writer: Writer = openWriter({
    name: 'relational',
    source,
    sink,
    transformer: numbers,
    deadLetters: openDeadLetters({ log: letters, topic: log.name, logNumber: sink.logNumber, writer: 'relational' }),
    options: defaults,
    metrics: pipelineMetrics(new Registry(), 'relational'),
    outages: makeWorld().outages,
    logger: silent,
    clock: () => 1_700_000_000_000,
  })
  return {
    log,
    letters,
    source,
    async stop() {
      await writer.stop()
      await sink.close()
      await source.close()
      await letters.close()
      await log.close()
    },
  }
}

test('what was acknowledged before and after a restart is stored once, in order; the rest are dead letters, with every byte', async () => {
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
  const [letter] = readAll(second.letters)
  expect(letter!.message).toMatchObject({ channel: 'with\0nul', payload: bytes })
  expect(letter!.message.headers).toContainEqual({ key: 'trace', value: '7' })
  expect(letter!.message.headers).toContainEqual({ key: 'sluice.rule', value: 'text-characters' })
  await second.stop()
  folder.remove()
})

test('a message that is damaged in the log is a dead letter, and those around it are stored', async () => {
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
  const [letter] = readAll(running.letters)
  expect(letter!.message.headers).toContainEqual({ key: 'sluice.rule', value: 'checksum' })
  expect(letter!.message.headers).toContainEqual({ key: 'sluice.offset', value: '1' })
  await running.stop()
  folder.remove()
})

test('a message on an idle log is stored: the source wakes with the commit, for nothing else would wake it', async () => {
  const folder = makeFolder()
  const store = createFakeStore()
  const running = await start(folder.path, store)
  await running.log.append([pack(1)])
  await expect.poll(() => stored(store), { interval: 1 }).toEqual([1])
  await running.stop()
  folder.remove()
})
