// Slow, broken and hostile connections, and those that are open while the server closes.

import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { createLogger } from '../../config/logger.ts'
import { HttpError } from '../../http/errors.ts'
import { ListenError, listen } from '../../http/listen.ts'
import { createServer } from '../../http/server.ts'
import { takeWebSockets } from '../../http/web-sockets.ts'
import { startServer } from './test-server.ts'

/** Sends bytes, and resolves with everything received when the server closes the connection. */
function exchange(port: number, ...chunks: (string | Buffer)[]): Promise<string> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    let received = ''
    socket.on('data', chunk => {
      received += chunk.toString()
    })
    socket.on('close', () => resolve(received))
    socket.on('error', error => ((error as NodeJS.ErrnoException).code === 'ECONNRESET' ? resolve(received) : reject(error)))
    for (const chunk of chunks) socket.write(chunk)
  })
}

const bodyOf = (answer: string) => JSON.parse(answer.slice(answer.indexOf('\r\n\r\n') + 4)) as Record<string, unknown>

test('a client that does not send its headers in time gets 408 and is disconnected', async () => {
  const server = await startServer({ requestTimeoutMs: 1000 })
  const answer = await exchange(server.port, 'GET /things HTTP/1.1\r\nhost: localhost\r\nx: ')
  expect(answer).toMatch(/^HTTP\/1\.1 408 /)
  expect(bodyOf(answer)).toMatchObject({ code: 'request_timeout', status: 408 })
  await server.app.close()
})

