// Waiting appends share one commit; the queue is bounded; a full disk refuses appends and loses nothing.

import { Writable } from 'node:stream'
import { pino } from 'pino'
import { Registry } from 'prom-client'
import { expect, test } from 'vitest'
import { pragma } from '../../../pipeline/embedded-log/file.ts'
import { logMetrics } from '../../../pipeline/embedded-log/metrics.ts'
import { openEmbeddedSource } from '../../../pipeline/embedded-log/source.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { outgoing } from '../message.ts'
import { positionsOf } from '../positions.ts'
import { makeFolder, openLogIn, readAll } from './folder.ts'

test('a hundred concurrent appends take one commit', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path)
  let commits = 0
  log.onAppend(() => commits++)
  await Promise.all(Array.from({ length: 100 }, () => log.append([outgoing()])))
  expect(commits).toBe(1)
  await log.close()
  folder.remove()
})

test('a commit accepts no further append beyond its size, and the rest follows in order', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path)
  let commits = 0
  log.onAppend(() => commits++)
  const positions = await Promise.all(Array.from({ length: 10 }, () => log.append([outgoing({ payload: new Uint8Array(1024 * 1024) })])))
  expect(positions.flat().map(({ offset }) => offset)).toEqual([0, 1, 2, 3, 4, 5, 6, 7, 8, 9])
  expect(commits).toBe(3)
  await log.close()
  folder.remove()
})

test('an append that exceeds the queue is refused, and smaller ones are accepted', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path, { queueBytesMax: 10_000 })
  const payload = new Uint8Array(4000)
  const results = await Promise.allSettled(Array.from({ length: 5 }, () => log.append([outgoing({ payload })])))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected', 'rejected'])
  expect((results[2] as PromiseRejectedResult).reason).toBeInstanceOf(LogUnavailableError)
  expect(readAll(log)).toHaveLength(2)
  // The commit has emptied the queue.
  await log.append([outgoing({ payload })])
  await log.close()
  folder.remove()
})

test("a full disk refuses appends with SQLite's error, keeps what was acknowledged, and accepts messages again when there is space", async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path, { fileBytesMax: 128 * 1024 })
  const registry = new Registry()
  logMetrics(registry, { log: log.file })
  const usedRatio = async () => (await registry.getSingleMetric('log_used_ratio')!.get()).values[0]!.value
  expect(await usedRatio()).toBeLessThan(0.5)
  const payload = new Uint8Array(10_000)
  const results = await Promise.allSettled(Array.from({ length: 20 }, () => log.append([outgoing({ payload })])))
  expect(results.every(({ status }) => status === 'rejected')).toBe(true) // one commit for all
  let acknowledged = 0
  let refusal: unknown
  for (let at = 0; at < 20; at++) {
    const [result] = await Promise.allSettled([log.append([outgoing({ payload })])])
    if (result.status === 'fulfilled') acknowledged++
    else refusal ??= result.reason
  }
  expect(refusal).toBeInstanceOf(LogUnavailableError)
  expect((refusal as Error).message).toMatch(/full.*free some space, or raise log\.file_bytes/)
  expect((refusal as Error).cause).toMatchObject({ errcode: 13 })
  expect(acknowledged).toBeGreaterThan(5)
  expect(readAll(log)).toHaveLength(acknowledged)
  expect(await usedRatio()).toBeGreaterThan(0.9)
  log.file.database.exec('PRAGMA max_page_count = 1000')
  expect(await usedRatio()).toBeLessThan(0.1)
  expect(await log.append([outgoing({ payload })])).toEqual([{ partition: 0, offset: acknowledged }])
  await log.check()
  await log.close()
  expect(await usedRatio()).toBeNaN()
  folder.remove()
})

test('the check fails while the log cannot be written', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path)
  log.file.database.exec('PRAGMA query_only = ON')
  await expect(log.check()).rejects.toBeInstanceOf(LogUnavailableError)
  log.file.database.exec('PRAGMA query_only = OFF')
  await log.check()
  await log.close()
  await expect(log.check()).rejects.toBeInstanceOf(LogUnavailableError)
  folder.remove()
})

test('with a full file every check fails until an append would succeed; then the log recovers without one, and logs one line for each', async () => {
  const folder = makeFolder()
  const lines: string[] = []
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      lines.push((JSON.parse(chunk.toString()) as { msg: string }).msg)
      done()
    },
  })
  let nowMs = 0
  const log = openLogIn(folder.path, { fileBytesMax: 256 * 1024, retentionMs: 1000, clock: () => nowMs, logger: pino(stream) })
  const source = openEmbeddedSource({ log, consumer: 'relational', chunkBytesMax: 1e6, chunkMessagesMax: 1000 })
  const publish = () => log.append([outgoing({ payload: new Uint8Array(10_000) })])
  const full = async () => {
    while (true) await publish()
  }
  await expect(full()).rejects.toBeInstanceOf(LogUnavailableError)
  for (let at = 0; at < 3; at++) await expect(log.check()).rejects.toThrow(/full.*free some space/)
  const away = 'the log messages is away (database or disk is full), attempt 1'
  expect(lines).toEqual([away])
  const taken = log.file.end

  await source.commit(positionsOf({ 0: taken }))
  await log.deleteExpired()
  await expect(log.check()).rejects.toThrow(/full/)
  nowMs += 1000
  expect(await log.deleteExpired()).toBe(taken)
  await log.check()
  expect(lines).toEqual([away, expect.stringMatching(/^the log messages is back after/)])
  expect(readAll(log)).toEqual([])
  expect(await publish()).toEqual([{ partition: 0, offset: taken }])
  await source.close()
  await log.close()
  folder.remove()
})

test('a message without a time is refused alone, and affects no other of the same commit', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path)
  const [good, bad] = await Promise.allSettled([log.append([outgoing()]), log.append([outgoing({ createdUs: Number.NaN })])])
  expect([good.status, bad.status]).toEqual(['fulfilled', 'rejected'])
  expect(readAll(log)).toHaveLength(1)
  await log.close()
  folder.remove()
})

test('a commit is synced to the disk before it is acknowledged: write-ahead log, synchronous FULL', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path)
  expect(pragma(log.file.database, 'synchronous')).toBe(2)
  expect(log.file.database.prepare('PRAGMA journal_mode').get()).toEqual({ journal_mode: 'wal' })
  await log.close()
  folder.remove()
})
