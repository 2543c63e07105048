// The overview is made once for all who watch, and not at all without watchers; it adds up while the store is away.

import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Overview, overviewRoute } from '../../console/overview.ts'
import { createServer, type HttpServer } from '../../http/server.ts'
import type { EmbeddedLog } from '../../pipeline/embedded-log/log.ts'
import { openEmbeddedTopicReader } from '../../pipeline/embedded-log/topic-reader.ts'
import type { AuditedPartition } from '../../sinks/audit.ts'
import { makeFolder, openLogIn, silent } from '../pipeline/embedded-log/folder.ts'
import { outgoing } from '../pipeline/message.ts'
import { type EventClient, openEvents } from '../readers/live/event-source.ts'

const none = { nextOffset: 0, received: 0, stored: 0, empty: 0, filtered: 0, skipped: 0, duplicate: 0, deadLettered: 0, lost: 0 }
let folder: ReturnType<typeof makeFolder>
/** Those of the log. */
let otherTimers: number
let log: EmbeddedLog
let app: HttpServer
let url: string
let asked: number
let counts: () => AuditedPartition | undefined
let administrators: Set<string>
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  folder = makeFolder()
  log = openLogIn(folder.path)
  asked = 0
  counts = () => undefined
  administrators = new Set(['chief', 'second'])
  app = createServer({ logger: silent })
  app.register(
    overviewRoute({
      log: openEmbeddedTopicReader(log),
      counts: async () => {
        asked++
        return counts()
      },
      logNumber: () => 1,
      deadLetters: { readOn: async () => undefined, openByRule: () => ({}) },
      dependencies: async () => [],
      mqttConnections: async () => undefined,
      writer: () => 'running',
      isAdministrator: async token => administrators.has(token),
      isStoreAway: () => false,
      userOf: async token => token,
      note: async () => undefined,
      logger: silent,
    }),
  )
  await app.listen({ port: 0, host: '127.0.0.1' })
  otherTimers = vi.getTimerCount()
  url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/console/overview/stream`
})
afterEach(async () => {
  await app.close()
  vi.useRealTimers()
  await log.close()
  folder.remove()
})

const watch = (token = 'chief'): Promise<EventClient> => openEvents(url, { authorization: `Bearer ${token}` })
const nth = (stream: EventClient, count: number): Promise<unknown> =>
  stream.untilNamed(() => stream.named.filter(({ name }) => name === 'overview').length >= count)
const overviews = (stream: EventClient): Overview[] =>
  stream.named.filter(({ name }) => name === 'overview').map(({ data }) => JSON.parse(data) as Overview)

async function untilNoTimers(): Promise<void> {
  while (vi.getTimerCount() > otherTimers) await new Promise(resolve => setTimeout(resolve, 5))
}

test('one is made in an interval, however many watch, and none when all have left', async () => {
  const first = await watch()
  const others = await Promise.all([watch(), watch('second'), watch()])
  for (const other of others) await nth(other, 1)
  await nth(first, 1)
  const [madeBefore, seen] = [asked, [first, ...others].map(stream => overviews(stream).length)]
  vi.advanceTimersByTime(1000)
  for (const [at, stream] of [first, ...others].entries()) await nth(stream, seen[at]! + 1)
  expect(asked).toBe(madeBefore + 1)
  for (const stream of [first, ...others]) stream.leave()
  await untilNoTimers()
  vi.advanceTimersByTime(5000)
  expect(asked).toBe(madeBefore + 1)
})

test('what the store has not counted yet waits, and what was received is counted apart from what became of it', async () => {
  await log.append([outgoing(), outgoing(), outgoing()])
  counts = () => ({ ...none, nextOffset: 2, received: 3, duplicate: 1, stored: 1, deadLettered: 1 })
  const stream = await watch()
  await nth(stream, 1)
  const ledger = { received: 3, stored: 1, dead_lettered: 1, filtered: 0, empty: 0, lost: 0, waiting: 1 }
  counts = () => ({ ...none, nextOffset: 3, received: 3, stored: 1, deadLettered: 1 })
  vi.advanceTimersByTime(1000)
  await nth(stream, 2)
  // A row that is missing shows: the sum is less than what was received.
  expect(overviews(stream).map(one => one.ledger)).toEqual([ledger, { ...ledger, waiting: 0 }])
  expect(overviews(stream).map(({ lag }) => lag.messages)).toEqual([1, 0])
})

test('ends, so that its reader tries again, if an event cannot be made', async () => {
  counts = () => {
    throw new Error('unknown')
  }
  const stream = await watch()
  expect(JSON.parse((await stream.untilNamed(({ name }) => name === 'end')).data)).toMatchObject({ reason: 'unavailable' })
  counts = () => undefined
  await nth(await watch(), 1)
})

test('has the beginnings of the newest twenty messages, newest first', async () => {
  const payload = Buffer.from('x'.repeat(100_000))
  await log.append(Array.from({ length: 25 }, () => outgoing({ payload })))
  const stream = await watch()
  await nth(stream, 1)
  const [{ newest }] = overviews(stream) as [Overview]
  expect(newest.map(({ id }) => id)).toEqual(Array.from({ length: 20 }, (_, at) => `1-0-${24 - at}`))
  expect(newest.every(message => message.payload === 'x'.repeat(200))).toBe(true)
})

test('ends within a second after the administration or the token of its reader', async () => {
  const [stream, other] = [await watch('second'), await watch()]
  await nth(stream, 1)
  administrators.delete('second')
  vi.advanceTimersByTime(1000)
  expect(JSON.parse((await stream.untilNamed(({ name }) => name === 'end')).data)).toMatchObject({ reason: 'access_ended' })
  expect(other.named.every(({ name }) => name === 'overview')).toBe(true)
  await expect(watch('second')).rejects.toThrow(/^403 /)
})

test('the number of streams is bounded, and one that ends makes room', async () => {
  const streams = await Promise.all(Array.from({ length: 25 }, () => watch()))
  await expect(watch()).rejects.toThrow(/429 .*end some of them/)
  streams[0]!.leave()
  const again = async (): Promise<EventClient> => watch().catch(again)
  expect((await again()).status).toBe(200)
})
