// A TCP proxy that simulates network faults: it delays and cuts connections, loses one end of them, and refuses new ones.

import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { freePort } from './free-port.ts'

export interface Proxy {
  /** The port on 127.0.0.1. */
  readonly port: number
  /** Number of current connections, including lost ones. */
  readonly connections: number
  /** Bytes forwarded so far, in both directions. */
  readonly passedBytes: number
  /** Delays each byte by this much from now on, in both directions and in order. */
  latency(ms: number): void
  /** Resets every connection on both ends, including lost ones. New ones are accepted. */
  cut(): void
  /** Cuts once when this many more bytes have been forwarded, wherever that is in a message. Resolves then. */
  cutAfter(bytes: number): Promise<void>
  /**
   * Loses every connection: nothing is forwarded, not even that an end has closed, so neither end notices.
   * New connections are lost too until `heal`, and lost ones stay lost after it.
   */
  halfOpen(): void
  /** New connections are refused. Open ones continue. */
  refuse(): void
  /** Ends every fault: no latency, no pending cut, and new connections are forwarded. */
  heal(): Promise<void>
  /** Cuts all connections, and frees the port. */
  close(): Promise<void>
}

/** A connection: two sockets, and the bytes in transit. */
interface Link {
  readonly sockets: readonly [client: Socket, upstream: Socket]
  /** Nothing is delivered any more; arriving bytes fill the waiting queue, and then the sender's buffers. */
  lost: boolean
}

type Bytes = Buffer | 'end'

/** At most this much is read ahead during a delay. */
const waitingBytesMax = 1 << 20

/** Listens on a free port of loopback, for connections to a port that need not be open yet. */
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
    /** Forwards what is due, in order, and schedules the rest. */
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
      // Bytes in transit from an end that has closed cleanly still arrive.
      if (link.lost) clearTimeout(timer)
      if (link.sockets.every(socket => socket.closed)) links.delete(link)
    })
  }

  /** False if the receiver is slower. */
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
