// The options section `ingest`: payload limit, client certificates and quotas.

import { type Static, Type } from 'typebox'
import type { OptionFault } from '../../config/options/options.ts'
import type { HttpOptions } from '../../http/options.ts'

const quota = { default: 0, minimum: 0, maximum: 10_000_000 }

export const ingestOptions = Type.Object({
  payloadBytesMax: Type.Integer({
    default: 262_144,
    minimum: 1,
    maximum: 1_048_576,
    description: 'Largest payload of a message, in bytes. A larger one gets 413.',
  }),
  linesMax: Type.Integer({
    default: 1000,
    minimum: 1,
    maximum: 10_000,
    description:
      'Most lines of a publish with many messages (`application/x-ndjson`), which has at most `http.body_bytes_max` bytes. A longer one gets 413.',
  }),
  clientCertificates: Type.Enum(['none', 'tls', 'header'], {
    default: 'none',
    description:
      'Whether devices may authenticate with a certificate: `tls` on this server, `header` through a proxy in `http.trusted_proxies` that sets `Client-Cert` (RFC 9440) and removes it from requests.',
  }),
  thingMessagesPerMinute: Type.Integer({
    ...quota,
    description: 'Messages of one thing per minute and ingest process; further ones get 429. 0 is no quota.',
  }),
  channelMessagesPerMinute: Type.Integer({
    ...quota,
    description: 'The same for all things together in one channel.',
  }),
})

/** Faults that the schema cannot express. */
export function ingestFaults({ clientCertificates }: IngestOptions, http: HttpOptions): OptionFault[] {
  const note = (problem: string): OptionFault[] => [{ place: 'ingest.client_certificates', problem }]
  if (clientCertificates === 'tls' && http.certFile === undefined) return note('this needs TLS: also set http.cert_file and http.key_file')
  if (clientCertificates === 'header' && http.trustedProxies.length === 0)
    return note('the header Client-Cert is accepted only from trusted proxies: list them in http.trusted_proxies')
  return []
}

export type IngestOptions = Static<typeof ingestOptions>
