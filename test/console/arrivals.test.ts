// The stream of arrivals is bounded, whatever a thing sends, and ends with the right to view the thing.

import { randomUUID } from 'node:crypto'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { type Arrivals, openArrivals } from '../../console/arrivals.ts'
import { HttpError } from '../../http/errors.ts'
import { createServer, type HttpServer } from '../../http/server.ts'
import type { EmbeddedLog } from '../../pipeline/embedded-log/log.ts'
import { openEmbeddedTopicReader } from '../../pipeline/embedded-log/topic-reader.ts'
import { openDecoder } from '../../pipeline/writer/decode.ts'
import { subjectFilter } from '../../pipeline/writer/subject-filter.ts'
import { openTransformer } from '../../transformers/select.ts'
import { makeFolder, openLogIn, silent } from '../pipeline/embedded-log/folder.ts'
import { outgoing } from '../pipeline/message.ts'
import { type EventClient, openEvents } from '../readers/live/event-source.ts'

const message = { payloadBytes: 256 * 1024, earliestSeconds: 2 ** 28, aheadDays: 366 }
const thing: string = randomUUID()
const channel = randomUUID()
const payload = Buffer.from('[{"n":"t","v":1}]')
let folder: ReturnType<typeof makeFolder>
let log: EmbeddedLog
let app: HttpServer
let url: string
let arrivals: Arrivals
let viewers: Set<string>
/** Those of the logs. */
let otherTimers: number
beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  folder = makeFolder()
  log = openLogIn(folder.path)
  const deadLetters = openLogIn(folder.path, { path: `${folder.path}/letters.sqlite`, name: 'letters' })
  viewers = new Set(['owner', 'reader'])
  arrivals = openArrivals({
    log: openEmbeddedTopicReader(log),
    deadLetters: openEmbeddedTopicReader(deadLetters),
    onDeadLetters: listener => deadLetters.onAppend(listener),
    logNumber: () => 1,
    decoder: openDecoder({ transformer: openTransformer({ format: 'senml' }), subscribed: subjectFilter(['channels.>']), message }),
    viewers: {
      userOf: async token => (token === 'invalid' ? undefined : token),
      async demandView(user) {
        if (!viewers.has(user)) throw new HttpError('forbidden')
      },
    },
    access: { onChange: () => () => undefined },
    logger: silent,
  })
  app = createServer({ logger: silent })
  app.register(arrivals.routes)
  app.addHook('onClose', () => deadLetters.close())
  await app.listen({ port: 0, host: '127.0.0.1' })
  otherTimers = vi.getTimerCount()
  url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/console/things`
})
afterEach(async () => {
  await app.close()
  vi.useRealTimers()
  await log.close()
  folder.remove()
})

const follow = (token = 'owner', of = thing): Promise<EventClient> =>
  openEvents(`${url}/${of}/arrivals/stream`, { authorization: `Bearer ${token}` })
const namesOf = ({ named }: EventClient): string[] => named.map(({ name }) => name)
const outcomes = ({ named }: EventClient): unknown[] => named.map(({ data }) => (JSON.parse(data) as Record<string, unknown>)['outcome'])

async function until(stream: EventClient, count: number): Promise<void> {
  await stream.untilNamed(() => stream.named.length >= count)
}

async function accept(messages: number): Promise<void> {
  const positions = await log.append(Array.from({ length: messages }, () => outgoing({ channel, publisher: thing, payload })))
  for (const position of positions) arrivals.accepted(thing, channel, `1-0-${position.offset}`, position)
}

test('more than a hundred in a second are counted, and those of the next second are sent again', async () => {
  const stream = await follow()
  for (let refused = 0; refused < 150; refused++) arrivals.refused(thing, channel, 'forbidden', 'x'.repeat(10_000))
  await until(stream, 100)
  vi.advanceTimersByTime(1000)
  await until(stream, 101)
  expect(JSON.parse(stream.named[100]!.data)).toEqual({ arrivals: 50 })
  expect(stream.named[0]!.data.length).toBeLessThan(700)
  arrivals.refused(thing, channel, 'forbidden', 'again')
  await until(stream, 102)
  vi.advanceTimersByTime(1000)
  arrivals.refused(thing, channel, 'forbidden', 'and again')
  await until(stream, 103)
  expect(namesOf(stream).slice(99)).toEqual(['arrival', 'left-out', 'arrival', 'arrival'])
})

test('a message is stored once the writer has committed it, and only those of the thing are followed', async () => {
  const [stream, other] = [await follow(), await follow('owner', randomUUID())]
  await accept(3)
  await until(stream, 3)
  arrivals.settled(2)
  await until(stream, 5)
  arrivals.settled(3)
  await until(stream, 6)
  expect(outcomes(stream)).toEqual(['accepted', 'accepted', 'accepted', 'stored', 'stored', 'stored'])
  expect(other.named).toEqual([])
  // The writer may be quicker than the answer to the device.
  const [position] = await log.append([outgoing({ channel, publisher: thing, payload: Buffer.from('[{"bn":"a:"}]') })])
  arrivals.settled(4)
  arrivals.accepted(thing, channel, '1-0-3', position!)
  await until(stream, 8)
  expect(outcomes(stream).slice(6)).toEqual(['accepted', 'empty'])
})

test('while nothing is settled at most a thousand messages are remembered, and the others are counted', async () => {
  const stream = await follow()
  for (let second = 0; second < 11; second++) {
    await accept(100)
    vi.advanceTimersByTime(1000)
  }
  await until(stream, 1101)
  expect(namesOf(stream).filter(name => name === 'arrival')).toHaveLength(1100)
  expect(JSON.parse(stream.named.at(-1)!.data)).toEqual({ arrivals: 100 })
  arrivals.settled(1100)
  await until(stream, 1201)
  expect(outcomes(stream).slice(1101)).toEqual(Array.from({ length: 100 }, () => 'stored'))
  expect(JSON.parse(stream.named.at(-1)!.data)).toMatchObject({ id: '1-0-199' })
})

test('ends with the right to view the thing, also if no change is announced', async () => {
  const [own, others] = [await follow(), await follow('reader')]
  viewers.delete('reader')
  vi.advanceTimersByTime(5000)
  expect(JSON.parse((await others.untilNamed(({ name }) => name === 'end')).data)).toMatchObject({ reason: 'access_ended' })
  arrivals.refused(thing, channel, 'forbidden', 'x')
  await until(own, 1)
  expect(namesOf(own)).toEqual(['arrival'])
})

test('the streams of one user are bounded', async () => {
  await Promise.all(Array.from({ length: 10 }, () => follow()))
  await expect(follow()).rejects.toThrow(/429 .*10 streams of arrivals of yours are open/)
  expect((await follow('reader')).status).toBe(200)
})

test.each([
  ['invalid', thing, 401],
  ['stranger', thing, 403],
  ['owner', 'no-id', 400],
])('the caller %s of the thing %s gets %i', async (token, of, status) => {
  await expect(follow(token, of)).rejects.toThrow(new RegExp(`^${status} `))
})

test('without watchers nothing is kept', async () => {
  const stream = await follow()
  expect(vi.getTimerCount()).toBeGreaterThan(otherTimers)
  stream.leave()
  while (vi.getTimerCount() > otherTimers) await new Promise(resolve => setTimeout(resolve, 5))
  await accept(10)
  const again = await follow()
  arrivals.settled(10)
  await accept(1)
  await until(again, 1)
  expect(outcomes(again)).toEqual(['accepted'])
})
