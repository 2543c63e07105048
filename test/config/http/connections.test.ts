// Connections: slow, broken and hostile ones, and those that are open while the server closes.

import { once } from 'node:events'
import { connect } from 'node:net'
import { expect, test } from 'vitest'
import { ListenError, listen } from '../../../config/http/listen.ts'
import { createServer } from '../../../config/http/server.ts'
import { createLogger } from '../../../config/logger.ts'
import { startServer } from './test-server.ts'

/** Sends bytes, and resolves with everything that came back when the server ends the connection. */
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

test('who does not send its headers in time is answered 408 and cut off', async () => {
  const server = await startServer({ requestTimeoutMs: 1000 })
  const answer = await exchange(server.port, 'GET /things HTTP/1.1\r\nhost: a\r\nx: ')
  expect(answer).toMatch(/^HTTP\/1\.1 408 /)
  expect(bodyOf(answer)).toMatchObject({ code: 'request_timeout', status: 408 })
  await server.app.close()
})

test('what is no HTTP, and headers beyond all measure, are answered in the shape of every error', async () => {
  const server = await startServer()
  expect(bodyOf(await exchange(server.port, 'nonsense\r\n\r\n'))).toMatchObject({ code: 'malformed_request', status: 400 })
  const large = await exchange(server.port, `GET /things HTTP/1.1\r\nhost: a\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`)
  expect(bodyOf(large)).toMatchObject({ code: 'headers_too_large', status: 431 })
  expect((await server.ask('/things')).status).toBe(200)
  await server.app.close()
})

