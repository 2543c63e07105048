// A client of MQTT that sends packets as the test says, also wrong ones.

import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { generate, type IConnectPacket, type Packet, parser } from 'mqtt-packet'
import { onTestFinished } from 'vitest'
import type { Shown } from '../ingest/device.ts'

export type Version = 4 | 5

export interface Client {
  readonly socket: Socket
  readonly version: Version
  send(packet: Packet): void
  /** The next packet from the server; undefined after the end of the connection. */
  next(): Promise<Packet | undefined>
  /** Resolves with all packets that are left when the connection has ended. */
  rest(): Promise<Packet[]>
}

/** @param ca PEM, for TLS @param shown its certificate */
export async function openClient(port: number, version: Version = 5, ca?: string, shown?: Shown): Promise<Client> {
  const socket = ca === undefined ? connect(port, '127.0.0.1') : connectTls({ port, host: '127.0.0.1', ca, ...shown })
  onTestFinished(() => void socket.destroy())
  const packets: Packet[] = []
  let wake: (() => void) | undefined
  const bytes = parser({ protocolVersion: version }).on('packet', packet => {
    packets.push(packet)
    wake?.()
  })
  socket.on('data', chunk => bytes.parse(chunk))
  // The server may reset it.
  socket.on('error', () => undefined)
  socket.on('close', () => wake?.())
  await once(socket, ca === undefined ? 'connect' : 'secureConnect')

  async function next(): Promise<Packet | undefined> {
    while (packets.length === 0 && !socket.closed) {
      await new Promise<void>(resolve => {
        wake = resolve
      })
    }
    return packets.shift()
  }

  return {
    socket,
    version,
    send: packet => void socket.write(generate(packet, { protocolVersion: version })),
    next,
    async rest() {
      const all: Packet[] = []
      for (let packet = await next(); packet !== undefined; packet = await next()) all.push(packet)
      return all
    },
  }
}

export const connectPacket = (version: Version, own: Partial<IConnectPacket>): IConnectPacket => ({
  cmd: 'connect',
  protocolId: 'MQTT',
  protocolVersion: version,
  clean: true,
  clientId: 'device-1',
  keepalive: 0,
  ...own,
})
