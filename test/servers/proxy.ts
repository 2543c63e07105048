// A TCP proxy that does to connections what networks do: delays them, cuts them, loses one end of them, and refuses new ones.

import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { freePort } from './free-port.ts'

export interface Proxy {
  /** Where it listens, on 127.0.0.1. */
  readonly port: number
  /** How many connections it has now, the lost ones among them. */
  readonly connections: number
  /** Bytes that it has passed on so far, of both directions. */
  readonly passedBytes: number
  /** From now on each byte takes this much longer, in either direction. Nothing overtakes. */
  latency(ms: number): void
  /** Resets every connection on both ends, the lost ones too. New ones are taken. */
  cut(): void
  /** Cuts, once, when this many more bytes of either direction have passed, whatever they are in the middle of. Resolves when it has. */
  cutAfter(bytes: number): Promise<void>
  /**
   * Loses every connection: nothing passes any more, not even that an end has closed, so that neither end learns of the other.
   * New ones are lost at once until `heal`, and those that were lost stay so after it.
   */
  halfOpen(): void
  /** New connections find nobody there. Those that are open go on. */
  refuse(): void
  /** Ends every fault: no latency, no cut to come, and new connections pass. */
  heal(): Promise<void>
  /** Cuts, and frees the port. */
  close(): Promise<void>
}

/** A connection: two sockets, and what is on its way between them. */
interface Link {
  readonly sockets: readonly [client: Socket, upstream: Socket]
  /** Nothing is delivered any more; what still arrives fills the room for what waits, and then the sender's buffers. */
  lost: boolean
}

type Bytes = Buffer | 'end'

/** More than this is not read ahead while it is delayed. */
const waitingBytesMax = 1 << 20

/** Listens on a port of loopback that was free, for connections to a port that need not be there yet. */
export async function openProxy({ host = '127.0.0.1', port: target }: { host?: string; port: number }): Promise<Proxy> {
  const port = await freePort()
  const links = new Set<Link>()
  let latencyMs = 0
  let losing = false
  let passedBytes = 0
  let cutDue: { atBytes: number; done: () => void } | undefined

  const server = createServer({ allowHalfOpen: true, noDelay: true }, client => {
    const upstream = connect({ host, port: target, allowHalfOpen: true, noDelay: true })
    const link: Link = { sockets: [client, upstream], lost: losing }
    links.add(link)
    forward(link, client, upstream)
    forward(link, upstream, client)
  })

  /** One direction of a connection. */
  function forward(link: Link, from: Socket, to: Socket): void {
    const waiting: { bytes: Bytes; dueMs: number }[] = []
    let waitingBytes = 0
    let timer: NodeJS.Timeout | undefined

    const arrive = (bytes: Bytes): void => {
      waiting.push({ bytes, dueMs: performance.now() + latencyMs })
      waitingBytes += bytes.length
      if (waitingBytes > waitingBytesMax) from.pause()
      if (timer === undefined) deliver()
    }
    /** Passes on what is due, in order, and comes back for the rest. */
    const deliver = (): void => {
      timer = undefined
      for (let next = waiting[0]; next !== undefined && !link.lost; next = waiting[0]) {
        const waitMs = next.dueMs - performance.now()
        if (waitMs > 0) {
          timer = setTimeout(deliver, waitMs)
          return
        }
        waiting.shift()
        waitingBytes -= next.bytes.length
        if (next.bytes === 'end') to.end()
        else if (pass(to, next.bytes)) from.resume()
        else from.pause()
      }
    }
    from.on('data', arrive)
    from.on('end', () => arrive('end'))
    to.on('drain', () => link.lost || from.resume())
    // A broken end is closed right after its error.
    from.on('error', () => undefined)
    from.on('close', hadError => {
      if (hadError && !link.lost) reset(link)
      // What is on its way from an end that has closed in good order still arrives.
      if (link.lost) clearTimeout(timer)
      if (link.sockets.every(socket => socket.closed)) links.delete(link)
    })
  }

  /** False where the receiver is behind. */
  function pass(to: Socket, bytes: Buffer): boolean {
    if (cutDue === undefined || passedBytes + bytes.length < cutDue.atBytes) {
      passedBytes += bytes.length
      return to.write(bytes)
    }
    const { atBytes, done } = cutDue
    cutDue = undefined
    to.write(bytes.subarray(0, atBytes - passedBytes))
    passedBytes = atBytes
    cut()
    done()
    return false
  }

  function reset(link: Link): void {
    link.lost = true
    for (const socket of link.sockets) socket.resetAndDestroy()
    links.delete(link)
  }

  function cut(): void {
    links.forEach(reset)
  }

  const listen = async (): Promise<void> => {
    if (!server.listening) await once(server.listen(port, '127.0.0.1'), 'listening')
  }
  await listen()

  return {
    port,
    get connections() {
      return links.size
    },
    get passedBytes() {
      return passedBytes
    },
    latency: ms => {
      latencyMs = ms
    },
    cut,
    cutAfter: bytes => {
      const cutting = Promise.withResolvers<void>()
      cutDue = { atBytes: passedBytes + bytes, done: cutting.resolve }
      return cutting.promise
    },
    halfOpen: () => {
      losing = true
      for (const link of links) link.lost = true
    },
    refuse: () => {
      server.close()
    },
    heal: async () => {
      latencyMs = 0
      losing = false
      cutDue = undefined
      await listen()
    },
    close: async () => {
      cut()
      if (!server.listening) return
      server.close()
      await once(server, 'close')
    },
  }
}
