// The section `http`: where the HTTP interface listens, and its limits against slow and large requests.

import { type Static, Type } from 'typebox'
import { noteFault, type OptionFault } from '../options.ts'
import { openClientAddresses } from './client-address.ts'
import { checkOrigins } from './cross-origin.ts'

export const httpOptions = Type.Object({
  host: Type.String({
    default: '127.0.0.1',
    minLength: 1,
    flag: '--host',
    allowed: 'an address such as 127.0.0.1, 0.0.0.0 or ::',
    description: 'Address to listen on. The default is reached from this machine only.',
  }),
  port: Type.Integer({ default: 8080, minimum: 0, maximum: 65535, flag: '--port', description: 'Port to listen on; 0 picks a free one.' }),
  certFile: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Certificate of this listener with those above it, as PEM: makes it HTTPS. Read at the start.',
    }),
  ),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  bodyBytesMax: Type.Integer({
    default: 1_048_576,
    minimum: 1024,
    maximum: 67_108_864,
    description: 'Largest body of a request, in bytes. Ingest has its own limit of a payload.',
  }),
  requestTimeoutMs: Type.Integer({
    default: 30_000,
    minimum: 1000,
    maximum: 600_000,
    description: 'Milliseconds in which a client must have sent its whole request.',
  }),
  trustedProxies: Type.Array(Type.String({ minLength: 1, allowed: 'an address or a network such as 10.0.0.7 or 10.0.0.0/8' }), {
    default: [],
    examples: [['10.0.0.0/8', '2001:db8::/32']],
    description:
      'Reverse proxies in front, whose `X-Forwarded-For` and `Forwarded` say where a request comes from. Without them every client behind one proxy counts as one address.',
  }),
  allowedOrigins: Type.Array(Type.String({ minLength: 1, allowed: 'an origin such as https://app.example.com, or * for every one' }), {
    default: [],
    examples: [['https://app.example.com']],
    description: 'Origins whose pages may use the interfaces from a browser (CORS). Empty, no page of another origin may.',
  }),
  keepAliveTimeoutMs: Type.Integer({
    default: 72_000,
    minimum: 1000,
    maximum: 600_000,
    description: 'Milliseconds after which an idle connection is closed. More than a load balancer in front keeps its own (often 60 s).',
  }),
})

export type HttpOptions = Static<typeof httpOptions>

/** What a schema cannot say of them. */
export function httpFaults({ certFile, keyFile, trustedProxies, allowedOrigins }: HttpOptions): OptionFault[] {
  const faults: OptionFault[] = []
  if ((certFile === undefined) !== (keyFile === undefined))
    faults.push({ place: 'http.cert_file', problem: 'a certificate needs its key, and a key its certificate: give both or none' })
  noteFault(faults, 'http.allowed_origins', () => checkOrigins(allowedOrigins))
  noteFault(faults, 'http.trusted_proxies', () => void openClientAddresses(trustedProxies))
  return faults
}
