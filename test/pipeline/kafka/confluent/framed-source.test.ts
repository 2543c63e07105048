// A source of framed messages: it fulfils the contract of a source, and waits for schemas without losing or refusing a message.

import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest'
import { envelopeHeaders } from '../../../../pipeline/envelope-headers.ts'
import { encodeFrame, frame } from '../../../../pipeline/kafka/confluent/encode.ts'
import { unknownSchema } from '../../../../pipeline/kafka/confluent/faults.ts'
import { framedTopicReader, withConfluentFraming } from '../../../../pipeline/kafka/confluent/framed-source.ts'
import { openSchemas, patience, type Schemas } from '../../../../pipeline/kafka/confluent/schemas.ts'
import { LogUnavailableError } from '../../../../pipeline/log.ts'
import type { RawChunk, RawMessage, Source } from '../../../../pipeline/source.ts'
import { SystemicError } from '../../../../pipeline/systemic-error.ts'
import type { TopicReader } from '../../../../pipeline/topic-reader.ts'
import { sourceConformance } from '../../../conformance/source.ts'
import { type FakeLog, openFakeLog } from '../../fake-log.ts'
import { openFakeSource } from '../../fake-source.ts'
import { outgoing } from '../../message.ts'
import { messagesOf, ourId, ourPlan } from './framed-messages.ts'

/** Waiting takes no real time. */
const state = { away: false, asked: 0, nowMs: 0, lagsUntilMs: 0 }
function registry(): Schemas {
  Object.assign(state, { away: false, asked: 0, nowMs: 0, lagsUntilMs: 0 })
  return openSchemas({
    clock: () => state.nowMs,
    async wait() {
      state.nowMs += patience.ms
    },
    async lookUp(id) {
      state.asked++
      if (state.away) throw new LogUnavailableError('the registry is away')
      const isThere = (id === ourId || id === ourId + 1) && state.nowMs >= state.lagsUntilMs
      return isThere ? ourPlan : { forNow: unknownSchema(id) }
    },
  })
}

sourceConformance('a source of framed messages', async () => {
  const log = openFakeLog()
  const opened: Source[] = []
  return {
    // Headers with the names of the envelope are ordinary headers here, and stay unchanged.
    append: messages =>
      log.append(
        messages.map(message => ({ ...frame(message, ourId), headers: [...envelopeHeaders(message), ...(message.headers ?? [])] })),
      ),
    open(settings) {
      const source = withConfluentFraming(openFakeSource(log, settings), registry())
      opened.push(source)
      return source
    },
    deleteBelow: offset => log.deleteBelow(offset),
    dispose: async () => {
      await Promise.all(opened.map(source => source.close()))
    },
  }
})

function appendFramed(log: FakeLog, ...ids: readonly number[]): Promise<unknown> {
  const messages = ids.map((id, at) => ({
    ...outgoing(),
    headers: [],
    key: Buffer.from('c1'),
    payload: encodeFrame(outgoing({ payload: Buffer.from(`${at}`) }), id),
  }))
  return log.append(messages)
}

/** The faults of this many messages; undefined for one that is decoded. */
async function rulesOf(source: Source, count: number, signal: AbortSignal = new AbortController().signal): Promise<(string | undefined)[]> {
  const rules: (string | undefined)[] = []
  for await (const chunk of source.chunks(signal)) {
    rules.push(...messagesOf(chunk).map(({ fault }: RawMessage) => fault?.rule))
    if (rules.length >= count) break
  }
  return rules
}

test('an unknown id affects only its own message', async () => {
  const log = openFakeLog()
  await appendFramed(log, ourId, 999, ourId, 998, 999)
  expect(await rulesOf(withConfluentFraming(openFakeSource(log), registry()), 5)).toEqual([
    undefined,
    'schema-unknown',
    undefined,
    'schema-unknown',
    'schema-unknown',
  ])
  // The two whose ids differ.
  expect(state.asked).toBe(5)
})

test('a message is decoded even if the registry has its schema only a moment later', async () => {
  const log = openFakeLog()
  const source = withConfluentFraming(openFakeSource(log), registry())
  state.lagsUntilMs = patience.ms
  await appendFramed(log, ourId)
  expect(await rulesOf(source, 1)).toEqual([undefined])
})

