// The options section `http`: listen address, TLS, and limits for slow and large requests.

import { type Static, Type } from 'typebox'
import { noteFault, type OptionFault } from '../config/options/options.ts'
import { checkOrigins } from './cross-origin.ts'
import { openClientAddresses } from './requests/client-address.ts'

export const httpOptions = Type.Object({
  host: Type.String({
    default: '127.0.0.1',
    minLength: 1,
    flag: '--host',
    allowed: 'an address such as 127.0.0.1, 0.0.0.0 or ::',
    description: 'Address to listen on. The default is reachable from this machine only.',
  }),
  port: Type.Integer({ default: 8080, minimum: 0, maximum: 65535, flag: '--port', description: 'Port to listen on; 0 picks a free one.' }),
  certFile: Type.Optional(
    Type.String({
      minLength: 1,
      description: 'Certificate chain, as PEM: enables HTTPS. Read at start-up.',
    }),
  ),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  bodyBytesMax: Type.Integer({
    default: 1_048_576,
    minimum: 1024,
    maximum: 67_108_864,
    description: 'Largest request body, in bytes; for messages see `ingest`.',
  }),
  requestTimeoutMs: Type.Integer({
    default: 30_000,
    minimum: 1000,
    maximum: 600_000,
    description: 'Milliseconds within which a client must send its whole request.',
  }),
  trustedProxies: Type.Array(Type.String({ minLength: 1, allowed: 'an address or a network such as 10.0.0.7 or 10.0.0.0/8' }), {
    default: [],
    examples: [['10.0.0.0/8', '2001:db8::/32']],
    description:
      'Reverse proxies whose `X-Forwarded-For` and `Forwarded` are trusted: they must write or remove both. Otherwise all clients behind one count as one address.',
  }),
  hosts: Type.Array(
    Type.String({
      pattern: '^([^\\s:/\\[\\]]+|\\[[0-9a-fA-F:.]+\\])$',
      allowed: 'a host name without a port such as sluice.example.com',
    }),
    {
      default: [],
      examples: [['sluice.example.com']],
      description:
        'Hosts that an address of this machine alone (127.0.0.1) answers for, besides `localhost` and `http.host`: those of a proxy on it that passes on `Host`. Other addresses answer for every host.',
    },
  ),
  allowedOrigins: Type.Array(Type.String({ minLength: 1, allowed: 'an origin such as https://app.example.com, or * for any origin' }), {
    default: [],
    examples: [['https://app.example.com']],
    description: 'Origins whose pages may call the API from a browser (CORS). Empty allows no other origin.',
  }),
  keepAliveTimeoutMs: Type.Integer({
    default: 72_000,
    minimum: 1000,
    maximum: 600_000,
    description: 'Milliseconds after which an idle connection is closed. Set it above that of a load balancer in front (often 60 s).',
  }),
})

export type HttpOptions = Static<typeof httpOptions>

/** Faults that the schema cannot express. */
export function httpFaults({ certFile, keyFile, trustedProxies, allowedOrigins }: HttpOptions): OptionFault[] {
  const faults: OptionFault[] = []
  if ((certFile === undefined) !== (keyFile === undefined))
    faults.push({ place: 'http.cert_file', problem: 'http.cert_file and http.key_file belong together: set both or neither' })
  noteFault(faults, 'http.allowed_origins', () => checkOrigins(allowedOrigins))
  noteFault(faults, 'http.trusted_proxies', () => void openClientAddresses(trustedProxies))
  return faults
}
