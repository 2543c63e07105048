// Messages that every consumer passed longer than the retention ago are deleted, no others, and the file shrinks.

import { statSync } from 'node:fs'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type EmbeddedLog } from '../../../pipeline/embedded-log/log.ts'
import { openEmbeddedSource } from '../../../pipeline/embedded-log/source.ts'
import type { Source } from '../../../pipeline/source.ts'
import { outgoing } from '../message.ts'
import { positionsOf } from '../positions.ts'
import { makeFolder, openLogIn, readAll } from './folder.ts'

const hourMs = 3_600_000
let folder: ReturnType<typeof makeFolder>
let log: EmbeddedLog
let nowMs: number

beforeEach(() => {
  folder = makeFolder()
  nowMs = 1_700_000_000_000
  log = openLogIn(folder.path, { clock: () => nowMs })
})
afterEach(async () => {
  await log.close()
  folder.remove()
})

function consumer(name: string): Source {
  return openEmbeddedSource({ log, consumer: name, chunkBytesMax: 1e6, chunkMessagesMax: 1000 })
}
const commit = (source: Source, offset: number): Promise<void> => source.commit(positionsOf({ 0: offset }))
const offsets = (): number[] => readAll(log).map(({ offset }) => offset)
const ten = Array.from({ length: 10 }, () => outgoing())

test('a message is deleted when the retention has passed since the last consumer passed it, and not before', async () => {
  const [first, second] = [consumer('relational'), consumer('document')]
  await log.append(ten)
  await commit(first, 10)
  await commit(second, 4)
  expect(await log.deleteExpired()).toBe(0)
  nowMs += 23 * hourMs
  expect(await log.deleteExpired()).toBe(0)
  await commit(second, 10)
  expect(await log.deleteExpired()).toBe(0)
  nowMs += hourMs
  expect(await log.deleteExpired()).toBe(4)
  expect(offsets()).toEqual([4, 5, 6, 7, 8, 9])
  nowMs += 23 * hourMs
  expect(await log.deleteExpired()).toBe(6)
  expect(offsets()).toEqual([])
})

test('a log without consumers keeps everything', async () => {
  await log.append(ten)
  nowMs += 1000 * hourMs
  expect(await log.deleteExpired()).toBe(0)
  expect(offsets()).toHaveLength(10)
})

test('a consumer that has committed nothing keeps everything', async () => {
  consumer('relational')
  const other = consumer('document')
  await log.append(ten)
  await commit(other, 10)
  await log.deleteExpired()
  nowMs += 48 * hourMs
  expect(await log.deleteExpired()).toBe(0)
})

test('if a store that lost its last writes goes back, the messages that it must read again stay', async () => {
  await log.append(ten)
  await commit(consumer('relational'), 8)
  await log.deleteExpired()
  nowMs += 24 * hourMs
  const startAt = async () => positionsOf({ 0: 3 })
  const back = openEmbeddedSource({ log, consumer: 'relational', startAt, chunkBytesMax: 1e6, chunkMessagesMax: 1 })
  const chunks = back.chunks(new AbortController().signal)[Symbol.asyncIterator]()
  expect((await chunks.next()).value).toMatchObject({ from: 3, to: 4 })
  expect(await log.deleteExpired()).toBe(3)
  expect(offsets()).toEqual([3, 4, 5, 6, 7, 8, 9])
  await back.close()
})

test('after everything was deleted and the log was reopened, offsets continue', async () => {
  const source = consumer('relational')
  await log.append(ten)
  await commit(source, 10)
  await log.deleteExpired()
  nowMs += 24 * hourMs
  expect(await log.deleteExpired()).toBe(10)
  await log.close()
  log = openLogIn(folder.path, { clock: () => nowMs })
  expect(await consumer('relational').ends()).toEqual(positionsOf({ 0: 10 }))
  expect(await log.append([outgoing()])).toEqual([{ partition: 0, offset: 10 }])
})

test('publishers can append between the steps of a long deletion', async () => {
  const source = consumer('relational')
  for (let at = 0; at < 5; at++) await log.append(Array.from({ length: 1000 }, () => outgoing()))
  await commit(source, 5000)
  await log.deleteExpired()
  nowMs += 24 * hourMs
  const order: string[] = []
  const deletion = log.deleteExpired().then(() => order.push('deleted'))
  await log.append([outgoing()]).then(() => order.push('appended'))
  await deletion
  expect(order).toEqual(['appended', 'deleted'])
  expect(offsets()).toEqual([5000])
})

test('the file shrinks when most of it is free', async () => {
  const source = consumer('relational')
  for (let at = 0; at < 8; at++) await log.append([outgoing({ payload: new Uint8Array(1024 * 1024) })])
  await commit(source, 8)
  await log.deleteExpired()
  nowMs += 24 * hourMs
  await log.deleteExpired()
  expect(statSync(log.file.path).size).toBeLessThan(100 * 1024)
})

test('closing during a deletion ends it between two steps', async () => {
  const source = consumer('relational')
  for (let at = 0; at < 5; at++) await log.append(Array.from({ length: 1000 }, () => outgoing()))
  await commit(source, 5000)
  await log.deleteExpired()
  nowMs += 24 * hourMs
  const deletion = log.deleteExpired()
  await log.close()
  const deleted = await deletion
  log = openLogIn(folder.path, { clock: () => nowMs })
  expect(offsets()[0]).toBe(deleted)
  expect(await log.deleteExpired()).toBe(5000 - deleted)
})
