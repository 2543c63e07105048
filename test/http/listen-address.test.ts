// Listen addresses: their syntax, and which of them other machines can reach.

import { once } from 'node:events'
import { createServer } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { isBoundToLoopback, isLoopback, parseListenAddress } from '../../http/listen-address.ts'

test.each([
  ['127.0.0.1:9080', '127.0.0.1', 9080],
  ['0.0.0.0:0', '0.0.0.0', 0],
  ['[::1]:65535', '::1', 65535],
  ['localhost:80', 'localhost', 80],
])('%s is parsed', (text, host, port) => expect(parseListenAddress(text)).toEqual({ host, port }))

test.each(['', '9080', ':9080', '127.0.0.1', '127.0.0.1:', '127.0.0.1:65536', '::1:9080', 'http://x:80', 'a b:80', '[::1]', 'x:1e3'])(
  '%j is refused with what is allowed',
  text => expect(() => parseListenAddress(text)).toThrow(/is not a listen address: give host:port, such as 127\.0\.0\.1:9080/),
)

test.each(['127.0.0.1', '127.8.9.10', '::1', 'localhost', 'LOCALHOST'])('only this machine can reach %s', host =>
  expect(isLoopback(host)).toBe(true),
)
test.each(['0.0.0.0', '::', '10.0.0.1', '127.0.0.1.example.com', '128.0.0.1', 'localhost.example.com', '::ffff:127.0.0.1', '', 'api'])(
  'other machines may reach %j',
  host => expect(isLoopback(host)).toBe(false),
)

// `127.1` is no address, and every resolver gives 127.0.0.1 for it.
test.each([
  ['127.0.0.1', true],
  ['127.1', true],
  ['0.0.0.0', false],
])('whether other machines reach a server on %s is decided by what it listens on', async (host, isLocal) => {
  const server = createServer().listen(0, host)
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  expect(isBoundToLoopback(server)).toBe(isLocal)
})
