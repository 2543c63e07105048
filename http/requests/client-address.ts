// Finds the client address of a request: that of its connection or, behind trusted proxies, the one in their headers.

import type { IncomingMessage } from 'node:http'
import { BlockList, isIP, isIPv4, isIPv6, SocketAddress } from 'node:net'
import type { FastifyRequest } from 'fastify'
import type { Logger } from '../../config/logger.ts'

export type ClientAddresses = (request: Pick<IncomingMessage, 'headers' | 'socket'>) => string

/** The server decorator from which `clientAddressOf` gets the result of `openClientAddresses`. */
export const clientAddressesKey = 'clientAddresses'
/** The request decorator in which `clientAddressOf` keeps what it found; initially null. */
export const clientAddressKey = 'clientAddress'
/** The server decorator for the result of `openTrustedProxies`. */
export const trustedProxiesKey = 'trustedProxies'

/** The client's address, as `openClientAddresses` finds it once for a request; empty if the connection was closed before. */
export function clientAddressOf(request: FastifyRequest): string {
  const known = request.getDecorator<string | null>(clientAddressKey)
  if (known !== null) return known
  const address = request.server.getDecorator<ClientAddresses>(clientAddressesKey)(request.raw)
  request.setDecorator(clientAddressKey, address)
  return address
}

/** Whether the request's connection comes from a proxy of `http.trusted_proxies`. */
export function isFromTrustedProxy(request: FastifyRequest): boolean {
  return request.server.getDecorator<(address: string) => boolean>(trustedProxiesKey)(addressOfPeer(request.raw))
}

/**
 * @param trustedProxies addresses and networks in CIDR notation
 * @returns whether an address is one of them
 * @throws RangeError that names the invalid entry
 */
export function openTrustedProxies(trustedProxies: readonly string[]): (address: string) => boolean {
  const trusted = listOf(trustedProxies)
  return address => address !== '' && trustedProxies.length > 0 && trusted.check(address, isIPv6(address) ? 'ipv6' : 'ipv4')
}

/**
 * Finds the address of a client. `X-Forwarded-For` and `Forwarded` (RFC 7239) count only if a trusted proxy sent them. They are read from the
 * right, past the entries of trusted proxies, to the first address that is not one of them: anything that the client wrote itself is further left.
 * If an entry is not an address (`unknown`, an obfuscated name, malformed), the result is the trusted proxy that wrote it. If the two headers
 * disagree, it is the proxy of the connection.
 *
 * @param trustedProxies addresses and networks in CIDR notation
 * @param logger gets one warning, at the first request from an untrusted peer that sends these headers: probably a proxy missing in the options
 * @throws RangeError that names the invalid entry
 */
export function openClientAddresses(trustedProxies: readonly string[], logger?: Pick<Logger, 'warn'>): ClientAddresses {
  const isTrusted = openTrustedProxies(trustedProxies)
  let warned = false

  function warnOnce(peer: string): void {
    if (warned) return
    warned = true
    logger?.warn(
      { peer },
      `${peer} sends X-Forwarded-For or Forwarded but is not in http.trusted_proxies (SVC_HTTP_TRUSTED_PROXIES): all its requests count as one client, ` +
        'so failed logins of one user lock out all others. If it is your reverse proxy, add it there',
    )
  }

  function clientOf(peer: string, entries: readonly (string | undefined)[]): string {
    let address = peer
    for (const entry of entries.toReversed()) {
      const before = entry === undefined ? undefined : addressOf(entry)
      if (before === undefined) return address
      address = before
      if (!isTrusted(address)) return address
    }
    return address
  }

  return request => {
    const peer = addressOfPeer(request)
    if (peer === '') return peer
    const { 'x-forwarded-for': list, forwarded } = request.headers
    if (list === undefined && forwarded === undefined) return peer
    if (!isTrusted(peer)) {
      warnOnce(peer)
      return peer
    }
    const named = [
      ...(list === undefined ? [] : [clientOf(peer, String(list).split(','))]),
      ...(forwarded === undefined ? [] : [clientOf(peer, forwardedEntries(forwarded))]),
    ]
    return named.every(address => address === named[0]) ? (named[0] ?? peer) : peer
  }
}

