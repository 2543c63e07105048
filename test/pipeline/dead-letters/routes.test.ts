// The administrator's routes: who may use them, malformed requests, and the answers to failures of the log and the store.

import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createServer, type HttpServer } from '../../../http/server.ts'
import { auditRoutes } from '../../../pipeline/audit/routes.ts'
import type { DeadLetterFilter } from '../../../pipeline/dead-letters/filter.ts'
import type { DeadLetterQueue } from '../../../pipeline/dead-letters/queue.ts'
import type { ReplayReport } from '../../../pipeline/dead-letters/replay.ts'
import { deadLetterRoutes } from '../../../pipeline/dead-letters/routes.ts'
import type { DeadLetterSummary } from '../../../pipeline/dead-letters/summary.ts'
import type { EraseReport } from '../../../pipeline/erase/erase.ts'
import { eraseRoutes } from '../../../pipeline/erase/routes.ts'
import { type Job, openJob } from '../../../pipeline/job.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import type { ErasureFilter } from '../../../sinks/erasure.ts'
import { takeFaults } from '../../described-answers/faults.ts'

class StoreAwayError extends Error {}

let app: HttpServer
let asked: [what: string, selection: DeadLetterFilter | string, limit?: number][]
let failure: Error | undefined
let waitToVerify: () => Promise<void>
let replaying: Promise<void>
let replayFailure: Error | undefined
let deadLettersMany: number
let failsAt: number | undefined

const someDeadLetter: DeadLetterSummary = {
  id: '1-0-0',
  state: 'open',
  topic: 'messages',
  stage: 'VALUE_CONVERTER',
  rule: 'one-value',
  reason: 'both v and vs',
  channel: 'c1',
  subtopic: '',
  publisher: 't1',
  protocol: 'http',
  content_type: '',
  created: '0',
  payload_bytes: 3,
}

async function note<Answer>(what: string, selection: DeadLetterFilter | string, answer: Answer, limit?: number): Promise<Answer> {
  if (failure !== undefined) throw failure
  asked.push(limit === undefined ? [what, selection] : [what, selection, limit])
  return answer
}

const deadLetters: DeadLetterQueue = {
  list: (selection, limit) => note('list', selection, { letters: [], total: 0 }, limit),
  async *each(selection) {
    yield* await note('each', selection, [])
    for (let at = 0; at < deadLettersMany; at++) {
      if (at === failsAt) throw new LogUnavailableError('gone meanwhile')
      yield { ...someDeadLetter, id: `1-0-${at}` }
    }
  },
  show: id => note('show', id, []),
  drop: selection => note('drop', selection, { dropped: 1, missing: ['0-9'], partial: ['1-0-5'] }),
}

const silent = pino({ level: 'silent' })
const report = { replayed: 2, left: 1, reasons: [{ id: '1-0-3', reason: 'one-value: both v and vs' }], missing: [] }

function openReplayJob(): Job<DeadLetterFilter, ReplayReport> {
  const job = openJob<DeadLetterFilter, ReplayReport>({
    what: 'a replay',
    async run(selection, { dryRun, onProgress }) {
      asked.push([dryRun ? 'dry run' : 'replay', selection])
      onProgress(3, 7)
      await replaying
      if (replayFailure !== undefined) throw replayFailure
      return report
    },
    summaryOf: ({ replayed, left }) => ({ replayed, left }),
    logger: silent,
  })
  return failing(job)
}

function openEraseJob(): Job<ErasureFilter, EraseReport> {
  const job = openJob<ErasureFilter, EraseReport>({
    what: 'an erasure',
    async run(filter, { dryRun }) {
      asked.push([dryRun ? 'count' : 'erase', JSON.stringify(filter)])
      return { erased: !dryRun, found: {}, rows: 0, dead_letters: 0, held: [], absent: [] }
    },
    summaryOf: ({ rows }) => ({ rows }),
    logger: silent,
  })
  return failing(job)
}

/** The same, which fails as the other parts do. */
function failing<Filter, Report>(job: Job<Filter, Report>): Job<Filter, Report> {
  const unless = <Answer>(work: () => Answer): Answer => {
    if (failure !== undefined) throw failure
    return work()
  }
  return { ...job, start: (...of) => unless(() => job.start(...of)), status: () => unless(() => job.status()) }
}

