// The administrator's door: who may pass, what is malformed, and what failures of the log and the store are answered with.

import { pino } from 'pino'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createServer, type HttpServer } from '../../../config/http/server.ts'
import { auditRoutes } from '../../../pipeline/audit/routes.ts'
import type { Letter } from '../../../pipeline/letters/letter.ts'
import type { Letters, Selection } from '../../../pipeline/letters/letters.ts'
import { letterRoutes } from '../../../pipeline/letters/routes.ts'
import { LogUnavailableError } from '../../../pipeline/log.ts'
import { SystemicError } from '../../../pipeline/systemic-error.ts'
import { takeFaults } from '../../described-answers/faults.ts'

class StoreAwayError extends Error {}

let app: HttpServer
let asked: [what: string, selection: Selection | string, limit?: number][]
let failure: Error | undefined
let verifying: Promise<void>
let lettersMany: number
let failsAt: number | undefined

const someLetter: Letter = {
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

async function note<Answer>(what: string, selection: Selection | string, answer: Answer, limit?: number): Promise<Answer> {
  if (failure !== undefined) throw failure
  asked.push(limit === undefined ? [what, selection] : [what, selection, limit])
  return answer
}

const letters: Letters = {
  list: (selection, limit) => note('list', selection, { letters: [], total: 0 }, limit),
  async *each(selection) {
    yield* await note('each', selection, [])
    for (let at = 0; at < lettersMany; at++) {
      if (at === failsAt) throw new LogUnavailableError('gone meanwhile')
      yield { ...someLetter, id: `1-0-${at}` }
    }
  },
  show: id => note('show', id, []),
  replay: selection => note('replay', selection, { settled: 2, missing: [], shortened: [], refused: [] }),
  drop: selection => note('drop', selection, { settled: 1, missing: ['0-9'], shortened: ['1-0-3'], refused: ['1-0-4'] }),
}

beforeEach(() => {
  asked = []
  failure = undefined
  lettersMany = 0
  failsAt = undefined
  verifying = Promise.resolve()
  app = createServer({ logger: pino({ level: 'silent' }) })
  const administration = {
    isAdministrator: async (token: string) => ({ chief: true, user: false })[token],
    isStoreAway: (error: unknown) => error instanceof StoreAwayError,
  }
  app.register(letterRoutes(letters, administration))
  const report = { topic: 'messages', writer: 'w', log: 1, partitions: [], holds: true }
  app.register(
    auditRoutes(
      {
        async verify() {
          await verifying
          return note('verify', '', report)
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
  ['POST', '/admin/dead-letters/drop', { all: true }],
  ['GET', '/admin/verify', undefined],
  ['GET', '/admin/messages/1-0-1/trace', undefined],
] as const

describe.each(doors)('%s %s', (method, url, body) => {
  const given = body === undefined ? {} : { body }

  test("is an administrator's alone", async () => {
    for (const token of ['', 'nobody']) {
      const { status, headers } = await ask(method, url, { token, ...given })
      expect([status, headers['www-authenticate']]).toEqual([401, 'Bearer realm="sluice"'])
    }
    expect((await ask(method, url, { token: 'user', ...given })).status).toBe(403)
    expect(asked).toEqual([])
  })

  test('answers a log or store that is away with 503, and what a person must mend with 409 and the sentence', async () => {
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

test('letters are listed by rule, channel and state, 50 unless said otherwise', async () => {
  await ask('GET', '/admin/dead-letters')
  await ask('GET', '/admin/dead-letters?rule=one-value&channel=c1&all=true&limit=7')
  expect(asked).toEqual([
    ['list', { all: false }, 50],
    ['list', { rule: 'one-value', channel: 'c1', all: true }, 7],
  ])
})

test('all letters are one line after another, as many as there are', async () => {
  lettersMany = 2500
  const headers = { authorization: 'Bearer chief' }
  const answer = await app.inject({ method: 'GET', url: '/admin/dead-letters/export?rule=one-value&all=true', headers })
  expect([answer.statusCode, answer.headers['content-type']]).toEqual([200, 'application/x-ndjson'])
  const lines = answer.body.trimEnd().split('\n')
  expect([lines.length, JSON.parse(lines[2499]!)]).toEqual([2500, { ...someLetter, id: '1-0-2499' }])
  expect(asked).toEqual([['each', { rule: 'one-value', all: true }]])
})

test('an answer that the log breaks off does not end as if it were whole', async () => {
  ;[lettersMany, failsAt] = [2500, 1500]
  const url = await app.listen({ host: '127.0.0.1', port: 0 })
  const answer = await fetch(`${url}/admin/dead-letters/export`, { headers: { authorization: 'Bearer chief' } })
  await expect(answer.text()).rejects.toThrow()
})

test('replay and drop are told what they are to settle, and never take nothing for everything', async () => {
  expect(await ask('POST', '/admin/dead-letters/replay', { body: { all: true } })).toMatchObject({
    status: 200,
    json: { settled: 2, missing: [], shortened: [], refused: [] },
  })
  await ask('POST', '/admin/dead-letters/drop', { body: { ids: ['1-0-1', '0-2'], rule: 'x' } })
  expect(asked).toEqual([
    ['replay', {}],
    ['drop', { ids: ['1-0-1', '0-2'], rule: 'x' }],
  ])
  for (const body of [{}, { all: false }, { ids: [] }, { ids: ['nonsense'] }, { rules: ['x'] }, { rule: '' }]) {
    expect((await ask('POST', '/admin/dead-letters/drop', { body })).status).toBe(400)
  }
})

test('an id that no letter has is 404, one that is none 400', async () => {
  expect((await ask('GET', '/admin/dead-letters/1-0-1')).status).toBe(404)
  expect((await ask('GET', '/admin/dead-letters/nonsense')).status).toBe(400)
  expect((await ask('GET', '/admin/messages/nonsense/trace')).status).toBe(400)
  expect((await ask('GET', '/admin/messages/field-7.messages-3-9/trace')).status).toBe(200)
  expect(asked.at(-1)).toEqual(['trace', 'field-7.messages-3-9'])
})

test('one verification at a time', async () => {
  const { promise, resolve } = Promise.withResolvers<void>()
  verifying = promise
  const first = ask('GET', '/admin/verify')
  await new Promise(turn => setTimeout(turn, 20))
  expect((await ask('GET', '/admin/verify')).status).toBe(409)
  resolve()
  expect(await first).toMatchObject({ status: 200, json: { holds: true, partitions: [] } })
  expect((await ask('GET', '/admin/verify')).status).toBe(200)
})