/**
 * The network that counts as one client: an IPv4 address, also if NAT64 writes it as IPv6 (64:ff9b::/96, RFC 6052 §2.1), or a /64 of IPv6. A site may
 * have many of these: up to all of a /48 (RFC 6177 §2).
 */
export function networkOf(address: string, bits: 48 | 64 = 64): string {
  if (!isIPv6(address)) return address
  const [head = '', tail] = address.split('::')
  const left = head.split(':')
  const right = tail === undefined || tail === '' ? [] : tail.split(':')
  const written = tail === undefined ? left : [...left, ...Array<string>(8 - left.length - right.length).fill('0'), ...right]
  const groups = written.map(group => group || '0')
  if (groups.slice(0, 6).join(':') !== '64:ff9b:0:0:0:0') return `${groups.slice(0, bits / 16).join(':')}::/${bits}`
  return groups
    .slice(6)
    .map(group => Number.parseInt(group, 16))
    .map(number => `${number >> 8}.${number & 0xff}`)
    .join('.')
}

/** The address of the connection, in one form; empty if it was closed. */
export function addressOfPeer({ socket }: Pick<IncomingMessage, 'socket'>): string {
  return socket.remoteAddress === undefined ? '' : oneForm(socket.remoteAddress)
}

/** Normalizes an address, so that each has one text: IPv4-mapped IPv6 becomes IPv4, and IPv6 its short form without zone. */
export function oneForm(address: string): string {
  if (isIPv4(address)) return address
  const short = new SocketAddress({ address: address.replace(/%.*$/, ''), family: 'ipv6' }).address
  return /^::ffff:(\d+\.\d+\.\d+\.\d+)$/.exec(short)?.[1] ?? short
}

function listOf(entries: readonly string[]): BlockList {
  const list = new BlockList()
  for (const entry of entries) {
    const [address = '', bits, ...rest] = entry.split('/')
    const version = isIP(address)
    const bitsMax = version === 4 ? 32 : 128
    const isNetwork = bits === undefined || (/^\d{1,3}$/.test(bits) && Number(bits) <= bitsMax)
    if (version === 0 || address.includes('%') || !isNetwork || rest.length > 0) {
      throw new RangeError(
        `"${entry}" is neither an address nor a network: give one such as 10.0.0.7, 10.0.0.0/8 or 2001:db8::/32, not a host name`,
      )
    }
    list.addSubnet(address, bits === undefined ? bitsMax : Number(bits), version === 4 ? 'ipv4' : 'ipv6')
  }
  return list
}

/** `192.0.2.1`, `192.0.2.1:80`, `2001:db8::1`, `[2001:db8::1]`, `[2001:db8::1]:80`; undefined for anything else. */
function addressOf(entry: string): string | undefined {
  const text = entry.trim()
  if (isIPv6(text)) return oneForm(text)
  const address = /^(?:\[([^\]]+)\]|([\d.]+))(?::(?:\d{1,5}|_[\w.-]+))?$/.exec(text)
  if (address?.[1] !== undefined) return isIPv6(address[1]) ? oneForm(address[1]) : undefined
  return address?.[2] !== undefined && isIPv4(address[2]) ? address[2] : undefined
}

const token = "[!#$%&'*+.^_`|~\\w-]+"
/** The blanks behind a pair belong to it: two runs side by side would match the same blanks in as many ways as there are blanks. */
const pair = new RegExp(`[ \\t]*(?:(${token})=(?:(${token})|"((?:[^"\\\\]|\\\\.)*)")[ \\t]*)?([;,]|$)`, 'y')

/**
 * The `for` of each element of a `Forwarded` header (RFC 7239 §4), undefined where it is missing, given twice, or an IPv6 address without brackets.
 * A malformed header gives a single entry that is not an address.
 */
function forwardedEntries(header: string): (string | undefined)[] {
  const entries: (string | undefined)[] = []
  let values: string[] = []
  pair.lastIndex = 0
  while (pair.lastIndex < header.length) {
    const match = pair.exec(header)
    if (match === null) return [undefined]
    const [, name, plain, quoted, end] = match
    if (name?.toLowerCase() === 'for') values.push(plain ?? quoted!.replace(/\\(.)/g, '$1'))
    if (end === ';') continue
    entries.push(values.length === 1 && !isIPv6(values[0]!) ? values[0] : undefined)
    values = []
  }
  return entries
}
