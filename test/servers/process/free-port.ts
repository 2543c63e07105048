// Picks a port for a server that cannot listen on port 0 and report its port.

import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below Linux's ports for clients: a client that connects to a port in that range may connect to itself. */
const lowest = 20_000
const highest = 32_767

/** Each process uses ports of one range, so that no other one picks the same port before the server listens. */
const rangePorts = 64
const ranges = Math.floor((highest - lowest + 1) / rangePorts)
let next = Math.floor(Math.random() * rangePorts)

/** A port of 127.0.0.1 that is free at the moment; it is not picked again soon. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = lowest + (process.pid % ranges) * rangePorts + (next++ % rangePorts)
    const probe = createServer()
    try {
      await once(probe.listen(port, '127.0.0.1'), 'listening')
    } catch {
      // In use: try the next one.
      continue
    }
    await once(probe.close(), 'close')
    return port
  }
}
