// Listen addresses: their syntax, and which of them other machines can reach.

import { expect, test } from 'vitest'
import { isLoopback, parseListenAddress } from '../../http/listen-address.ts'

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
