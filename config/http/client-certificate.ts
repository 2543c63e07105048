// Which certificate a client showed: over TLS to this server, or to a trusted proxy that tells it in the header `Client-Cert` (RFC 9440).

import { X509Certificate } from 'node:crypto'
import { TLSSocket } from 'node:tls'
import type { FastifyRequest } from 'fastify'
import { isFromTrustedProxy } from './client-address.ts'
import { HttpError } from './errors.ts'

/** An item that is a byte sequence (RFC 8941 §3.3.5), in Base64 between colons. */
const byteSequence = /^:([A-Za-z0-9+/]+={0,2}):$/

/** That of the connection, whose client has proven to hold its key; undefined where none was shown. */
export function certificateOfConnection({ raw: { socket } }: FastifyRequest): X509Certificate | undefined {
  return socket instanceof TLSSocket ? socket.getPeerX509Certificate() : undefined
}

/**
 * That of the header, from a trusted proxy alone: a certificate is no secret, and only who ended the TLS knows that its client holds the key.
 *
 * @returns undefined without the header
 * @throws HttpError `unauthenticated` for a header of somebody else, and for one that is no certificate
 */
export function certificateOfHeader(request: FastifyRequest): X509Certificate | undefined {
  const header = request.headers['client-cert']
  if (header === undefined) return undefined
  if (!isFromTrustedProxy(request))
    throw new HttpError(
      'unauthenticated',
      'the header Client-Cert is taken from the proxies of http.trusted_proxies alone: connect through one',
    )
  try {
    const [, base64 = ''] = byteSequence.exec(String(header)) ?? []
    return new X509Certificate(Buffer.from(base64, 'base64'))
  } catch (cause) {
    const detail =
      'the header Client-Cert holds no certificate: the proxy has to send it as DER, in Base64 between two colons (RFC 9440 §2.1)'
    throw new HttpError('unauthenticated', detail, { cause })
  }
}
