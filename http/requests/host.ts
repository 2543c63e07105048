// Refuses requests without a host or with several, and those for another host than this machine on a listener that only this machine reaches.
//
// A page of any site can have its own name resolve to 127.0.0.1, and its browser then lets it read what answers there (DNS rebinding). Such a
// request has the site's name in Host.

import type { IncomingMessage, Server } from 'node:http'
import { isIPv6 } from 'node:net'
import { HttpError } from '../errors.ts'
import { isBoundToLoopback, isLoopback } from '../listen-address.ts'
import { oneForm } from './client-address.ts'

/**
 * @param server whose address says whether only this machine reaches it
 * @param hosts names besides those of loopback addresses: that of the listen address, and those of proxies on this machine that pass on their own
 * @returns the error for a request
 */
export function openHostCheck(server: Server, hosts: readonly string[]): (request: IncomingMessage) => HttpError | undefined {
  const named = new Set(hosts.map(nameOf))
  // Of an entry that is no host, as of a Host header that is none.
  named.delete('')
  let isLocal: boolean | undefined

  return ({ headers: { host }, httpVersion, rawHeaders }) => {
    if (host === undefined && httpVersion === '1.1') return new HttpError('malformed_request', 'there is no Host header: send one')
    // Node.js keeps the first one, and a proxy may route by another (RFC 9112 §3.2).
    if (hostsIn(rawHeaders) > 1) return new HttpError('malformed_request', 'there are several Host headers: send one')
    isLocal ??= isBoundToLoopback(server)
    // Browsers always send one.
    if (!isLocal || host === undefined) return undefined
    const name = nameOf(host)
    if (isLoopback(name) || name.endsWith('.localhost') || named.has(name)) return undefined
    return new HttpError(
      'misdirected',
      'this address answers for localhost only, so that pages of other sites cannot read it: name the host in http.hosts (SVC_HTTP_HOSTS), or have the proxy send Host: localhost',
    )
  }
}

function hostsIn(rawHeaders: readonly string[]): number {
  let count = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at]!
    if (name.length === 4 && name.toLowerCase() === 'host') count++
  }
  return count
}

/** Without port, brackets and zone, and in one form: `LOCALHOST.:8080` is `localhost`, `[0:0:0:0:0:0:0:1%lo]:80` is `::1`. */
function nameOf(host: string): string {
  const [, inBrackets, name = ''] = /^(?:\[([^\]]*)\]|([^:]*))(?::\d*)?$/.exec(host.toLowerCase()) ?? []
  if (inBrackets !== undefined) return isIPv6(inBrackets) ? oneForm(inBrackets) : ''
  return name.endsWith('.') ? name.slice(0, -1) : name
}