test.each([
  ['GET /ä HTTP/1.1\r\nhost: a\r\n\r\n', 'the path is not a valid URL path: escape special characters of the path as %XX'],
  ['GET /a b HTTP/1.1\r\nhost: a\r\n\r\n', 'the first line is not as HTTP/1.1 has it: escape spaces of the path as %20'],
  ['GET /things HTTP/3.9\r\nhost: a\r\n\r\n', 'the first line is not as HTTP/1.1 has it: end it with HTTP/1.1'],
  ['FETCH /things HTTP/1.1\r\nhost: a\r\n\r\n', 'the first line begins with no method: send one such as GET or POST in capitals'],
  ['PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'this port does not take HTTP/2 without TLS: send HTTP/1.1'],
  ['GET /things HTTP/1.1\r\nhost: a\r\nx y: 1\r\n\r\n', 'a header has a character that is not allowed there'],
  ['POST /things/bulk HTTP/1.1\r\nhost: a\r\ncontent-length: 1x\r\n\r\n', 'the header content-length is no number of bytes'],
  [
    'POST /things/bulk HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
    'the header content-length is there twice, or beside transfer-encoding',
  ],
  [
    'POST /things/bulk HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n',
    'the header transfer-encoding is not chunked alone, or stands beside content-length',
  ],
  [
    'POST /things/bulk HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n',
    'the body is not in chunks as transfer-encoding: chunked has them: send the size of each chunk',
  ],
  // The parser has names for faults that are in no table of ours.
  ['GET /things HTTP/1.1\rhost: a\r\n\r\n', 'this is no request of HTTP/1.1 ('],
])('%j is answered with what is wrong and what to do', async (request, detail) => {
  const server = await startServer()
  const answer = await exchange(server.port, request)
  await server.app.close()
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect(bodyOf(answer)).toMatchObject({ code: 'malformed_request', detail: expect.stringContaining(detail) as string })
})

test.each([
  ['no host', 'GET /things HTTP/1.1\r\n', 'the header host is missing: send it, as HTTP/1.1 demands (RFC 9112 §3.2)'],
  [
    'an expectation that nobody knows',
    'GET /things HTTP/1.1\r\nhost: a\r\nexpect: foo\r\n',
    'the header expect asks for what is not known here: leave it out, or send expect: 100-continue',
  ],
  [
    'a transfer coding before chunked, also where there is no route',
    'GET /nothing HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip, chunked\r\n',
    'a transfer-encoding other than chunked is not taken: send the body without it',
  ],
  [
    'a body whose end nobody can tell, once',
    'POST /things/bulk HTTP/1.1\r\nhost: a\r\ntransfer-encoding: gzip\r\n',
    'a transfer-encoding other than chunked is not taken: send the body without it',
  ],
  [
    'HTTP/0.9, whose request line has no version',
    'GET /things\r\nhost: a\r\n',
    'HTTP/0.9 is not spoken here: end the first line with HTTP/1.1',
  ],
  ['HTTP/2 as text', 'GET /things HTTP/2.0\r\nhost: a\r\n', 'HTTP/2.0 is not spoken here: end the first line with HTTP/1.1'],
])('%s is refused in the shape of every error', async (_name, head, detail) => {
  const server = await startServer()
  const answer = await exchange(server.port, `${head}connection: close\r\n\r\n0\r\n\r\n`)
  await server.app.close()
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect(bodyOf(answer)).toMatchObject({ code: 'malformed_request', status: 400, detail })
})

test('HTTP/1.0 needs no host, and expect: 100-continue is met', async () => {
  const server = await startServer()
  expect(await exchange(server.port, 'GET /things HTTP/1.0\r\nexpect: foo\r\n\r\n')).toMatch(/^HTTP\/1\.1 200 /)
  const head = 'POST /things/bulk HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\nexpect: 100-Continue\r\n'
  const answer = await exchange(server.port, `${head}content-length: 2\r\nconnection: close\r\n\r\n[]`)
  expect(answer).toMatch(/^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 /)
  await server.app.close()
})

test('a connection that speaks HTTP/0.9 is closed after its answer', async () => {
  const server = await startServer()
  expect(await exchange(server.port, 'GET /things\r\n\r\n')).toMatch(/^HTTP\/1\.1 400 [\s\S]*connection: close/i)
  await server.app.close()
})

test('a body without a length that grows too large is 413', async () => {
  const server = await startServer({ bodyBytesMax: 1024 })
  const chunk = `400\r\n${'x'.repeat(1024)}\r\n`
  const head = 'POST /things/bulk HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ntransfer-encoding: chunked\r\n\r\n'
  const answer = await exchange(
    server.port,
    head,
    chunk,
    chunk,
    '0\r\n\r\n',
    'GET /nothing HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n',
  )
  expect(answer).toMatch(/^HTTP\/1\.1 413 [\s\S]*HTTP\/1\.1 404 /)
  await server.app.close()
})

test('a length that does not fit is refused, and the process goes on', async () => {
  const server = await startServer()
  const answer = await exchange(
    server.port,
    'POST /things/bulk HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\ntransfer-encoding: chunked\r\n\r\n0\r\n\r\n',
  )
  expect(answer).toMatch(/^HTTP\/1\.1 400 /)
  expect((await server.ask('/things')).status).toBe(200)
  await server.app.close()
})

test('a client that goes away in the middle of its body harms nothing', async () => {
  const server = await startServer()
  await new Promise<void>(resolve => {
    const socket = connect(server.port, '127.0.0.1', () => {
      socket.write('POST /things/bulk HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 100\r\n\r\n[', () =>
        socket.destroy(),
      )
    })
    socket.on('close', () => resolve())
  })
  expect((await server.ask('/things')).status).toBe(200)
  expect(server.lines().filter(({ level }) => level !== 'debug')).toEqual([])
  await server.app.close()
})

test('closing waits for the request under way, and answers a later one of its connection with 503', async () => {
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
  socket.write('GET /slow HTTP/1.1\r\nhost: a\r\n\r\n')
  await entered.promise
  const closed = server.app.close()
  await closing.promise
  socket.write('GET /things HTTP/1.1\r\nhost: a\r\n\r\n')
  await once(server.app.server, 'request')
  release.resolve()
  await once(socket, 'close')
  await closed
  expect(received).toMatch(/^HTTP\/1\.1 200 [\s\S]*\{"slow":true\}HTTP\/1\.1 503 [\s\S]*connection: close/i)
  expect(bodyOf(received.slice(received.indexOf('HTTP/1.1 503')))).toMatchObject({
    code: 'unavailable',
    detail: 'this process is stopping: try again',
  })
})

test('a port in use, and an address that this machine does not have, are told in a sentence', async () => {
  const server = await startServer()
  const second = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  const refused = await listen(second, { host: '127.0.0.1', port: server.port }).catch((error: unknown) => error)
  expect(refused).toBeInstanceOf(ListenError)
  expect((refused as Error).message).toBe(
    `port ${server.port} on 127.0.0.1 is taken by another process: give another one with --port (0 picks a free one)`,
  )
  const third = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
  await expect(listen(third, { host: '192.0.2.1', port: 0 })).rejects.toThrow('this machine has no address 192.0.2.1')
  await server.app.close()
})

test('listening resolves with the URL under which the server answers', async () => {
  for (const host of ['127.0.0.1', '0.0.0.0']) {
    const app = createServer({ logger: createLogger({ level: 'silent', pretty: false }) })
    const url = await listen(app, { host, port: 0 })
    expect(url).toMatch(/^http:\/\/127\.0\.0\.1:\d+$/)
    expect((await fetch(`${url}/nothing`)).status).toBe(404)
    await app.close()
  }
})
