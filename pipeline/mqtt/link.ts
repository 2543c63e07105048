// Packets over one connection. They are read one at a time, so what is not read waits at the client; and a connection ends after its last packet was sent.

import type { Duplex } from 'node:stream'
import type { Packet } from 'mqtt-packet'
import type { Credential } from '../../control-plane/client.ts'
import { decode, decodeConnect, encode, openFrames, type Version } from './packets.ts'
import type { StartTimer } from './timer.ts'

/** A client before its CONNECT. */
export interface Peer {
  readonly address: string
  /** The one that it showed when it connected. */
  readonly certificate: Credential | undefined
}

export type Link = ReturnType<typeof openLink>

/** How long a client has to take its last packet. */
const lastMsMax = 1_000
/** A client that has so many bytes of answers to take is not read; deliveries wait for space by themselves, and stop nothing. */
const answerBytesMax = 16_384
/** A client that takes only smaller packets gets reason codes without texts (MQTT 5 §3.1.2.11.4). */
const reasonPacketBytesMin = 1_024

export function openLink(socket: Duplex, peer: Peer, startTimer: StartTimer) {
  const frames = openFrames()
  /** Made when it is first asked for, as most connections only wait. */
  let closing: AbortController | undefined
  let version: Version = 4
  let takesTexts = true
  /** Nothing more arrives, or nothing more is wanted. */
  let isOver = false
  let hasEnded = false
  let wake: (() => void) | undefined
  /** Since the client last took everything. */
  let answerBytes = 0
  /** In this turn of the event loop nothing was written, or one packet, or several that go out together at its end. */
  let turn: 'quiet' | 'wrote' | 'gathers' = 'quiet'
  /** The next packet is waited for. */
  let isAwaited = false

  socket.pause()
  socket.on('drain', () => {
    answerBytes = 0
  })
  socket.on('data', (chunk: Buffer) => {
    if (isOver) return
    frames.push(chunk)
    // Nothing more is read while what was read is not handled.
    if (wake === undefined) socket.pause()
    else wake()
  })
  socket.on('end', stop)
  // What ended it is no fault of this side: it closes next.
  socket.on('error', () => socket.destroy())
  socket.once('close', () => {
    stop()
    closing?.abort()
  })

  function stop(): void {
    isOver = true
    wake?.()
  }

  function drained(): Promise<void> {
    return new Promise(resolve => {
      const done = (): void => {
        socket.off('drain', done).off('close', done)
        resolve()
      }
      socket.on('drain', done).on('close', done)
    })
  }

  const isBehind = (): boolean => answerBytes > answerBytesMax && socket.writableNeedDrain

  async function frame(bytesMax: number): Promise<Buffer | undefined> {
    isAwaited = true
    if (isBehind()) await drained()
    for (;;) {
      // What arrived before the client ended its side counts.
      const found = hasEnded ? undefined : frames.next(bytesMax)
      if (found !== undefined || isOver) {
        isAwaited = false
        return found
      }
      await new Promise<void>(resolve => {
        wake = resolve
        if (socket.isPaused()) socket.resume()
      })
      wake = undefined
    }
  }

  /** Writes of one turn of the event loop are one. @param isFirstAtOnce the first is a write of its own: of a message for many it is the only one */
  function gather(isFirstAtOnce: boolean): void {
    if (turn === 'gathers') return
    if (turn === 'quiet') process.nextTick(release)
    if (turn === 'quiet' && isFirstAtOnce) turn = 'wrote'
    else {
      turn = 'gathers'
      socket.cork()
    }
  }

  function release(): void {
    if (turn === 'gathers') socket.uncork()
    turn = 'quiet'
  }

  function bytesOf(packet: Packet): Buffer {
    if (takesTexts || !('properties' in packet)) return encode(packet, version)
    return encode({ ...packet, properties: { ...packet.properties, reasonString: undefined } } as unknown as Packet, version)
  }

  return {
    ...peer,
    isClosed: (): boolean => socket.closed,
    /** Aborts when the connection is closed. */
    closed(): AbortSignal {
      closing ??= new AbortController()
      if (socket.closed) closing.abort()
      return closing.signal
    },
    /** The CONNECT; undefined if the client disconnected. @throws PacketError */
    async connect(bytesMax: number): Promise<ReturnType<typeof decodeConnect> | undefined> {
      const found = await frame(bytesMax)
      if (found === undefined) return undefined
      const packet = decodeConnect(found)
      version = packet.protocolVersion
      const { requestProblemInformation, maximumPacketSize = Infinity } = packet.properties ?? {}
      takesTexts = requestProblemInformation !== false && maximumPacketSize >= reasonPacketBytesMin
      return packet
    },
    /** The next packet; undefined after the end. A client that does not read what it gets is not read either. @throws PacketError */
    next(bytesMax: number): Packet | Promise<Packet | undefined> {
      // Most are there already.
      const found = hasEnded || isBehind() ? undefined : frames.next(bytesMax)
      return found === undefined ? frame(bytesMax).then(later => later && decode(later, version)) : decode(found, version)
    },
    /** Whether the next packet is waited for. */
    isAwaited: (): boolean => isAwaited,
    /** Does nothing after the end. */
    send(packet: Packet): void {
      if (!socket.writable || socket.writableEnded) return
      const bytes = bytesOf(packet)
      gather(false)
      answerBytes = socket.write(bytes) ? 0 : answerBytes + bytes.length
    },
    /** A message for a subscriber, which waits for space: the head of its packet, and the rest, which others share. */
    deliver(head: Buffer, rest: Uint8Array): void {
      if (!socket.writable || socket.writableEnded) return
      gather(rest.length === 0)
      socket.write(head)
      if (rest.length > 0) socket.write(rest)
    },
    /** False while the client takes nothing more: what was sent last is in memory here. */
    hasSpace: (): boolean => !socket.writableNeedDrain,
    onSpace: (listener: () => void): void => void socket.on('drain', listener),
    /** Sends a last packet, and closes the connection when the client has it, or after a second. Nothing is read from then on. */
    end(last?: Packet): void {
      if (hasEnded) return
      hasEnded = true
      stop()
      if (socket.destroyed) return
      if (last === undefined) socket.end()
      else socket.end(bytesOf(last))
      // Discards what arrives, as unread bytes would reset the connection before the client has read the last packet.
      socket.resume()
      const timer = startTimer(lastMsMax, () => socket.destroy())
      socket.once('close', () => timer.stop())
    },
  }
}
