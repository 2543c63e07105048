// Picks a port for a server that cannot listen on port 0 and tell which it got.

import { once } from 'node:events'
import { createServer } from 'node:net'

/** Below the ports that Linux gives to clients: a client that connects to a port of that range may find itself. */
const lowest = 20_000
const highest = 32_767

/** A port of 127.0.0.1 that nobody listens on at this moment. Random, so that processes that look at once seldom meet. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = lowest + Math.floor(Math.random() * (highest - lowest + 1))
    const probe = createServer()
    try {
      await once(probe.listen(port, '127.0.0.1'), 'listening')
    } catch {
      // Taken: the next one.
      continue
    }
    await once(probe.close(), 'close')
    return port
  }
}
