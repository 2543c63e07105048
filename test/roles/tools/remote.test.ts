// What the tools ask of a running platform, on a server that answers as it is told to.

import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { Agent, getGlobalDispatcher, setGlobalDispatcher } from 'undici'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { ToolError } from '../../../bin/streams.ts'
import { openRemote, type Remote } from '../../../roles/tools/remote.ts'

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

test('neither the head nor the body of an answer has a time: what a verification reads may take hours', async () => {
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

test('the token goes along, and a selection as JSON', async () => {
  const heard: unknown[] = []
  answer = async (request, response) => {
    const body = (await request.toArray()).join('')
    heard.push([request.method, request.url, request.headers.authorization, request.headers['content-type'], body])
    response.end('{"settled":1,"missing":[],"shortened":[],"refused":[]}')
  }
  expect((await remote.letters.drop({ ids: ['0-1'] })).settled).toBe(1)
  await remote.letters.replay({})
  expect(heard).toEqual([
    ['POST', '/admin/dead-letters/drop', 'Bearer token', 'application/json', '{"ids":["0-1"]}'],
    ['POST', '/admin/dead-letters/replay', 'Bearer token', 'application/json', '{"all":true}'],
  ])
})

test('letters come line by line, however they are cut on their way', async () => {
  answer = (request, response) => {
    expect(request.url).toBe('/admin/dead-letters/export?rule=r&all=true')
    for (const piece of ['{"id":"1-0-', '1","reason":"gr', 'öße"}\n{"id"', ':"1-0-2"}\n']) response.write(piece)
    response.end()
  }
  const found: unknown[] = []
  for await (const letter of remote.letters.each({ rule: 'r', all: true })) found.push(letter)
  expect(found).toEqual([{ id: '1-0-1', reason: 'größe' }, { id: '1-0-2' }])
})

test('letters that break off are an error, not fewer', async () => {
  answer = (_request, response) => {
    response.write('{"id":"1-0-1"}\n')
    setTimeout(() => response.destroy(), 20)
  }
  const all = async (): Promise<void> => {
    for await (const _ of remote.letters.each({})) continue
  }
  await expect(all()).rejects.toThrow(/broke off/)
  await expect(all()).rejects.toThrow(ToolError)
})

test.each([
  [403, '{}', /not an administrator's/],
  [409, '{"error":"conflict","detail":"a verification is under way"}', /^a verification is under way \(409\)$/],
  [502, '<html>', /^the platform refused \(502\)$/],
])('a refusal with %i is its sentence', async (status, body, says) => {
  answer = (_request, response) => response.writeHead(status).end(body)
  await expect(remote.verify()).rejects.toThrow(says)
  await expect(remote.verify()).rejects.toThrow(ToolError)
})

test('a platform that is not there is a sentence, and so is an answer that breaks off', async () => {
  await expect(openRemote('http://127.0.0.1:1', 'token').verify()).rejects.toThrow(/cannot be reached \(.+\): is `sluice up` running there/)
  answer = (_request, response) => {
    response.write('{')
    setTimeout(() => response.destroy(), 20)
  }
  await expect(remote.verify()).rejects.toThrow(/broke off/)
})