let noted: unknown[]
let noteFailure: Error | undefined
beforeEach(() => {
  asked = []
  noted = []
  noteFailure = undefined
  failure = undefined
  deadLettersMany = 0
  failsAt = undefined
  waitToVerify = async () => undefined
  replaying = Promise.resolve()
  replayFailure = undefined
  app = createServer({ logger: pino({ level: 'silent' }) })
  const administration = {
    isAdministrator: async (token: string) => ({ chief: true, user: false })[token],
    isStoreAway: (error: unknown) => error instanceof StoreAwayError,
    userOf: async (token: string) => `id of ${token}`,
    note: async ({ user, request }: { user: string; request: string }, action: string, objects: readonly string[]) => {
      if (noteFailure !== undefined) throw noteFailure
      noted.push([user, request, action, objects])
    },
  }
  app.register(deadLetterRoutes(deadLetters, openReplayJob(), administration))
  app.register(eraseRoutes(openEraseJob(), () => note('erasures', '', []), administration))
  const verified = { topic: 'messages', writer: 'w', log: 1, contents: false, partitions: [], holds: true }
  app.register(
    auditRoutes(
      {
        async verify(contents) {
          await waitToVerify()
          return note('verify', contents ? 'contents' : '', verified)
        },
        trace: id =>
          note('trace', `${id.log}-${id.partition}-${id.offset}`, { id: '1-0-0', topic: 'messages', writer: 'w', state: 'waiting' }),
      },
      administration,
    ),
  )
})
afterEach(() => app.close())

async function ask(method: 'GET' | 'POST', url: string, { token = 'chief', body }: { token?: string; body?: object } = {}) {
  const headers = token === '' ? {} : { authorization: `Bearer ${token}` }
  const answer = await app.inject({ method, url, headers, ...(body === undefined ? {} : { payload: body }) })
  return { status: answer.statusCode, json: answer.json<Record<string, unknown>>(), headers: answer.headers }
}

const doors = [
  ['GET', '/admin/dead-letters', undefined],
  ['GET', '/admin/dead-letters/export', undefined],
  ['GET', '/admin/dead-letters/1-0-1', undefined],
  ['POST', '/admin/dead-letters/replay', { all: true }],
  ['GET', '/admin/dead-letters/replay', undefined],
  ['POST', '/admin/dead-letters/drop', { all: true }],
  ['POST', '/admin/erase', { publisher: 't1' }],
  ['GET', '/admin/erase', undefined],
  ['GET', '/admin/erasures', undefined],
  ['GET', '/admin/verify', undefined],
  ['GET', '/admin/messages/1-0-1/trace', undefined],
] as const

describe.each(doors)('%s %s', (method, url, body) => {
  const given = body === undefined ? {} : { body }

  test('is only for administrators', async () => {
    for (const token of ['', 'nobody']) {
      const { status, headers } = await ask(method, url, { token, ...given })
      expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer realm="sluice"'])
    }
    expect((await ask(method, url, { token: 'user', ...given })).status).toBe(403)
    expect(asked).toEqual([])
  })

  test('answers 503 if a log or store is away, and 409 with the message for an error that a person must fix', async () => {
    for (const away of [new LogUnavailableError('no broker'), new StoreAwayError('no server')]) {
      failure = away
      expect((await ask(method, url, given)).status).toBe(503)
    }
    failure = new SystemicError('the store knows nothing of the log')
    expect(await ask(method, url, given)).toMatchObject({ status: 409, json: { detail: 'the store knows nothing of the log' } })
    failure = new Error('a defect with a secret')
    const { status, json } = await ask(method, url, given)
    expect([status, JSON.stringify(json).includes('secret')]).toEqual([500, false])
    expect(takeFaults()).toEqual([expect.stringContaining('answers 500')])
  })
})

test('a verification compares contents if it is asked to', async () => {
  for (const query of ['', '?contents=false', '?contents=true']) expect((await ask('GET', `/admin/verify${query}`)).status).toBe(200)
  expect(asked.map(([, what]) => what)).toEqual(['', '', 'contents'])
  expect((await ask('GET', '/admin/verify?contents=perhaps')).status).toBe(400)
})

