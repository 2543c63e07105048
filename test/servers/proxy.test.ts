// That the proxy does to connections what it says, and nothing else.

import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test, vi } from 'vitest'
import { openProxy, type Proxy } from './proxy.ts'

/** A server that answers with what it got, and remembers its connections. */
async function openEcho(): Promise<{ port: number; sockets: Socket[] }> {
  const sockets: Socket[] = []
  const server = createServer(socket => {
    sockets.push(socket)
    socket.on('error', () => undefined).pipe(socket)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  return { port: (server.address() as AddressInfo).port, sockets }
}

async function openBoth(): Promise<{ proxy: Proxy; sockets: Socket[] }> {
  const { port, sockets } = await openEcho()
  const proxy = await openProxy({ port })
  onTestFinished(() => proxy.close())
  return { proxy, sockets }
}

async function client({ port }: Proxy): Promise<Socket> {
  const socket = connect(port, '127.0.0.1').on('error', () => undefined)
  onTestFinished(() => void socket.destroy())
  await once(socket, 'connect')
  return socket
}

/** The error that ends the socket. */
async function errorOf(socket: Socket): Promise<string | undefined> {
  const [error] = (await once(socket, 'error')) as [NodeJS.ErrnoException]
  return error.code
}

/** Everything until the other end closes. */
async function read(socket: Socket): Promise<Buffer> {
  return Buffer.concat(await socket.toArray())
}

async function answer(socket: Socket, question: string): Promise<string> {
  socket.write(question)
  const [bytes] = (await once(socket, 'data')) as [Buffer]
  return bytes.toString()
}

/** True where what was written is not taken for 300 ms. */
async function isStuck(socket: Socket): Promise<boolean> {
  const waiting = once(AbortSignal.timeout(300), 'abort').then(() => true)
  return Promise.race([once(socket, 'drain').then(() => false), waiting])
}

test('a megabyte comes back as it went, and the end of it too', async () => {
  const { proxy } = await openBoth()
  const socket = await client(proxy)
  const bytes = Buffer.from(Array.from({ length: 1 << 20 }, (_, index) => (index * 7) % 251))
  socket.end(bytes)
  expect((await read(socket)).equals(bytes)).toBe(true)
  expect(proxy.passedBytes).toBe(2 << 20)
  await vi.waitFor(() => expect(proxy.connections).toBe(0))
})

test('latency delays both ways, keeps the order, and ends with heal', async () => {
  const { proxy } = await openBoth()
  const socket = await client(proxy)
  proxy.latency(100)
  const beganMs = performance.now()
  expect(await answer(socket, 'a')).toBe('a')
  expect(performance.now() - beganMs).toBeGreaterThanOrEqual(199)
  proxy.latency(200)
  socket.write('1')
  // A later connection has arrived, so what was written before has too.
  await client(proxy)
  await vi.waitFor(() => expect(proxy.connections).toBe(2))
  await proxy.heal()
  socket.end('2')
  expect((await read(socket)).toString()).toBe('12')
})

test('what is on its way arrives also when its sender is gone meanwhile', async () => {
  const got = Promise.withResolvers<string>()
  const server = createServer({ allowHalfOpen: true }, socket => {
    socket.end('bye')
    void read(socket).then(bytes => got.resolve(bytes.toString()))
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  onTestFinished(() => void server.close())
  const proxy = await openProxy({ port: (server.address() as AddressInfo).port })
  onTestFinished(() => proxy.close())
  proxy.latency(100)
  const socket = connect({ port: proxy.port, host: '127.0.0.1', allowHalfOpen: true })
  expect((await read(socket)).toString()).toBe('bye')
  socket.end('late')
  expect(await got.promise).toBe('late')
  await vi.waitFor(() => expect(proxy.connections).toBe(0))
})

test('what is delayed is not read ahead without bound', async () => {
  const { proxy } = await openBoth()
  const socket = await client(proxy)
  proxy.latency(60_000)
  socket.write(Buffer.alloc(64 << 20))
  expect(await isStuck(socket)).toBe(true)
})

test('a cut resets both ends, and new connections pass', async () => {
  const { proxy, sockets } = await openBoth()
  const socket = await client(proxy)
  await answer(socket, 'a')
  const ends = [errorOf(socket), errorOf(sockets[0]!)]
  proxy.cut()
  expect(await Promise.all(ends)).toEqual(['ECONNRESET', 'ECONNRESET'])
  expect(await answer(await client(proxy), 'b')).toBe('b')
})

test('a cut after some bytes comes at exactly that byte, and once', async () => {
  const { proxy, sockets } = await openBoth()
  const socket = await client(proxy)
  const cut = proxy.cutAfter(3)
  const ends = [errorOf(socket)]
  socket.write('abcdef')
  await cut
  expect(await Promise.all(ends)).toEqual(['ECONNRESET'])
  expect(proxy.passedBytes).toBe(3)
  await vi.waitFor(() => expect(sockets[0]!.bytesRead).toBe(3))
  expect(await answer(await client(proxy), 'abcdef')).toBe('abcdef')
})

test('of a half-open connection neither end learns that the other has closed, also after heal; a cut ends it', async () => {
  const { proxy, sockets } = await openBoth()
  const socket = await client(proxy)
  await answer(socket, 'a')
  proxy.halfOpen()
  const lostAtOnce = await client(proxy)
  socket.write('b')
  lostAtOnce.write('c')
  socket.destroy()
  await proxy.heal()
  expect(await answer(await client(proxy), 'd')).toBe('d')
  expect(sockets.map(({ bytesRead, closed, readableEnded }) => ({ bytesRead, closed, readableEnded }))).toEqual([
    { bytesRead: 1, closed: false, readableEnded: false },
    { bytesRead: 0, closed: false, readableEnded: false },
    { bytesRead: 1, closed: false, readableEnded: false },
  ])
  const ends = sockets.slice(0, 2).map(errorOf)
  proxy.cut()
  expect(await Promise.all(ends)).toEqual(['ECONNRESET', 'ECONNRESET'])
})

test('into a half-open connection goes no more than buffers hold, and nobody resets it', async () => {
  const { proxy } = await openBoth()
  const socket = await client(proxy)
  await answer(socket, 'a')
  const nowhere = await openProxy({ port: 1 })
  onTestFinished(() => nowhere.close())
  for (const each of [proxy, nowhere]) each.halfOpen()
  const nobody = await client(nowhere)
  for (const each of [socket, nobody]) each.write(Buffer.alloc(64 << 20))
  expect(await Promise.all([isStuck(socket), isStuck(nobody)])).toEqual([true, true])
  expect(nobody.closed).toBe(false)
})

test('refused connections find nobody, open ones go on, and heal listens on the same port', async () => {
  const { proxy } = await openBoth()
  const socket = await client(proxy)
  await answer(socket, 'a')
  proxy.refuse()
  expect(await errorOf(connect(proxy.port, '127.0.0.1'))).toBe('ECONNREFUSED')
  expect(await answer(socket, 'b')).toBe('b')
  await proxy.heal()
  expect(await answer(await client(proxy), 'c')).toBe('c')
})

test('a client of a server that is not there is reset', async () => {
  const { proxy, sockets } = await openBoth()
  expect(sockets).toEqual([])
  const nowhere = await openProxy({ port: 1 })
  onTestFinished(() => nowhere.close())
  expect(proxy.port).not.toBe(nowhere.port)
  expect(await errorOf(await client(nowhere))).toBe('ECONNRESET')
})

test('close cuts what is open and frees the port', async () => {
  const { port } = await openEcho()
  const proxy = await openProxy({ port })
  const socket = await client(proxy)
  const end = errorOf(socket)
  await proxy.close()
  expect(await end).toBe('ECONNRESET')
  expect(proxy.connections).toBe(0)
  expect(await errorOf(connect(proxy.port, '127.0.0.1'))).toBe('ECONNREFUSED')
})
