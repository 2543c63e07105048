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
    logNumber: () => 1,
    decoder: openDecoder({ transformer: openTransformer({ format: 'senml' }), subscribed: subjectFilter(['channels.>']), message }),
    viewers: {
      userOf: async token => (token === 'invalid' ? undefined : token),
      async demandView(user) {
        if (!viewers.has(user)) throw new HttpError('forbidden')
      },
    },
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

interface Arrival {
  readonly outcome: string
  readonly id?: string
  readonly message?: string
}

/** What the stream shows now, the newest first. */
async function shownIn(stream: EventClient): Promise<Arrival[]> {
  // An event may be under way that is older than the call, so the second one counts.
  for (let event = 0; event < 2; event++) {
    const seen = stream.named.length
    vi.advanceTimersByTime(1000)
    await stream.untilNamed(() => stream.named.length > seen)
  }
  return JSON.parse(stream.named.at(-1)!.data) as Arrival[]
}

async function outcomesIn(stream: EventClient): Promise<string[]> {
  return (await shownIn(stream)).map(({ outcome }) => outcome)
}

/** The first event came, so the stream is watched. */
async function opened(stream: EventClient): Promise<EventClient> {
  await stream.untilNamed(() => true)
  return stream
}

async function accept(texts: readonly string[]): Promise<void> {
  const messages = texts.map(text => outgoing({ channel, publisher: thing, payload: Buffer.from(text) }))
  for (const position of await log.append(messages)) arrivals.accepted(thing, channel, `1-0-${position.offset}`, position)
}

const good = '[{"n":"t","v":1}]'

test('a message is stored once the writer has committed it, and only those of the thing are followed', async () => {
  const [stream, other] = [await opened(await follow()), await opened(await follow('owner', randomUUID()))]
  await accept([good, good, good])
  expect(await outcomesIn(stream)).toEqual(['accepted', 'accepted', 'accepted'])
  arrivals.settled(2)
  expect(await outcomesIn(stream)).toEqual(['accepted', 'stored', 'stored'])
  arrivals.refused(thing, channel, 'forbidden', 'the reason')
  arrivals.settled(3)
  expect(await shownIn(stream)).toMatchObject([
    { outcome: 'refused', message: 'the reason' },
    { outcome: 'stored', id: '1-0-2' },
    { outcome: 'stored', id: '1-0-1' },
    { outcome: 'stored', id: '1-0-0' },
  ])
  expect(await shownIn(other)).toEqual([])
})

test('what the writer settled before the answer to the device is decided by decoding it again', async () => {
  const stream = await opened(await follow())
  arrivals.settled(3)
  await accept(['[{"bn":"a:"}]', '[{"n":"t","v":1,"vs":"two"}]', good])
  expect(await shownIn(stream)).toMatchObject([{ outcome: 'stored' }, { outcome: 'dead-lettered' }, { outcome: 'empty' }])
})

test('ten are shown: while they are undecided others are left out, and then those that come take their places', async () => {
  const stream = await opened(await follow())
  await accept(Array.from({ length: 15 }, () => good))
  expect(await outcomesIn(stream)).toEqual(Array.from({ length: 10 }, () => 'accepted'))
  arrivals.settled(15)
  expect(await outcomesIn(stream)).toEqual(Array.from({ length: 10 }, () => 'stored'))
  for (let refused = 0; refused < 1000; refused++) arrivals.refused(thing, channel, 'forbidden', 'x')
  await accept([good])
  const shown = await outcomesIn(stream)
  expect([shown.length, shown[0], shown[1], shown[9]]).toEqual([10, 'accepted', 'refused', 'refused'])
})

test('ends with the right to view the thing, also if no change is announced', async () => {
  const [own, others] = [await opened(await follow()), await opened(await follow('reader'))]
  viewers.delete('reader')
  vi.advanceTimersByTime(1000)
  expect(JSON.parse((await others.untilNamed(({ name }) => name === 'end')).data)).toMatchObject({ reason: 'access_ended' })
  arrivals.refused(thing, channel, 'forbidden', 'x')
  expect(await outcomesIn(own)).toEqual(['refused'])
})

test('the streams of one user are bounded', async () => {
  await Promise.all(Array.from({ length: 25 }, () => follow()))
  await expect(follow()).rejects.toThrow(/429 .*your account has 25 streams of arrivals/)
  expect((await follow('reader')).status).toBe(200)
})

test('50 users who ask for all streams do not keep another one from theirs', async () => {
  let greedy = 0
  for (let nth = 0; nth < 50; nth++) {
    viewers.add(`greedy-${nth}`)
    for (let turn = 0; turn < 3; turn++)
      await follow(`greedy-${nth}`).then(
        () => greedy++,
        () => undefined,
      )
  }
  // Of these 100 are open: the others had to make room.
  expect(greedy).toBeGreaterThan(100)
  const stream = await opened(await follow())
  arrivals.refused(thing, channel, 'forbidden', 'x')
  expect(await outcomesIn(stream)).toEqual(['refused'])
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
  await accept([good])
  expect(await shownIn(await opened(await follow()))).toEqual([])
})
