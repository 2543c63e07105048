// Parses a listen address such as `127.0.0.1:9080`, and tells whether only this machine can reach it.

import type { Server } from 'node:net'
import { Type } from 'typebox'
import { oneForm } from './requests/client-address.ts'

export interface ListenAddress {
  readonly host: string
  readonly port: number
}

/** Host and port; IPv6 addresses in brackets. */
const pattern = '^(\\[[0-9a-fA-F:.]+\\]|[^\\s:\\[\\]/]+):\\d{1,5}$'

/** The option for a listen address. */
export function listenAddressOption(address: string, description: string) {
  return Type.String({ default: address, pattern, allowed: 'host:port, such as 127.0.0.1:9080 or [::1]:9080', description })
}

/** @throws RangeError if the text does not match the pattern, or the port is above 65535 */
export function parseListenAddress(text: string): ListenAddress {
  const colon = text.lastIndexOf(':')
  const port = Number(text.slice(colon + 1))
  if (!new RegExp(pattern).test(text) || port > 65_535) {
    throw new RangeError(`${JSON.stringify(text)} is not a listen address: give host:port, such as 127.0.0.1:9080 or [::1]:9080`)
  }
  return { host: text.slice(0, colon).replace(/^\[|\]$/g, ''), port }
}

/** True for an address, or the name of one, that other machines cannot reach: RFC 1122 §3.2.1.3, RFC 4291 §2.5.3, RFC 6761 §6.3. */
export function isLoopback(host: string): boolean {
  return host === '::1' || host.toLowerCase() === 'localhost' || /^127\.\d{1,3}\.\d{1,3}\.\d{1,3}$/.test(host)
}

/** True for a server that listens on such an address, whatever name was given for it. */
export function isBoundToLoopback(server: Server): boolean {
  const address = server.address()
  return typeof address === 'object' && address !== null && isLoopback(oneForm(address.address))
}
