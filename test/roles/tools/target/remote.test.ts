// Requests of the tools to a running platform, on a server with given answers.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ToolError } from '../../../../bin/streams.ts'
import { openRemote, type Remote } from '../../../../roles/tools/target/remote.ts'

const dispatcher = getGlobalDispatcher()
let server: Server
let answer: (request: IncomingMessage, response: ServerResponse) => unknown
let remote: Remote

beforeEach(async () => {
  server = createServer((request, response) => void answer(request, response))
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  remote = openRemote(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`, 'token')
})
afterEach(async () => {
  setGlobalDispatcher(dispatcher)
  server.closeAllConnections()
  await new Promise(resolve => server.close(resolve))
})

test('an answer has no time limit, neither its head nor its body: what a verification reads may take hours', async () => {
  const times: unknown[] = []
  setGlobalDispatcher(
    new Agent().compose(dispatch => (options, handler) => {
      times.push([options.headersTimeout, options.bodyTimeout])
      return dispatch(options, handler)
    }),
  )
  answer = (_request, response) => response.end('{"topic":"messages","holds":true}')
  expect(await remote.verify()).toEqual({ topic: 'messages', holds: true })
  expect(times).toEqual([[0, 0]])
})

test('a verification asks for contents where they are wanted', async () => {
  const urls: (string | undefined)[] = []
  answer = (request, response) => {
    urls.push(request.url)
    response.end('{}')
  }
  await remote.verify()
  await remote.verify(true)
  expect(urls).toEqual(['/admin/verify', '/admin/verify?contents=true'])
})

test('requests carry the token, and a selection as JSON', async () => {
  const heard: unknown[] = []
  answer = async (request, response) => {
    const body = (await request.toArray()).join('')
    heard.push([request.method, request.url, request.headers.authorization, request.headers['content-type'], body])
    response.end('{"dropped":1,"missing":[],"partial":[],"state":"done","job":1,"report":{"replayed":1}}')
  }
  expect((await remote.deadLetters.drop({ ids: ['0-1'] })).dropped).toBe(1)
  await remote.replay({})
  expect(heard).toEqual([
    ['POST', '/admin/dead-letters/drop', 'Bearer token', 'application/json', '{"ids":["0-1"]}'],
    ['POST', '/admin/dead-letters/replay', 'Bearer token', 'application/json', '{"all":true,"dry_run":false}'],
  ])
})

test('a replay is waited for, with its progress; one that fails or whose platform restarted is a clear error', async () => {
  const statuses = [
    { state: 'running', job: 4, done: 0, total: 0 },
    { state: 'running', job: 4, done: 2, total: 9 },
    { state: 'done', job: 4, done: 9, total: 9, report: { replayed: 3, left: 0, reasons: [], missing: [] } },
    { state: 'running', job: 5, done: 0, total: 9 },
    { state: 'failed', job: 5, done: 4, total: 9, error: 'the store is away' },
    { state: 'running', job: 6, done: 0, total: 9 },
    { state: 'none', job: 0, done: 0, total: 0 },
  ]
  answer = (request, response) => response.writeHead(request.method === 'POST' ? 202 : 200).end(JSON.stringify(statuses.shift()))
  const seen: number[][] = []
  expect(await remote.replay({}, { onProgress: (...of) => seen.push(of) })).toMatchObject({ replayed: 3 })
  expect(seen).toEqual([
    [2, 9],
    [9, 9],
  ])
  await expect(remote.replay({})).rejects.toThrow(/^the replay failed \(the store is away\)/)
  await expect(remote.replay({})).rejects.toThrow(/was restarted before the replay ended/)
})

test('letters arrive line by line, however they are split on the way', async () => {
  answer = (request, response) => {
    expect(request.url).toBe('/admin/dead-letters/export?rule=r&all=true')
    for (const piece of ['{"id":"1-0-', '1","reason":"gr', 'öße"}\n{"id"', ':"1-0-2"}\n']) response.write(piece)
    response.end()
  }
  const found: unknown[] = []
  for await (const deadLetter of remote.deadLetters.each({ rule: 'r', all: true })) found.push(deadLetter)
  expect(found).toEqual([{ id: '1-0-1', reason: 'größe' }, { id: '1-0-2' }])
})

test('interrupted letters are an error, not fewer letters', async () => {
  answer = (_request, response) => {
    response.write('{"id":"1-0-1"}\n')
    response.socket!.end()
  }
  const all = async (): Promise<void> => {
    for await (const _ of remote.deadLetters.each({})) continue
  }
  await expect(all()).rejects.toThrow(/was cut off/)
  await expect(all()).rejects.toThrow(ToolError)
})

test.each([
  [403, '{}', /not an administrator's/],
  [409, '{"error":"conflict","detail":"a verification is under way"}', /^a verification is under way \(409\)$/],
  [502, '<html>', /^the platform rejected the request \(502\)$/],
])('a refusal with %i shows its message', async (status, body, says) => {
  answer = (_request, response) => response.writeHead(status).end(body)
  await expect(remote.verify()).rejects.toThrow(says)
  await expect(remote.verify()).rejects.toThrow(ToolError)
})

test('a platform that cannot be reached is a clear error, and so is an interrupted answer', async () => {
  await expect(openRemote('http://127.0.0.1:1', 'token').verify()).rejects.toThrow(
    /cannot be reached \(.+\): is `\.\/sluice up` running there/,
  )
  answer = (_request, response) => {
    response.write('{')
    response.socket!.end()
  }
  await expect(remote.verify()).rejects.toThrow(/was cut off/)
})
