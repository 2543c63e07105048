// Connections that have not sent a CONNECT yet, also those within their TLS handshake: bounded together, and for each network.

import type { Socket } from 'node:net'
import { networkOf } from '../../../http/requests/client-address.ts'

/** The part of one network. Clients behind a proxy are one. */
const networkShare = 1 / 5

export function openHalfOpen(max: number) {
  const open = new Map<string, { readonly socket: Socket; readonly network: string }>()
  const networkMax = Math.ceil(max * networkShare)

  return {
    /** @param address of the client @returns false if its network has as many as it may; with more than all together may be, the oldest is closed */
    add(socket: Socket, address: string): boolean {
      const peer = peerOf(socket)
      const network = networkOf(address)
      const all = [...open]
      if (all.filter(([, other]) => other.network === network).length >= networkMax) return false
      open.set(peer, { socket, network })
      // Closed, it is removed under what its address was.
      socket.once('close', () => open.delete(peer))
      const [oldest] = all
      if (open.size > max && oldest !== undefined) {
        open.delete(oldest[0])
        oldest[1].socket.destroy()
      }
      return true
    },
    /** Its CONNECT has arrived. @param socket that was added, or the one of TLS on it */
    remove: (socket: Socket): void => void open.delete(peerOf(socket)),
    close(): void {
      for (const { socket } of open.values()) socket.destroy()
    },
  }
}

/** A connection of TLS has the address and the port of the one below it. */
function peerOf({ remoteAddress, remotePort, localPort }: Socket): string {
  return `${remotePort} ${remoteAddress} ${localPort}`
}
