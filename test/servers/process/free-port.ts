// Picks a port for a server that cannot listen on port 0 and report its port, or that starts again on the same one.

import { once } from 'node:events'
import { createServer, type Server } from 'node:net'

/** Below Linux's ports for clients: a client that connects to a port in that range may connect to itself. */
const lowest = 20_000
const rangePorts = 64
const ranges = Math.floor((32_768 - lowest) / rangePorts)

/** Only those of ranges that this process holds, each once: the ports of a server that is down stay free until it starts again. */
const held: number[] = []
let claiming: Promise<void> | undefined

/** A port of 127.0.0.1 that is free at the moment. Neither this process nor another one picks it again before this process ends. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = held.shift()
    if (port === undefined) {
      claiming ??= claimRange().finally(() => (claiming = undefined))
      await claiming
      continue
    }
    const probe = await listen(port)
    if (probe === undefined) continue
    await once(probe.close(), 'close')
    return port
  }
}

/** A process holds a range for its life, by listening at its first port. */
async function claimRange(): Promise<void> {
  const start = Math.floor(Math.random() * ranges)
  for (let tried = 0; tried < ranges; tried++) {
    const first = lowest + ((start + tried) % ranges) * rangePorts
    const holder = await listen(first)
    if (holder === undefined) continue
    holder.unref()
    held.push(...Array.from({ length: rangePorts - 1 }, (_, index) => first + 1 + index))
    return
  }
  throw new Error(`other processes hold all ${ranges} ranges of ports from ${lowest}: end them`)
}

/** Undefined if the port is in use. */
async function listen(port: number): Promise<Server | undefined> {
  const server = createServer()
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
    return server
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') return undefined
    throw error
  }
}
