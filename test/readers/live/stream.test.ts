// What may wait for one client, and what becomes of the rest.

import type { ServerResponse } from 'node:http'
import { Writable } from 'node:stream'
import { expect, test, vi } from 'vitest'
import { type Follower, type Following, type LiveMessage, oncePerMessage } from '../../../pipeline/live/messages.ts'
import { emptyMessage } from '../../../pipeline/source.ts'
import { openEventIds } from '../../../readers/live/event-ids.ts'
import { type LiveRow, rowsOf as rowsOfMessage } from '../../../readers/live/rows.ts'
import { openStream, type Stream } from '../../../readers/live/stream.ts'
import type { DocumentRow } from '../../../readers/reader.ts'
import { logPartition } from '../../../transformers/log-partition.ts'
import { RecordBatch, ValueKind } from '../../../transformers/record-batch.ts'
import { channel } from './served-live.ts'

const log = '0123456789abcdef'
const queueBytes = 20_000
const recordBytes = 1_000
const heartbeatMs = 60_000

/** A client that takes nothing until a test lets it. */
class StuckResponse extends Writable {
  taken = ''
  #held: (() => void) | undefined
  #takes = false
  override _write(chunk: Buffer, _encoding: string, done: () => void): void {
    this.taken += chunk.toString()
    if (this.#takes) done()
    else this.#held = done
  }
  /** What a socket calls when no byte has gone over it for so long: see streams.test.ts for a real one. */
  still: { afterMs: number; call: () => void } | undefined
  setTimeout(afterMs: number, call: () => void): void {
    this.still = { afterMs, call }
  }
  takeAll(): void {
    this.#takes = true
    this.#held?.()
  }
}

function open(
  asked: object = {},
  rowsOf = oncePerMessage(rowsOfMessage),
): { stream: Stream; response: StuckResponse; follower: () => Follower; stops: () => number } {
  let follower: Follower | undefined
  let stops = 0
  const following: Following = {
    log,
    lost: false,
    start: given => void (follower = given),
    streamOffset: () => ({ log, offsets: [0], partition: 0, rows: 0 }),
    stop: () => void stops++,
  }
  const filter = { channel, format: 'messages', payload: [], ...asked } as unknown as Parameters<typeof openStream>[0]['filter']
  const eventIds = openEventIds(Buffer.alloc(32))
  const stream = openStream({
    following,
    filter,
    isEmpty: false,
    eventIds,
    of: '',
    rowsOf,
    queueBytes,
    heartbeatMs,
    onLost: () => undefined,
  })
  const response = new StuckResponse()
  stream.start(response as unknown as ServerResponse)
  return { stream, response, follower: () => follower!, stops: () => stops }
}

function messageOf(rows: number): LiveMessage {
  const batch = new RecordBatch()
  batch.beginMessage({ at: logPartition(0, 0), offset: 5, channel, subtopic: '', publisher: 't', protocol: 'http' })
  for (let index = 0; index < rows; index++) {
    batch.appendRecord(index, `n${index}-`, undefined, 0, ValueKind.string, Number.NaN, 'x'.repeat(recordBytes), Number.NaN, Number.NaN)
  }
  batch.endMessage()
  return { batch, raw: emptyMessage(), partition: 0, offset: 5, isRetained: false, made: [] }
}

const indexesIn = (text: string): number[] => [...text.matchAll(/"Name":"n(\d+)-"/g)].map(match => Number(match[1]))

test('no more is buffered than the limit and one record; the rest is sent when there is room, and nothing twice', async () => {
  const { response, follower } = open()
  const message = messageOf(100)
  const taken = follower().take(message, 0, 100, [5])
  expect(taken).toBeGreaterThan(10)
  expect(taken).toBeLessThan(20)
  expect(response.writableLength).toBeLessThan(queueBytes + 2 * recordBytes)
  expect(follower().take(message, taken, 100, [5])).toBe(taken)
  const waiting = follower().space()
  expect(waiting).toBeInstanceOf(Promise)
  response.takeAll()
  await waiting
  expect(follower().space()).toBeUndefined()
  let next = taken
  while (next < 100) {
    next = follower().take(message, next, 100, [5])
    await follower().space()
  }
  expect(indexesIn(response.taken)).toEqual(Array.from({ length: 100 }, (_, index) => index))
})

test('each record has the place after it as its id, and records that are sent together need two encryptions', () => {
  const { response, follower } = open()
  response.takeAll()
  expect(follower().take(messageOf(9), 2, 7, [5])).toBe(7)
  expect(follower().take(messageOf(9), 7, 9, [5])).toBe(9)
  const ids = [...response.taken.matchAll(/^id: (.*)\ndata/gm)].map(match => match[1]!)
  const eventIds = openEventIds(Buffer.alloc(32))
  const inside = [3, 4, 5, 6, 7, 8].map(rows => ({ log, offsets: [5], partition: 0, rows }))
  expect(ids.map(id => eventIds.decode(id, ''))).toEqual([...inside, { log, offsets: [6], partition: 0, rows: 0 }])
  expect(new Set(ids.map(id => id.split('.')[0])).size).toBe(3)
})

test('a client that disconnects while the stream waits for it ends the wait, and gets nothing more', async () => {
  const { response, follower, stops } = open()
  follower().take(messageOf(100), 0, 100, [5])
  const waiting = follower().space()
  response.destroy()
  await waiting
  expect(stops()).toBe(1)
  expect(follower().take(messageOf(3), 0, 3, [5])).toBe(3)
  expect(follower().space()).toBeUndefined()
  follower().lost()
})

test('an end stops its reads, sends the reason once, and disconnects a client that does not read it', async () => {
  const { stream, response, follower, stops } = open()
  follower().take(messageOf(100), 0, 100, [5])
  const closed = new Promise(resolve => response.once('close', resolve))
  stream.end('stopping')
  stream.end('slow')
  expect([stream.ended(), stops()]).toEqual(['stopping', 1])
  expect(follower().take(messageOf(3), 0, 3, [5])).toBe(3)
  await closed
  expect(response.destroyed).toBe(true)
})

test('a slow client is not disconnected while the connection makes progress, but when it stalls', () => {
  vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] })
  try {
    const [slow, quick] = [open(), open()]
    slow.follower().take(messageOf(100), 0, 100, [5])
    quick.response.takeAll()
    vi.advanceTimersByTime(10 * heartbeatMs)
    expect(slow.stream.ended()).toBeUndefined()
    for (const { response } of [slow, quick]) {
      expect(response.still!.afterMs).toBe(heartbeatMs)
      response.still!.call()
    }
    expect([slow.stream.ended(), quick.stream.ended()]).toEqual(['slow', undefined])
  } finally {
    vi.useRealTimers()
  }
})

