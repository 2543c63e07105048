// Connections that have not sent a CONNECT yet, also those within their TLS handshake: bounded together, and for each network.

import type { Socket } from 'node:net'
import { networkOf } from '../../../http/requests/client-address.ts'

/** The part of one network. Clients behind a proxy are one. */
const networkShare = 1 / 5

export function openHalfOpen(max: number) {
  const open = new Map<string, { readonly socket: Socket; readonly network: string }>()
  const countByNetwork = new Map<string, number>()
  const networkMax = Math.ceil(max * networkShare)

  function removeAt(peer: string): void {
    const found = open.get(peer)
    if (found === undefined) return
    open.delete(peer)
    const { network } = found
    const left = countByNetwork.get(network)! - 1
    if (left === 0) countByNetwork.delete(network)
    else countByNetwork.set(network, left)
  }

  return {
    /** @param address of the client @returns false if its network has as many as it may; with more than all together may be, the oldest is closed */
    add(socket: Socket, address: string): boolean {
      const peer = peerOf(socket)
      const network = networkOf(address)
      const count = countByNetwork.get(network) ?? 0
      if (count >= networkMax) return false
      open.set(peer, { socket, network })
      countByNetwork.set(network, count + 1)
      // Closed, it is removed under what its address was.
      socket.once('close', () => removeAt(peer))
      if (open.size > max) {
        const [[oldest, first]] = open as unknown as [[string, { readonly socket: Socket }]]
        removeAt(oldest)
        first.socket.destroy()
      }
      return true
    },
    /** Its CONNECT has arrived. @param socket that was added, or the one of TLS on it */
    remove: (socket: Socket): void => removeAt(peerOf(socket)),
    close(): void {
      for (const { socket } of open.values()) socket.destroy()
    },
  }
}

/** A connection of TLS has the address and the port of the one below it. */
function peerOf({ remoteAddress, remotePort, localPort }: Socket): string {
  return `${remotePort} ${remoteAddress} ${localPort}`
}