test('messages in separate memory are decoded, too', async () => {
  const log = openFakeLog()
  const large = ['a', 'b', 'c'].map(letter => outgoing({ publisher: letter, payload: Buffer.alloc(100_000, letter) }))
  await log.append(large.map(message => frame(message, ourId)))
  const messages: RawMessage[] = []
  for await (const chunk of withConfluentFraming(openFakeSource(log), registry()).chunks(new AbortController().signal)) {
    messages.push(...messagesOf(chunk))
    break
  }
  expect(messages).toEqual(
    large.map((message, offset) => ({ ...message, payload: new Uint8Array(message.payload), offset, fault: undefined })),
  )
})

describe('while the registry is away', () => {
  // How long it is retried before it counts as an outage: no time passes unless a test says so.
  beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
  afterEach(() => void vi.useRealTimers())

  test('messages with known schemas continue', async () => {
    const log = openFakeLog()
    const schemas = registry()
    await schemas.decodings([ourId], new AbortController().signal)
    state.away = true
    await appendFramed(log, ourId, ourId)
    expect(await rulesOf(withConfluentFraming(openFakeSource(log), schemas), 2)).toEqual([undefined, undefined])
  })

  test('a message with an unknown schema waits, and is decoded when the registry is back', async () => {
    const log = openFakeLog()
    const source = withConfluentFraming(openFakeSource(log, { chunkMessagesMax: 1 }), registry())
    state.away = true
    await appendFramed(log, ourId)
    const rules = rulesOf(source, 1)
    while (state.asked < 3) await new Promise(setImmediate)
    state.away = false
    expect(await rules).toEqual([undefined])
  })

  test('earlier chunks are returned, and a lasting outage counts as one of the log: never a dead letter', async () => {
    const log = openFakeLog()
    const schemas = registry()
    await schemas.decodings([ourId], new AbortController().signal)
    state.away = true
    await appendFramed(log, ourId, ourId + 1)
    const handedOut: RawChunk[] = []
    const source = withConfluentFraming(openFakeSource(log, { chunkMessagesMax: 1 }), schemas)
    const taking = (async () => {
      for await (const chunk of source.chunks(new AbortController().signal)) handedOut.push(chunk)
    })()
    const asked = state.asked
    while (state.asked < asked + 2) await new Promise(setImmediate)
    vi.advanceTimersByTime(patience.ms + 1)
    await expect(taking).rejects.toThrow(LogUnavailableError)
    expect(handedOut.map(({ from, to }) => [from, to])).toEqual([[0, 1]])
    state.away = false
    expect(await rulesOf(source, 2)).toEqual([undefined, undefined])
  })

  test.each(['the signal', 'a revocation'])('%s ends the wait', async what => {
    const log = openFakeLog()
    const ending = new AbortController()
    const raw = openFakeSource(log)
    const source = withConfluentFraming(raw, registry())
    state.away = true
    await appendFramed(log, ourId)
    const rules = rulesOf(source, 1, ending.signal)
    while (state.asked === 0) await new Promise(setImmediate)
    if (what === 'the signal') ending.abort()
    else raw.revoke()
    expect(await rules).toEqual([])
  })
})

test('a registry that refuses our credentials stops the source', async () => {
  const log = openFakeLog()
  await appendFramed(log, ourId)
  const schemas = openSchemas({ lookUp: () => Promise.reject(new SystemicError('not let in')) })
  await expect(rulesOf(withConfluentFraming(openFakeSource(log), schemas), 1)).rejects.toThrow(SystemicError)
})

test('a topic reader decodes the same', async () => {
  const log = openFakeLog()
  await appendFramed(log, ourId, 999)
  const raw: TopicReader = {
    name: 'messages',
    id: log.id,
    partitions: 1,
    bounds: async () => new Map([[0, { start: 0, end: 2 }]]),
    async *read() {
      for await (const chunk of openFakeSource(log).chunks(new AbortController().signal)) {
        yield chunk
        break
      }
    },
    close: () => log.close(),
  }
  const reader = framedTopicReader(raw, registry())
  const messages: RawMessage[] = []
  for await (const chunk of reader.read(0, 0, 2)) messages.push(...messagesOf(chunk))
  expect(messages.map(({ channel, fault }) => [channel, fault?.rule])).toEqual([
    ['c1', undefined],
    ['c1', 'schema-unknown'],
  ])
  expect([reader.name, reader.id, reader.partitions, await reader.bounds()]).toEqual(['messages', log.id, 1, await raw.bounds()])
})
