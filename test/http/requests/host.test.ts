// For which hosts a listener answers that only this machine reaches, and others.

import { request } from 'node:http'
import { json } from 'node:stream/consumers'
import { expect, onTestFinished, test } from 'vitest'
import { createLogger } from '../../../config/logger.ts'
import { listen } from '../../../http/listen.ts'
import { createServer } from '../../../http/server.ts'

/** Listens, and resolves with what a request for a host gets. */
async function openServer(address: string, hosts: string[] = []) {
  const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }), host: address, hosts })
  app.get('/things', async () => ({}))
  onTestFinished(() => app.close())
  const { hostname, port } = new URL(await listen(app, { host: address, port: 0 }))
  return (host: string): Promise<{ status: number | undefined; body: Record<string, unknown> }> =>
    new Promise((resolve, reject) => {
      const sent = request({ host: hostname.replace(/[[\]]/g, ''), port, path: '/things', headers: { host } }, answer => {
        json(answer).then(body => resolve({ status: answer.statusCode, body: body as Record<string, unknown> }), reject)
      })
      sent.on('error', reject).end()
    })
}

const own: string[] = [
  'localhost',
  'LOCALHOST:8080',
  'localhost.',
  'a.b.localhost:1',
  '127.0.0.1',
  '127.8.9.10:8080',
  '[::1]',
  '[::1]:80',
  '[::1%lo]',
  '[0:0:0:0:0:0:0:1]',
  '[::ffff:127.0.0.1]',
]
const foreign: string[] = [
  'evil.example',
  'evil.example:8080',
  'localhost.evil.example',
  'evillocalhost',
  '127.0.0.1.evil.example',
  '192.0.2.1',
  '0.0.0.0',
  '[2001:db8::1]',
  '[localhost]',
  'localhost,evil.example',
  'user@localhost',
]

test.each(['127.0.0.1', 'localhost'])('on %s only this machine and the hosts of the option are answered', async address => {
  const answerTo = await openServer(address, ['Sluice.example', '[2001:db8::7]', '[:]'])
  const statusOf = async (host: string) => [host, (await answerTo(host)).status]
  const named = ['sluice.example', 'SLUICE.EXAMPLE.:443', '[2001:DB8:0::7]:8080']
  expect(await Promise.all([...own, ...named].map(statusOf))).toEqual([...own, ...named].map(host => [host, 200]))
  expect(await Promise.all([...foreign, 'a.sluice.example'].map(statusOf))).toEqual(
    [...foreign, 'a.sluice.example'].map(host => [host, 421]),
  )
})

test('a name that it listens on is answered too, if it resolves to this machine alone', async () => {
  // No address, and 127.0.0.1 to every resolver.
  const answerTo = await openServer('127.1')
  const statuses = { '127.1': 200, '127.1:8080': 200, localhost: 200, '127.0.0.1': 200, '127.2': 421, 'evil.example': 421 }
  const found = await Promise.all(Object.keys(statuses).map(async host => [host, (await answerTo(host)).status] as const))
  expect(Object.fromEntries(found)).toEqual(statuses)
})

test('a page that has its name resolve to this machine reads nothing but what to do', async () => {
  expect((await (await openServer('127.0.0.1'))('evil.example')).body).toEqual({
    error: 'this address does not answer for this host',
    code: 'misdirected',
    status: 421,
    detail: expect.stringMatching(/http\.hosts \(SVC_HTTP_HOSTS\)/),
    request_id: expect.any(String),
  })
})

test('an address that other machines reach answers for every host', async () => {
  const answerTo = await openServer('0.0.0.0', ['sluice.example'])
  expect((await answerTo('evil.example')).status).toBe(200)
})
