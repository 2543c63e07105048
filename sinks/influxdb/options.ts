// Options of the InfluxDB sink.

import { type Static, Type } from 'typebox'
import { formatOptions, retentionOptions } from '../options.ts'

export const sinkOptions = Type.Object({
  url: Type.String({
    pattern: '^https?://.',
    environment: 'SVC_TIMESERIES_URL',
    allowed: 'a URL such as http://host:8086/?org=plant&bucket=messages',
    description: 'Server, organisation and bucket, which is created if it is missing.',
  }),
  token: Type.String({
    minLength: 1,
    secret: true,
    environment: 'SVC_TIMESERIES_TOKEN',
    description: 'API token that may read and write the bucket and `<bucket>_sluice`.',
  }),
  caFile: Type.Optional(Type.String({ minLength: 1, description: "CA of the server's certificate, as PEM, instead of the system's." })),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Client certificate (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  requestTimeoutMs: Type.Integer({
    default: 30_000,
    minimum: 500,
    maximum: 600_000,
    description: 'Milliseconds after which a request fails and is repeated.',
  }),
  bodyBytes: Type.Integer({
    default: 256 * 1024,
    minimum: 4096,
    maximum: 16 * 1024 * 1024,
    description: 'Bytes of line protocol, before compression, in one request.',
  }),
  requestsInFlight: Type.Integer({
    default: 4,
    minimum: 1,
    maximum: 64,
    description: 'Requests of one batch that are in flight at once.',
  }),
  ...formatOptions,
  formatsMax: Type.Integer({
    ...formatOptions.formatsMax,
    description: 'Most JSON formats in the store, each a measurement; a further one is a dead letter (`format-limit`).',
  }),
  retentionDays: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 36_500,
    description: 'Days that the bucket keeps; 0 keeps all, and leaves an existing bucket as it is.',
  }),
  ...retentionOptions,
})
export type SinkOptions = Static<typeof sinkOptions>

/** The options of a writer or of a reader that a connection needs. */
export type ConnectionOptions = Pick<SinkOptions, 'url' | 'token' | 'requestsInFlight'> &
  (Pick<SinkOptions, 'requestTimeoutMs'> | { readonly queryTimeoutMs: number })

/** The parts of the URL. */
export interface StoreAddress {
  /** `http://host:8086` */
  readonly origin: string
  /** The path before `/api/v2`: empty, or that of a proxy. */
  readonly path: string
  readonly org: string
  readonly bucket: string
}

/** No store's bucket may end in this: it would be the registry of another store. */
const registrySuffix = '_sluice'

/** The bucket of the registry, which must not have a retention. */
export function registryBucketOf(bucket: string): string {
  return bucket + registrySuffix
}

export function addressOf(url: string): StoreAddress {
  const { origin, pathname, searchParams } = new URL(url)
  return { origin, path: pathname.replace(/\/+$/, ''), org: searchParams.get('org') ?? '', bucket: searchParams.get('bucket') ?? '' }
}

/** What can be found wrong with the URL before the start. */
export function urlFaults(url: string): { problem: string }[] {
  const example = 'write it as http://host:8086/?org=plant&bucket=messages'
  if (!URL.canParse(url)) return [{ problem: `is not a URL: ${example}` }]
  const { protocol, username, password, searchParams, hash } = new URL(url)
  const faults: { problem: string }[] = []
  const note = (problem: string): void => void faults.push({ problem: `${problem}: ${example}` })
  if (protocol !== 'http:' && protocol !== 'https:') note('begins with neither http:// nor https://')
  if (username !== '' || password !== '') note('contains a user or a password, which InfluxDB 2 does not use: set store.token')
  if (hash !== '') note('has a part after #')
  for (const name of ['org', 'bucket']) {
    const values = searchParams.getAll(name)
    if (values.length !== 1 || values[0] === '') note(values.length > 1 ? `has more than one ${name}` : `has no ${name}`)
  }
  for (const name of new Set(searchParams.keys())) {
    if (name === 'token') note('contains a token, which would appear in logs: set store.token')
    else if (name !== 'org' && name !== 'bucket') note('has a parameter other than org and bucket')
  }
  if (searchParams.get('bucket')?.startsWith('_') === true) note("has a bucket that begins with _, like InfluxDB's own")
  if (searchParams.get('bucket')?.endsWith(registrySuffix) === true) {
    note(`has a bucket that ends in ${registrySuffix}, like the registries of stores`)
  }
  return faults
}

/** By option name, the values that are checked against publicly known secrets in production. */
export function secretsOf({ token }: Pick<SinkOptions, 'token'>): Record<string, string | undefined> {
  return { 'store.token': token }
}