test('an erasure only counts unless it says otherwise; then the audit log has it first', async () => {
  const channel = '3E7C5A18-42D9-4B6F-A1C0-8D9E2F7B6A54'
  expect((await ask('POST', '/admin/erase', { body: { channel } })).status).toBe(202)
  expect(noted).toEqual([])
  expect(await ask('GET', '/admin/erase')).toMatchObject({ json: { state: 'done', job: 1, report: { erased: false } } })
  expect((await ask('POST', '/admin/erase', { body: { channel, before: '2026-01-01', dry_run: false } })).status).toBe(202)
  const [[user, , action, objects]] = noted as [[string, string, string, string[]]]
  expect([user, action, objects]).toEqual(['id of chief', 'messages.erase', [channel, '2026-01-01']])
  const filter = { channel: channel.toLowerCase() }
  expect(asked).toEqual([
    ['count', JSON.stringify(filter)],
    ['erase', JSON.stringify({ ...filter, beforeMs: Date.UTC(2026, 0) })],
  ])
  noteFailure = new Error('the audit log is full')
  expect((await ask('POST', '/admin/erase', { body: { channel, dry_run: false } })).status).toBe(500)
  expect(takeFaults()).toHaveLength(1)
  expect(asked).toHaveLength(2)
})

test.each([
  [{}, 'nothing is selected to erase: give a channel, a publisher or a time'],
  [{ dry_run: true }, 'nothing is selected to erase: give a channel, a publisher or a time'],
  [{ before: 'yesterday' }, '"yesterday" is not a day (2026-01-01), nor a time to the millisecond with its zone (2026-01-01T12:00:00Z)'],
  [{ before: '2026-01-01T12:00' }, expect.stringContaining(' is not a day ')],
  [{ before: '2026-01-01T12:00:00.0001Z' }, expect.stringContaining(' is not a day ')],
  [{ before: '2026-13-01' }, expect.stringContaining(' is not a day ')],
  [{ before: '2026-02-29' }, expect.stringContaining(' is not a day ')],
  [{ before: '2026-01-31T24:00Z' }, expect.stringContaining(' is not a day ')],
  [{ before: '9999-01-01' }, '9999-01-01 is in the future'],
])('conditions of an erasure that are none are refused: %j', async (body, detail) => {
  expect(await ask('POST', '/admin/erase', { body })).toMatchObject({ status: 400, json: { detail } })
  expect(asked).toEqual([])
})

test('letters are listed by rule, channel and state, 50 by default', async () => {
  await ask('GET', '/admin/dead-letters')
  await ask('GET', '/admin/dead-letters?rule=one-value&channel=c1&all=true&limit=7')
  expect(asked).toEqual([
    ['list', { all: false }, 50],
    ['list', { rule: 'one-value', channel: 'c1', all: true }, 7],
  ])
})

test('all letters are returned, one on each line', async () => {
  deadLettersMany = 2500
  const headers = { authorization: 'Bearer chief' }
  const answer = await app.inject({ method: 'GET', url: '/admin/dead-letters/export?rule=one-value&all=true', headers })
  expect([answer.statusCode, answer.headers['content-type']]).toEqual([200, 'application/x-ndjson'])
  const lines = answer.body.trimEnd().split('\n')
  expect([lines.length, JSON.parse(lines[2499]!)]).toEqual([2500, { ...someDeadLetter, id: '1-0-2499' }])
  expect(asked).toEqual([['each', { rule: 'one-value', all: true }]])
})

test('an answer that the log interrupts does not look complete', async () => {
  ;[deadLettersMany, failsAt] = [2500, 1500]
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const answer = await fetch(`${url}/admin/dead-letters/export`, { headers: { authorization: 'Bearer chief' } })
  await expect(answer.text()).rejects.toThrow()
})

test('replay and drop apply to the selection, and an empty selection never means everything', async () => {
  expect(await ask('POST', '/admin/dead-letters/replay', { body: { all: true } })).toMatchObject({ status: 202, json: { job: 1 } })
  await ask('POST', '/admin/dead-letters/drop', { body: { ids: ['1-0-1', '0-2'], rule: 'x' } })
  await ask('POST', '/admin/dead-letters/replay', { body: { channel: 'c', dry_run: true } })
  expect(asked).toEqual([
    ['replay', {}],
    ['drop', { ids: ['1-0-1', '0-2'], rule: 'x' }],
    ['dry run', { channel: 'c' }],
  ])
  expect((await ask('POST', '/admin/dead-letters/replay', { body: { dry_run: true } })).status).toBe(400)
  for (const body of [
    {},
    { all: false },
    { ids: [] },
    { ids: ['nonsense'] },
    { rules: ['x'] },
    { rule: '' },
    { all: true, rule: 'x' },
    { all: true, ids: ['0-2'] },
  ]) {
    for (const action of ['drop', 'replay']) expect((await ask('POST', `/admin/dead-letters/${action}`, { body })).status).toBe(400)
  }
})

