// The client's certificate: from the TLS connection to this server, or from a trusted proxy in the header `Client-Cert` (RFC 9440).

import { X509Certificate } from 'node:crypto'
import type { IncomingHttpHeaders } from 'node:http'
import type { Socket } from 'node:net'
import { TLSSocket } from 'node:tls'
import { HttpError } from '../errors.ts'

/** A byte-sequence item (RFC 8941 §3.3.5): Base64 between colons. */
const byteSequence = /^:([A-Za-z0-9+/]+={0,2}):$/

/** The certificate of the TLS connection, whose key the client proved to hold in the handshake; undefined if it has none. */
export function certificateOfConnection(socket: Socket): X509Certificate | undefined {
  return socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined
}

/**
 * The certificate in the header, which only a trusted proxy may send: certificates are not secret, and only the server that terminated TLS
 * knows that the client holds the key.
 *
 * @returns undefined without the header
 * @throws HttpError `unauthenticated` if another peer sent the header, or if it contains no certificate
 */
export function certificateOfHeader(headers: IncomingHttpHeaders, isFromTrustedProxy: boolean): X509Certificate | undefined {
  const header = headers['client-cert']
  if (header === undefined) return undefined
  if (!isFromTrustedProxy)
    throw new HttpError(
      'unauthenticated',
      'the header Client-Cert is accepted only from proxies listed in http.trusted_proxies: connect through one',
    )
  try {
    const [, base64 = ''] = byteSequence.exec(String(header)) ?? []
    return new X509Certificate(Buffer.from(base64, 'base64'))
  } catch (cause) {
    const detail =
      'the header Client-Cert contains no certificate: the proxy must send it as DER, in Base64 between two colons (RFC 9440 §2.1)'
    throw new HttpError('unauthenticated', detail, { cause })
  }
}