test('a payload is parsed once for all filters of all streams', () => {
  const batch = new RecordBatch()
  batch.beginMessage({ at: logPartition(0, 0), offset: 5, channel, subtopic: 'a.weather', publisher: 't', protocol: 'http' })
  batch.appendDocument(0, 'weather', 0, 0, { d: { tmp: 21.5, hum: 3 } })
  batch.endMessage()
  const message = { batch, raw: emptyMessage(), partition: 0, offset: 5, isRetained: false, made: [] }
  let parsed = 0
  const made = rowsOfMessage(message).at(0)!
  const counted: LiveRow = { ...made, row: { ...(made.row as DocumentRow) } }
  const { payloadText } = made.row as DocumentRow
  Object.defineProperty(counted.row, 'payloadText', { get: () => (parsed++, payloadText) })
  const filter = (path: string[], text: string): object => ({ path, text })
  const both = { format: 'weather', payload: [filter(['d', 'tmp'], '21.5'), filter(['d', 'hum'], '3')] }
  const streams = [both, both, { ...both, publisher: 'another' }].map(filter => open(filter, () => [counted]))
  for (const { follower, response } of streams) {
    response.takeAll()
    follower().take(message, 0, 1, [5])
  }
  expect(streams.map(({ response }) => response.taken.includes('"tmp":21.5'))).toEqual([true, true, false])
  expect(parsed).toBe(1)
})