test('a replay runs after its answer, one at a time: its status reports progress, and then the result', async () => {
  const path = '/admin/dead-letters/replay'
  expect((await ask('GET', path)).json).toEqual({ state: 'none', job: 0, done: 0, total: 0 })
  const { promise, resolve } = Promise.withResolvers<void>()
  replaying = promise
  expect((await ask('POST', path, { body: { all: true } })).json).toMatchObject({ state: 'running', job: 1 })
  expect((await ask('GET', path)).json).toEqual({ state: 'running', job: 1, done: 3, total: 7 })
  expect(await ask('POST', path, { body: { all: true } })).toMatchObject({
    status: 409,
    json: { detail: 'a replay is running: retry when it has finished' },
  })
  resolve()
  await expect.poll(async () => (await ask('GET', path)).json).toEqual({ state: 'done', job: 1, done: 3, total: 7, report })
  replayFailure = new SystemicError('the store does not know log 3')
  await ask('POST', path, { body: { all: true } })
  await expect
    .poll(async () => (await ask('GET', path)).json)
    .toEqual({ state: 'failed', job: 2, done: 3, total: 7, error: 'the store does not know log 3' })
})

test('an id without a letter is a 404, an invalid one a 400', async () => {
  expect((await ask('GET', '/admin/dead-letters/1-0-1')).status).toBe(404)
  expect((await ask('GET', '/admin/dead-letters/nonsense')).status).toBe(400)
  expect((await ask('GET', '/admin/messages/nonsense/trace')).status).toBe(400)
  expect((await ask('GET', '/admin/messages/field-7.messages-3-9/trace')).status).toBe(200)
  expect(asked.at(-1)).toEqual(['trace', 'field-7.messages-3-9'])
})

test('only one verification runs at a time', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  const begun = new Promise<void>(begin => {
    waitToVerify = () => {
      begin()
      return promise
    }
  })
  const first = ask('GET', '/admin/verify')
  await begun
  expect((await ask('GET', '/admin/verify')).status).toBe(409)
  resolve()
  expect(await first).toMatchObject({ status: 200, json: { holds: true, partitions: [] } })
  expect((await ask('GET', '/admin/verify')).status).toBe(200)
})

describe.each(['replay', 'drop'])('the audit log has who wanted a %s', action => {
  const url = `/admin/dead-letters/${action}`

  test('before it happens, with the request', async () => {
    const { headers } = await ask('POST', url, { body: { all: true } })
    expect(noted).toEqual([['id of chief', headers['x-request-id'], `dead-letters.${action}`, ['*']]])
    asked = []
    noteFailure = new StoreAwayError('no server')
    expect((await ask('POST', url, { body: { all: true } })).status).toBe(503)
    expect(asked).toEqual([])
  })

  test('not of one that is refused', async () => {
    await ask('POST', url, { token: 'user', body: { all: true } })
    await ask('POST', url, { body: { all: true, unknown: true } })
    await ask('POST', url, { body: {} })
    expect(noted).toEqual([])
  })

  test.each([
    [{ ids: ['1-0-2', '0-3'] }, ['1-0-2', '0-3']],
    [{ ids: Array.from({ length: 1000 }, (_, at) => `1-0-${at}`), rule: 'one-value' }, ['1000 ids', 'one-value']],
    [{ channel: 'c'.repeat(2048) }, ['c'.repeat(500)]],
  ])('with the selection, shortened: case %#', async (body, objects) => {
    await ask('POST', url, { body })
    expect(noted).toEqual([['id of chief', expect.any(String), `dead-letters.${action}`, objects]])
  })
})

test('the audit log has neither a dry run nor a replay that another one keeps from starting', async () => {
  const replay = async (body: object) => (await ask('POST', '/admin/dead-letters/replay', { body })).status
  expect([await replay({ all: true, dry_run: true }), noted]).toEqual([202, []])
  const { promise, resolve } = Promise.withResolvers<void>()
  replaying = promise
  expect([await replay({ all: true }), await replay({ all: true }), noted.length]).toEqual([202, 409, 1])
  resolve()
})
