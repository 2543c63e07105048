// Which files can be opened as an embedded log, and the errors for others.

import { statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { openEmbeddedSource } from '../../../pipeline/embedded-log/source.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { outgoing } from '../message.ts'
import { positionsOf } from '../positions.ts'
import { makeFolder, openLogIn } from './folder.ts'

let folder: ReturnType<typeof makeFolder>
beforeEach(() => {
  folder = makeFolder()
})
afterEach(() => folder.remove())

test('a second opening is refused while the first has the file open, and possible afterwards', async () => {
  const first = openLogIn(folder.path)
  expect(() => openLogIn(folder.path)).toThrow(/is open in another process: stop it, or use another data folder/)
  await first.append([outgoing()])
  await first.close()
  const second = openLogIn(folder.path)
  expect(second.id).toBe(first.id)
  await second.close()
})

test('only the owner can read the file and its write-ahead log', async () => {
  const log = openLogIn(folder.path)
  await log.append([outgoing()])
  for (const file of ['messages.sqlite', 'messages.sqlite-wal']) expect(statSync(join(folder.path, file)).mode & 0o777).toBe(0o600)
  await log.close()
})

test('a file of another format, topic or program is refused and not changed', async () => {
  await openLogIn(folder.path).close()
  expect(() => openLogIn(folder.path, { name: 'other' })).toThrow(/is the log of the topic messages, not of other/)
  folder.change('PRAGMA user_version = 2')
  expect(() => openLogIn(folder.path)).toThrow(/has format 2, but this release reads format 1/)
  folder.change('PRAGMA application_id = 7')
  expect(() => openLogIn(folder.path)).toThrow(/is a database, but not a log/)
})

test('a file that is not a database is refused', () => {
  writeFileSync(join(folder.path, 'messages.sqlite'), 'x'.repeat(5000))
  expect(() => openLogIn(folder.path)).toThrow(/is damaged or not a log/)
})

test('a missing folder is a clear error with its cause', () => {
  expect(() => openLogIn(join(folder.path, 'nowhere'))).toThrow(SystemicError)
  expect(() => openLogIn(join(folder.path, 'nowhere'))).toThrow(/its folder must exist/)
})

test('a log that has used its 2^44 offsets is refused at the start', async () => {
  await openLogIn(folder.path).close()
  folder.change('UPDATE log SET start = 17592186044416')
  expect(() => openLogIn(folder.path)).toThrow(/has used its 17592186044415 offsets/)
  folder.change('UPDATE log SET start = 17592186044415')
  const log = openLogIn(folder.path)
  expect(await log.append([outgoing()])).toEqual([{ partition: 0, offset: 17_592_186_044_415 }])
  await expect(log.append([outgoing()])).rejects.toThrow(/used all its offsets/)
  await log.close()
})

test('a file that temporarily cannot be written is an outage of the source, which retries', async () => {
  const log = openLogIn(folder.path)
  await log.append([outgoing()])
  const source = openEmbeddedSource({ log, consumer: 'w', chunkBytesMax: 1e6, chunkMessagesMax: 10 })
  log.file.database.exec('PRAGMA query_only = ON')
  await expect(source.commit(positionsOf({ 0: 1 }))).rejects.toBeInstanceOf(LogUnavailableError)
  log.file.database.exec('PRAGMA query_only = OFF')
  await source.commit(positionsOf({ 0: 1 }))
  await log.close()
})
