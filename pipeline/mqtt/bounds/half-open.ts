// Connections that have not sent a CONNECT yet, also those within their TLS handshake: bounded together, and for each network.

import type { Socket } from 'node:net'
import { networkOf, oneForm } from '../../../http/requests/client-address.ts'

export interface HalfOpen {
  /** @returns false if its network has as many as it may; with more than all together may be, the oldest is closed */
  add(socket: Socket): boolean
  /** Its CONNECT has arrived, or it is closed. @param socket that was added, or the one of TLS on it */
  remove(socket: Socket): void
  /** Closes all. */
  close(): void
}

/** The part of one network. Clients behind a proxy are one. */
const networkShare = 1 / 5

export function openHalfOpen(max: number): HalfOpen {
  const sockets = new Map<string, Socket>()
  const countByNetwork = new Map<string, number>()
  const networkMax = Math.ceil(max * networkShare)

  function removeAt(peer: string): void {
    const socket = sockets.get(peer)
    if (socket === undefined) return
    sockets.delete(peer)
    const network = peer.slice(peer.indexOf(' ') + 1)
    const left = countByNetwork.get(network)! - 1
    if (left === 0) countByNetwork.delete(network)
    else countByNetwork.set(network, left)
  }

  return {
    add(socket) {
      const peer = peerOf(socket)
      const network = peer.slice(peer.indexOf(' ') + 1)
      const count = countByNetwork.get(network) ?? 0
      if (count >= networkMax) return false
      sockets.set(peer, socket)
      countByNetwork.set(network, count + 1)
      // Closed, it is removed under what its address was.
      socket.once('close', () => removeAt(peer))
      if (sockets.size > max) {
        const [[oldest, oldestSocket]] = sockets as unknown as [[string, Socket]]
        removeAt(oldest)
        oldestSocket.destroy()
      }
      return true
    },
    remove: socket => removeAt(peerOf(socket)),
    close() {
      for (const socket of sockets.values()) socket.destroy()
    },
  }
}

/** The port and the network: a connection of TLS has the address of the one below it. */
function peerOf({ remoteAddress, remotePort }: Socket): string {
  return `${remotePort} ${remoteAddress === undefined ? '' : networkOf(oneForm(remoteAddress))}`
}
