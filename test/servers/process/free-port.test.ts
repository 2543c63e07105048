// The ports of servers: a process does not repeat one soon, and none is in the range of clients.

import { expect, test } from 'vitest'
import { freePort } from './free-port.ts'

test('a process picks each port of its range before it repeats one, and none that a client may get', async () => {
  const ports = await Promise.all(Array.from({ length: 40 }, () => freePort()))
  expect(new Set(ports).size).toBe(40)
  expect(new Set(ports.map(port => Math.floor((port - 20_000) / 64))).size).toBe(1)
  for (const port of ports) {
    expect(port).toBeGreaterThanOrEqual(20_000)
    expect(port).toBeLessThan(32_768)
  }
})
