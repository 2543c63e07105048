// Appends that wait together share one commit; what waits is bounded; a full disk refuses and loses nothing.

import { Writable } from 'node:stream'
import { pino } from 'pino'
import { expect, test } from 'vitest'
import { pragma } from '../../../pipeline/embedded-log/file.ts'
import { openEmbeddedSource } from '../../../pipeline/embedded-log/index.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { outgoing } from '../message.ts'
import { makeFolder, openLogIn, readAll } from './folder.ts'

test('a hundred appends at once take one commit', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path)
  let commits = 0
  log.onAppend(() => commits++)
  await Promise.all(Array.from({ length: 100 }, () => log.append([outgoing()])))
  expect(commits).toBe(1)
  await log.close()
  folder.remove()
})

test('a commit takes no further append beyond its bytes, and the rest follows in order', async () => {
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

test('what does not fit into the bytes that may wait is refused, and what fits is kept', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path, { queueBytesMax: 10_000 })
  const payload = new Uint8Array(4000)
  const results = await Promise.allSettled(Array.from({ length: 5 }, () => log.append([outgoing({ payload })])))
  expect(results.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled', 'rejected', 'rejected', 'rejected'])
  expect((results[2] as PromiseRejectedResult).reason).toBeInstanceOf(LogUnavailableError)
  expect(readAll(log)).toHaveLength(2)
  // The commit made room.
  await log.append([outgoing({ payload })])
  await log.close()
  folder.remove()
})

test('a full disk refuses with the cause of SQLite, keeps what was acknowledged, and takes messages again when there is room', async () => {
  const folder = makeFolder()
  const log = openLogIn(folder.path, { fileBytesMax: 128 * 1024 })
  const payload = new Uint8Array(10_000)
  const results = await Promise.allSettled(Array.from({ length: 20 }, () => log.append([outgoing({ payload })])))
  expect(results.every(({ status }) => status === 'rejected')).toBe(true) // one commit for all: all or none
  let acknowledged = 0
  let refusal: unknown
  for (let at = 0; at < 20; at++) {
    const [result] = await Promise.allSettled([log.append([outgoing({ payload })])])
    if (result.status === 'fulfilled') acknowledged++
    else refusal ??= result.reason
  }
  expect(refusal).toBeInstanceOf(LogUnavailableError)
  expect((refusal as Error).message).toMatch(/full.*make room/)
  expect((refusal as Error).cause).toMatchObject({ errcode: 13 })
  expect(acknowledged).toBeGreaterThan(5)
  expect(readAll(log)).toHaveLength(acknowledged)
  log.file.database.exec('PRAGMA max_page_count = 1000')
  expect(await log.append([outgoing({ payload })])).toEqual([{ partition: 0, offset: acknowledged }])
  await log.check()
  await log.close()
  folder.remove()
})

test('a check fails while the log cannot be written', async () => {
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

test('a full file fails every check until an append would be taken, and then recovers without one, in one line each', async () => {
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
  const source = openEmbeddedSource({ log, consumer: 'relational', runBytesMax: 1e6, runMessagesMax: 1000 })
  const publish = () => log.append([outgoing({ payload: new Uint8Array(10_000) })])
  const full = async () => {
    while (true) await publish()
  }
  await expect(full()).rejects.toBeInstanceOf(LogUnavailableError)
  for (let at = 0; at < 3; at++) await expect(log.check()).rejects.toThrow(/full.*make room/)
  const away = 'the log messages is away (database or disk is full), attempt 1'
  expect(lines).toEqual([away])
  const taken = log.file.end

  await source.commit(new Map([[0, taken]]))
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

test('a message without an instant is refused alone, and harms no other of the same commit', async () => {
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
