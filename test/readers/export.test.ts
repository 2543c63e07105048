// Answers that hold on: how many queries and exports there may be, and clients that take nothing.

import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { Agent, type IncomingMessage, request } from 'node:http'
import { connect, type Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import type { Access, AccessControl } from '../../control-plane/client.ts'
import { type Reader, type Row, StoreUnavailableError } from '../../readers/reader.ts'
import { channel, records } from '../conformance/reader/fixture.ts'
import { access, options, owner, serve, thing, unused } from './served.ts'
import { documentsOf, kib } from './sized-rows.ts'

const path = `/channels/${channel}/messages?limit=all`
const uuid = randomUUID()
const many: Row[] = Array.from({ length: 1000 }, () => records.rows[0]!)

async function serveExports(read: Reader['read'], own: Partial<typeof options> = {}, who = access) {
  const { app, url } = await serve({ ...unused, read }, { ...options, ...own }, who)
  const sockets: Socket[] = []
  app.server.on('connection', socket => sockets.push(socket))
  onTestFinished(async () => {
    for (const socket of sockets) socket.destroy()
    await app.close()
  })
  const open = async (headers: Record<string, string> = owner, method = 'GET', agent: Agent | false = false): Promise<IncomingMessage> => {
    const asking = request(url + path, { headers, method, agent }).end()
    const [answer] = (await once(asking, 'response')) as [IncomingMessage]
    return answer.on('error', () => undefined)
  }
  const statusOf = async (headers?: Record<string, string>, method?: string): Promise<number> => {
    const answer = await open(headers, method)
    answer.resume()
    return answer.statusCode!
  }
  return { open, statusOf, sockets, url }
}

test('one user with all their things gets a quarter of the exports, and the end of one makes room', async () => {
  const ending = Promise.withResolvers<Row[]>()
  // The first page of each is there at once.
  const read: Reader['read'] = ({ after }) => (after === undefined ? Promise.resolve(many) : ending.promise)
  const { open, statusOf } = await serveExports(read, { exportsMax: 8 })
  const own = await open()
  await open(thing)
  const refused = await open()
  expect([refused.statusCode, refused.headers['retry-after']]).toEqual([429, '1'])
  expect(String(Buffer.concat((await refused.toArray()) as Buffer[]))).toMatch(/your account has 2 exports/)
  expect(await statusOf(thing)).toBe(429)
  expect(await statusOf(owner, 'HEAD')).toBe(200)

  own.destroy()
  ending.resolve([])
  await expect.poll(() => statusOf(owner)).toBe(200)
})

test('one user with all their things gets a quarter of the queries, and the end of one makes room', async () => {
  const userAccess = (owner: string): Access => ({ allowed: true, publisher: null, owner })
  const rights: Record<string, Access> = {
    'ann.s.token': userAccess('ann'),
    [uuid]: { allowed: true, publisher: 'sensor', owner: 'ann' },
    'bob.s.token': userAccess('bob'),
  }
  const answered = Promise.withResolvers<Row[]>()
  let asked = 0
  const read: Reader['read'] = () => {
    asked++
    return answered.promise
  }
  const who: AccessControl = { ...access, authorize: async ({ credential }) => rights[credential.secret]! }
  const { app, url } = await serve({ ...unused, read }, { ...options, queriesMax: 8 }, who)
  onTestFinished(async () => {
    app.server.closeAllConnections()
    await app.close()
  })
  const ask = (authorization: string, query = ''): Promise<Response> =>
    fetch(`${url}/channels/${channel}/messages${query}`, { headers: { authorization } })
  const underWay: Promise<Response>[] = []
  for (const asker of ['Bearer ann.s.token', `Thing ${uuid}`, 'Bearer bob.s.token']) {
    underWay.push(ask(asker))
    await expect.poll(() => asked).toBe(underWay.length)
  }
  for (const query of ['', '?limit=all', '?limit=5']) {
    const refused = await ask('Bearer ann.s.token', query)
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1'])
    expect(await refused.text()).toMatch(/your account has 2 queries/)
  }

  answered.resolve([])
  expect(await Promise.all(underWay.map(async answer => (await answer).status))).toEqual([200, 200, 200])
  await expect.poll(async () => (await ask('Bearer ann.s.token', '?limit=all')).status).toBe(200)
})

test('an export that loses its slot gets 503 if it has not begun, and is cut off otherwise', async () => {
  vi.useFakeTimers({ toFake: ['performance'] })
  onTestFinished(() => void vi.useRealTimers())
  const who: typeof access = {
    ...access,
    authorize: async ({ credential: { secret } }) => ({ allowed: true, publisher: secret, owner: secret }),
  }
  const waiting: (string | undefined)[] = []
  const read: Reader['read'] = ({ publisher, after }, signal) => {
    if (publisher === 'second' && after === undefined) return Promise.resolve(many)
    waiting.push(publisher)
    return new Promise((_resolve, reject) => {
      signal.addEventListener('abort', () => reject(signal.reason as Error))
    })
  }
  const { open } = await serveExports(read, { exportsMax: 2 }, who)
  const openAs = (secret: string): Promise<IncomingMessage> => open({ authorization: `Bearer ${secret}` })
  const first = openAs('first')
  await expect.poll(() => waiting).toEqual(['first'])
  const second = await openAs('second')

  // So long each account keeps its only one.
  vi.advanceTimersByTime(10_000)
  for (const late of ['third', 'fourth']) {
    void openAs(late).catch(() => undefined)
    await expect.poll(() => waiting).toContain(late)
  }
  const refused = await first
  expect([refused.statusCode, refused.headers['retry-after']]).toEqual([503, '1'])
  expect(String(Buffer.concat((await refused.toArray()) as Buffer[]))).toMatch(/the limit of 2 exports is reached/)
  await expect(second.toArray()).rejects.toThrow()
})

test('an export that fails at its first page makes room', async () => {
  const { statusOf } = await serveExports(() => Promise.reject(new StoreUnavailableError('away')), { exportsMax: 1 })
  // Without room it would be a 429.
  for (let turn = 0; turn < 3; turn++) await expect.poll(() => statusOf()).toBe(503)
})

test.each([
  ['an export', path, many],
  ['a large page', `${path.slice(0, -'all'.length)}1000&format=weather`, documentsOf(15, 1024 * kib)],
] as const)('%s whose client reads nothing is cut off', async (_what, path, rows) => {
  const { url, sockets } = await serveExports(async () => rows, { idleSeconds: 1 })
  const { hostname, port } = new URL(url)
  const client = connect(Number(port), hostname).pause()
  client.write(`GET ${path} HTTP/1.1\r\nhost: ${hostname}\r\nauthorization: ${owner.authorization}\r\n\r\n`)
  await expect.poll(() => sockets[0]?.destroyed).toBe(true)
  // What was on its way is no whole answer.
  let text = ''
  client.on('error', () => undefined).on('data', (piece: Buffer) => (text = piece.toString('latin1')))
  await once(client.resume(), 'close')
  expect(text).not.toMatch(/\]\}$|0\r\n\r\n$/)
})

test('an export whose store takes long is not', async () => {
  const second = Promise.withResolvers<readonly Row[]>()
  let asked = 0
  const { open, sockets } = await serveExports(() => (++asked === 1 ? Promise.resolve(many) : second.promise))
  const answer = await open({ ...owner, accept: 'application/x-ndjson' })
  let lines = 0
  for await (const piece of answer) {
    lines += (piece as Buffer).toString('latin1').split('\n').length - 1
    if (lines !== many.length) continue
    // As when its time has come: everything was taken.
    sockets[0]!.emit('timeout')
    sockets[0]!.emit('timeout')
    second.resolve(many.slice(0, 3))
  }
  expect([lines, answer.complete]).toEqual([many.length + 3, true])
})

test('after an export a kept-alive connection has its usual time-out again', async () => {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  let asked = 0
  const { open, sockets } = await serveExports(async () => (++asked === 1 ? many : []))
  const answer = await open(owner, 'GET', agent)
  await answer.toArray()
  await expect.poll(() => sockets[0]!.timeout).toBeGreaterThanOrEqual(72_000)
  agent.destroy()
})
