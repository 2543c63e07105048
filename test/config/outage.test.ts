// Outages: their log lines with a clock that the test moves, their gauge, and errors as text.

import { Registry } from 'prom-client'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { factOf, openOutage, openOutages, watchDependency } from '../../config/outage.ts'
import { recordingLogger } from '../pipeline/writer/workers/recording-logger.ts'

beforeEach(() => void vi.useFakeTimers({ now: Date.UTC(2026, 10, 23, 12), toFake: ['performance', 'Date', 'setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())

const refused = Object.assign(new Error('connect ECONNREFUSED 127.0.0.1:5432'), { code: 'ECONNREFUSED', syscall: 'connect' })

function open(patienceMs = 0) {
  const { logger, lines } = recordingLogger()
  const report = openOutage({ logger, dependency: 'store', name: 'PostgreSQL', patienceMs })
  return { report, lines, sentences: () => lines().map(({ msg }) => msg) }
}

test('an outage logs one line when it begins, one a minute while it lasts, and one at its end with the waiting messages', () => {
  const { report, lines } = open()
  const store = report()
  for (let second = 0; second < 150; second += 10) {
    store.failed(refused, { waitMs: 10_000 })
    vi.advanceTimersByTime(10_000)
  }
  store.recovered(8342)
  store.recovered(1)
  const since = '2026-11-23T12:00:00.000Z'
  const away = { level: 40, dependency: 'store', next_ms: 10_000, since }
  expect(lines()).toEqual([
    expect.objectContaining({ ...away, attempt: 1, msg: 'PostgreSQL is away (ECONNREFUSED 127.0.0.1:5432), attempt 1, next in 10.0 s' }),
    expect.objectContaining({
      ...away,
      attempt: 7,
      msg: `PostgreSQL is away since ${since} (ECONNREFUSED 127.0.0.1:5432), attempt 7, next in 10.0 s`,
    }),
    expect.objectContaining({ ...away, attempt: 13 }),
    expect.objectContaining({
      level: 30,
      dependency: 'store',
      away_ms: 150_000,
      waited_messages: 8342,
      msg: 'PostgreSQL is back after 150.0 s: 8342 messages waited',
    }),
  ])
  expect(JSON.stringify(lines())).not.toMatch(/"err"|"stack"| {4}at /)
})

test('new consequences are logged immediately, once: a waiting start, or another reason not to be ready', () => {
  const { report, sentences } = open()
  const [start, changes] = [report(), report()]
  for (let second = 0; second < 30; second++) {
    changes.failed(refused, { meanwhile: 'grants are used for a few seconds at most' })
    start.failed(refused, { meanwhile: 'the start waits for it' })
    if (second > 20) changes.failed(new Error('it refuses the token'), { meanwhile: 'not ready' })
    vi.advanceTimersByTime(1000)
  }
  expect(sentences()).toEqual([
    expect.stringMatching(/: grants are used for a few seconds at most$/),
    expect.stringMatching(/: the start waits for it$/),
    expect.stringMatching(/ \(it refuses the token\), .*: not ready$/),
  ])
})

test('short outages every second for an hour log two lines a minute, which count the others', () => {
  const { report, sentences } = open()
  const store = report()
  for (let second = 0; second < 3600; second++) {
    store.failed(refused)
    vi.advanceTimersByTime(500)
    store.recovered()
    vi.advanceTimersByTime(500)
  }
  expect(sentences().length).toBeLessThanOrEqual(2 * (60 + 3))
  expect(sentences().at(-2)).toMatch(/, 59 more outages since the last line$/)
  expect(sentences().at(-1)).toBe('PostgreSQL is back after 0.5 s')
})

test('an outage that begins among many short ones is logged within a minute, with its start', () => {
  const { report, sentences } = open()
  const store = report()
  for (let second = 0; second < 10; second++) {
    store.failed(refused)
    store.recovered()
    vi.advanceTimersByTime(1000)
  }
  const before = sentences().length
  for (let second = 0; second < 60; second++) {
    store.failed(refused)
    vi.advanceTimersByTime(1000)
  }
  expect(sentences().slice(before)).toEqual([expect.stringContaining('is away since 2026-11-23T12:00:10.000Z (')])
})

test('components that report the same outage share it: it begins with the first, ends with the last, and waiting messages add up', () => {
  const { report, sentences } = open()
  const [messages, replays, closed] = [report(), report(), report()]
  for (const part of [messages, replays, closed]) part.failed(refused)
  messages.recovered(20)
  closed.close()
  expect(sentences()).toHaveLength(1)
  replays.recovered(3)
  expect(sentences().slice(1)).toEqual(['PostgreSQL is back after 0.0 s: 23 messages waited'])
})

test('an outage that ends before the patience is not logged', () => {
  const { report, sentences } = open(10_000)
  const broker = report()
  for (const ms of [9_000, 11_000]) {
    broker.failed(refused, { meanwhile: 'the other brokers are read' })
    vi.advanceTimersByTime(ms)
    broker.failed(refused, { meanwhile: 'the other brokers are read' })
    broker.recovered()
  }
  expect(sentences()).toEqual([
    expect.stringMatching(/^PostgreSQL is away since .*, attempt 2, 1 more outage since the last line: the other brokers are read$/),
    'PostgreSQL is back after 11.0 s',
  ])
})

test('the gauge contains each dependency from the start, and is 1 during an outage', async () => {
  const registry = new Registry()
  const outages = openOutages(recordingLogger().logger, registry, 'reader', { store: 'PostgreSQL', control_plane: 'the control plane' })
  const values = async () =>
    Object.fromEntries(
      (await registry.getSingleMetric('dependency_outage')!.get()).values.map(({ labels, value }) => [labels['dependency'], value]),
    )
  const store = outages.report('store')
  expect(await values()).toEqual({ store: 0, control_plane: 0 })
  store.failed(refused)
  expect(await values()).toEqual({ store: 1, control_plane: 0 })
  store.recovered()
  expect(await values()).toEqual({ store: 0, control_plane: 0 })
  store.failed(refused)
  store.close()
  expect(await values()).toEqual({ store: 0, control_plane: 0 })
})

test('a watched dependency is away while its check hangs or fails, also without requests', async () => {
  vi.useRealTimers()
  const { report, sentences } = open()
  const stop = new AbortController()
  const silent = Promise.withResolvers<void>()
  const checks = [() => silent.promise, () => Promise.reject(refused)]
  const watched = watchDependency(() => (checks.shift() ?? (async () => undefined))(), report(), stop.signal, 10)
  await expect.poll(sentences).toEqual(['PostgreSQL is away (no answer within 0.0 s), attempt 1, next in 0.0 s'])
  silent.reject(refused)
  await expect.poll(() => sentences().slice(1)).toEqual([expect.stringMatching(/^PostgreSQL is back after/)])
  expect(checks).toEqual([])
  stop.abort()
  await watched
})

test.each([
  [
    'a failed connection',
    new Error('the connection to PostgreSQL at db:5432/sluice failed', { cause: refused }),
    'ECONNREFUSED 127.0.0.1:5432',
  ],
  ['all addresses of a name', new AggregateError([refused], ''), 'ECONNREFUSED 127.0.0.1:5432'],
  [
    'a code',
    Object.assign(new Error('cannot execute INSERT in a read-only transaction'), { sqlState: '25006' }),
    '25006 cannot execute INSERT in a read-only transaction',
  ],
  [
    'a cause',
    new Error('the dead letters cannot be written', { cause: new Error('no\nbroker') }),
    'the dead letters cannot be written: no broker',
  ],
  ['a repeated cause', new Error('it failed (too slow): wait', { cause: new Error('too slow') }), 'it failed (too slow): wait'],
  ['a URL', new Error('cannot open postgres://sluice:hidden@db:5432/x'), 'cannot open postgres://***@db:5432/x'],
  ['a password that is not escaped', new Error('cannot open postgres://sluice:hid@d/en@db:5432/x'), 'cannot open postgres://***@db:5432/x'],
  ['no error', 'gone', 'gone'],
])('%s becomes a short text', (_name, error, fact) => expect(factOf(error)).toBe(fact))
