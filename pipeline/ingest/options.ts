// The section `ingest`: what is taken from devices over HTTP, and how much of it.

import { type Static, Type } from 'typebox'
import type { HttpOptions } from '../../config/http/options.ts'
import type { OptionFault } from '../../config/options.ts'

const quota = { default: 0, minimum: 0, maximum: 10_000_000 }

export const ingestOptions = Type.Object({
  payloadBytesMax: Type.Integer({
    default: 262_144,
    minimum: 1,
    maximum: 1_048_576,
    description: 'Largest payload of a message, in bytes. A larger one is answered 413.',
  }),
  clientCertificates: Type.Enum(['none', 'tls', 'header'], {
    default: 'none',
    description:
      'Where devices show a certificate of `POST /certs` in place of the key of their thing: `tls` over TLS to this server (`http.cert_file`), `header` to a proxy of `http.trusted_proxies` that sends it as `Client-Cert` (RFC 9440) and removes that header from what its clients send.',
  }),
  thingMessagesPerMinute: Type.Integer({
    ...quota,
    description:
      'Messages that one thing may publish a minute; one more is answered 429. 0 sets no quota. Each ingest process counts for itself: behind a balancer over three of them a thing may publish three times as many.',
  }),
  channelMessagesPerMinute: Type.Integer({
    ...quota,
    description: 'Messages that may be published to one channel a minute, by all things together; otherwise the same.',
  }),
})

/** What a schema cannot say of them. */
export function ingestFaults({ clientCertificates }: IngestOptions, http: HttpOptions): OptionFault[] {
  const note = (problem: string): OptionFault[] => [{ place: 'ingest.client_certificates', problem }]
  if (clientCertificates === 'tls' && http.certFile === undefined)
    return note('devices show certificates over TLS only: give http.cert_file and http.key_file, too')
  if (clientCertificates === 'header' && http.trustedProxies.length === 0)
    return note('the header Client-Cert is taken from trusted proxies alone: name them in http.trusted_proxies')
  return []
}

export type IngestOptions = Static<typeof ingestOptions>