test('input that is not HTTP, and headers that are too large, are answered in the usual error format', async () => {
  const server = await startServer()
  expect(bodyOf(await exchange(server.port, 'nonsense\r\n\r\n'))).toMatchObject({ code: 'malformed_request', status: 400 })
  const large = await exchange(server.port, `GET /things HTTP/1.1\r\nhost: localhost\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)
  expect(bodyOf(large)).toMatchObject({ code: 'headers_too_large', status: 431 })
  expect((await server.ask('/things')).status).toBe(200)
  await server.app.close()
})

test('a connection that is refused gets its id and every header of other answers', async () => {
  const server = await startServer()
  const { headers } = await server.ask('/things')
  const refused = await exchange(server.port, 'nonsense\r\n\r\n')
  await server.app.close()
  const own = new Set(['connection', 'content-length', 'content-type', 'date', 'keep-alive', 'x-request-id'])
  const expected = [...headers].filter(([name]) => !own.has(name)).map(([name, value]) => `${name}: ${value}`)
  const lines = refused.split('\r\n')
  expect(expected).toContain('x-content-type-options: nosniff')
  expect(lines).toEqual(expect.arrayContaining([...expected, `x-request-id: ${String(bodyOf(refused)['request_id'])}`]))
})

test.each([
  ['GET /ä HTTP/1.1\r\nhost: localhost\r\n\r\n', 'Invalid char in url path'],
  ['FETCH /things HTTP/1.1\r\nhost: localhost\r\n\r\n', 'Invalid method encountered'],
  ['POST /things/bulk HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1x\r\n\r\n', 'Invalid character in Content-Length'],
])("%j is answered with the parser's reason", async (request, reason) => {
  const server = await startServer()
  const answer = await exchange(server.port, request)
  await server.app.close()
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect(bodyOf(answer)).toMatchObject({
    code: 'malformed_request',
    detail: `this is not a valid HTTP/1.1 request (${reason}): send one as RFC 9112 specifies, without TLS or HTTP/2`,
  })
})

test.each([
  [
    'a transfer coding before chunked, also where there is no route',
    'GET /nothing HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip, chunked\r\n',
    'a transfer-encoding other than chunked is not supported: send the body without it',
  ],
  [
    'a body with an unknown end, answered once',
    'POST /things/bulk HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: gzip\r\n',
    'a transfer-encoding other than chunked is not supported: send the body without it',
  ],
])('%s is refused in the usual error format', async (_name, head, detail) => {
  const server = await startServer()
  const answer = await exchange(server.port, `${head}connection: close\r\n\r\n0\r\n\r\n`)
  await server.app.close()
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect(bodyOf(answer)).toMatchObject({ code: 'malformed_request', status: 400, detail })
})

test('HTTP/1.1 needs a host and a known expectation, and HTTP/1.0 neither', async () => {
  const server = await startServer()
  const answerTo = (head: string): Promise<string> => exchange(server.port, `GET /things ${head}\r\nconnection: close\r\n\r\n`)
  const absent = await answerTo('HTTP/1.1')
  expect(absent).toMatch(/^HTTP\/1\.1 400 [\s\S]*\r\nx-content-type-options: nosniff\r\n/)
  expect(bodyOf(absent)).toMatchObject({ code: 'malformed_request', detail: 'there is no Host header: send one' })
  expect(await answerTo('HTTP/1.1\r\nhost: localhost\r\nexpect: foo')).toMatch(/^HTTP\/1\.1 417 /)
  expect(await answerTo('HTTP/1.0\r\nhost: evil.example')).toMatch(/^HTTP\/1\.1 421 /)
  for (const second of ['localhost', 'evil.example'])
    expect(await answerTo(`HTTP/1.1\r\nhost: localhost\r\nHOST: ${second}`)).toMatch(/^HTTP\/1\.1 400 /)
  expect(await answerTo('HTTP/1.0\r\nexpect: foo')).toMatch(/^HTTP\/1\.1 200 /)
  await server.app.close()
})

test('expect: 100-continue is met', async () => {
  const server = await startServer()
  const head = 'POST /things/bulk HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\nexpect: 100-Continue\r\n'
  const answer = await exchange(server.port, `${head}content-length: 2\r\nconnection: close\r\n\r\n[]`)
  expect(answer).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /)
  await server.app.close()
})

test('a body without a length that grows too large is 413', async () => {
  const server = await startServer({ bodyBytesMax: 1024 })
  const chunk = `400\r\n${'x'.repeat(1024)}\r\n`
  const head = 'POST /things/bulk HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n'
  const answer = await exchange(
    server.port,
    head,
    chunk,
    chunk,
    '0\r\n\r\n',
    'GET /nothing HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n',
  )
  expect(answer).toMatch(/^HTTP\/1\.1 413 [\s\S]*HTTP\/1\.1 404 /)
  await server.app.close()
})

test('an invalid length is refused, and the process continues', async () => {
  const server = await startServer()
  const answer = await exchange(
    server.port,
    'POST /things/bulk HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
  )
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect((await server.ask('/things')).status).toBe(200)
  await server.app.close()
})

test('a client that disconnects in the middle of its body does no harm', async () => {
  const server = await startServer()
  await new Promise<void>(resolve => {
    const socket = connect(server.port, '127.0.0.1', () => {
      socket.write('POST /things/bulk HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n[', () =>
        socket.destroy(),
      )
    })
    socket.on('close', () => resolve())
  })
  expect((await server.ask('/things')).status).toBe(200)
  expect(server.lines().filter(({ level }) => level !== 'debug')).toEqual([])
  await server.app.close()
})

test('closing waits for the running request, and answers a later one on its connection with 503', async () => {
  const entered = Promise.withResolvers<void>()
  const closing = Promise.withResolvers<void>()
  const release = Promise.withResolvers<void>()
  const server = await startServer({}, app => {
    app.addHook('preClose', async () => closing.resolve())
    app.get('/slow', async () => {
      entered.resolve()
      await release.promise
      return { slow: true }
    })
  })
  const socket = connect(server.port, '127.0.0.1')
  let received = ''
  socket.on('data', chunk => {
    received += chunk.toString()
  })
  socket.write('GET /slow HTTP/1.1\r\nhost: localhost\r\n\r\n')
  await entered.promise
  const closed = server.app.close()
  await closing.promise
  socket.write('GET /things HTTP/1.1\r\nhost: localhost\r\n\r\n')
  await once(server.app.server, 'request')
  release.resolve()
  await once(socket, 'close')
  await closed
  expect(received).toMatch(/^HTTP\/1\.1 200 [\s\S]*\{"slow":true\}HTTP\/1\.1 503 [\s\S]*connection: close/i)
  expect(bodyOf(received.slice(received.indexOf('HTTP/1.1 503')))).toMatchObject({
    code: 'unavailable',
    detail: 'this process is stopping: retry',
  })
})

test('a request that fails because the process closed what it used gets 503, and is not logged as a defect', async () => {
  const entered = Promise.withResolvers<void>()
  const closing = Promise.withResolvers<void>()
  const server = await startServer({}, app => {
    app.addHook('preClose', async () => closing.resolve())
    app.get('/slow', async () => {
      entered.resolve()
      await closing.promise
      throw new Error('the database was closed')
    })
  })
  const asked = server.ask('/slow')
  await entered.promise
  await server.app.close()
  expect((await asked).body).toMatchObject({ code: 'unavailable', detail: 'this process is stopping: retry' })
  expect(server.lines().filter(({ level }) => level === 'error')).toEqual([])
  expect(server.lines().some(({ msg }) => String(msg).includes('the database was closed'))).toBe(true)
})

test('a port in use, and an address that this machine does not have, are clear errors', async () => {
  const server = await startServer()
  const second = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  const refused = await listen(second, { host: '127.0.0.1', port: server.port }).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(ListenError)
  expect((refused as Error).message).toBe(
    `port ${server.port} on 127.0.0.1 is in use by another process: set another one with --port (port 0 picks a free one)`,
  )
  const third = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  await expect(listen(third, { host: '192.0.2.1', port: 0 })).rejects.toThrow('this machine has no address 192.0.2.1')
  await server.app.close()
})

test('listening resolves with the URL of the server', async () => {
  for (const host of ['127.0.0.1', '0.0.0.0']) {
    const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
    const url = await listen(app, { host, port: 0 })
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect((await fetch(`${url}/nothing`)).status).toBe(404)
    await app.close()
  }
})

test('a refused WebSocket whose client does not read is closed', async () => {
  const server = await startServer({}, app => void app.get('/large', () => 'x'.repeat(32 * 1024 * 1024)))
  takeWebSockets(server.app, '/socket', () => {
    throw new HttpError('malformed_request')
  })
  const socket = connect(server.port, '127.0.0.1')
  socket.pause()
  const upgrade = 'connection: upgrade\r\nupgrade: websocket\r\n'
  socket.write(`GET /large HTTP/1.1\r\nhost: localhost\r\n\r\nGET /socket HTTP/1.1\r\nhost: localhost\r\n${upgrade}\r\n`)
  const connections = (): Promise<number> =>
    new Promise((resolve, reject) => server.app.server.getConnections((error, count) => (error ? reject(error) : resolve(count))))
  await expect.poll(connections).toBe(1)
  await expect.poll(connections, { timeout: 10_000 }).toBe(0)
  socket.destroy()
  await server.app.close()
})
