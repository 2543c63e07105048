// The code of the first start: once, for five minutes, and on this machine only.

import type { AddressInfo } from 'node:net'
import { pino } from 'pino'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { type ConsoleSignIn, openConsoleSignIn } from '../../console/sign-in.ts'
import { createServer, type HttpServer } from '../../http/server.ts'

let nowMs: number
let app: HttpServer
let url: string
let signIn: ConsoleSignIn
let users: Set<string>
let noted: unknown[]
beforeEach(async () => {
  nowMs = 0
  users = new Set(['chief@sluice.example'])
  noted = []
  signIn = openConsoleSignIn({
    clock: () => nowMs,
    issueToken: async email => (users.has(email) ? { user: email, token: `token of ${email}` } : undefined),
    note: async (...line) => void noted.push(line),
  })
  app = createServer({ logger: pino({ level: 'silent' }), trustedProxies: ['127.0.0.1'] })
  app.register(signIn.routes)
  await app.listen({ port: 0, host: '127.0.0.1' })
  url = `http://127.0.0.1:${(app.server.address() as AddressInfo).port}/console/sign-in`
})
afterEach(() => app.close())

async function redeem(code: string, headers: Record<string, string> = {}): Promise<{ status: number; body: Record<string, unknown> }> {
  const response = await fetch(url, {
    method: 'POST',
    headers: { 'content-type': 'application/json', ...headers },
    body: JSON.stringify({ code }),
  })
  const { request_id: _, ...body } = (await response.json()) as Record<string, unknown>
  if (response.status === 401) expect(response.headers.get('www-authenticate')).toBe('Bearer realm="sluice"')
  return { status: response.status, body }
}

const refused = {
  status: 401,
  body: expect.objectContaining({ code: 'unauthenticated', detail: expect.stringContaining('works once') as unknown }),
}

test('the code gets a token of the administrator, once', async () => {
  const code = signIn.offer('chief@sluice.example')
  expect(code).toMatch(/^[\w-]{43}$/)
  expect(await redeem(code)).toEqual({ status: 201, body: { token: 'token of chief@sluice.example' } })
  expect(await redeem(code)).toEqual(refused)
  const by = { user: 'chief@sluice.example', address: '127.0.0.1', request: expect.any(String) as string }
  expect(noted).toEqual([[by, 'user.sign-in-by-code', [by.user]]])
})

test('the code is void after five minutes', async () => {
  const code = signIn.offer('chief@sluice.example')
  nowMs = 5 * 60 * 1000
  expect(await redeem(code)).toEqual(refused)
})

test('the code is valid until just before', async () => {
  const code = signIn.offer('chief@sluice.example')
  nowMs = 5 * 60 * 1000 - 1
  expect((await redeem(code)).status).toBe(201)
})

test('without a code every one is wrong, and all refusals are the same', async () => {
  const wrong = await redeem('x')
  expect(wrong).toEqual(refused)
  signIn.offer('chief@sluice.example')
  expect(await redeem('x')).toEqual(wrong)
  expect(await redeem('x'.repeat(43))).toEqual(wrong)
  expect((await redeem('x'.repeat(101))).status).toBe(400)
})

test.each([
  { 'x-forwarded-for': '203.0.113.7' },
  { forwarded: 'for=203.0.113.7' },
  { 'x-forwarded-for': '127.0.0.1' },
  { 'x-real-ip': '203.0.113.7' },
  { via: '1.1 proxy' },
])('what a proxy forwards is refused, and does not use up the code: %o', async headers => {
  const code = signIn.offer('chief@sluice.example')
  expect(await redeem(code, headers as Record<string, string>)).toEqual(refused)
  expect((await redeem(code)).status).toBe(201)
})

test('an administrator who is disabled meanwhile gets no token', async () => {
  const code = signIn.offer('chief@sluice.example')
  users.clear()
  expect(await redeem(code)).toEqual(refused)
})
