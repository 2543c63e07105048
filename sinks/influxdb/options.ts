// Options of the InfluxDB sink: the section `store` of a writer to the time-series store.

import { type Static, Type } from 'typebox'
import { formatOptions } from '../format-registry.ts'

export const sinkOptions = Type.Object({
  url: Type.String({
    pattern: '^https?://.',
    environment: 'SVC_TIMESERIES_URL',
    allowed: 'a URL such as http://host:8086/?org=plant&bucket=messages',
    description: 'The InfluxDB server, the organisation, and the bucket that messages are stored in; it is made where it is missing.',
  }),
  token: Type.String({
    minLength: 1,
    secret: true,
    environment: 'SVC_TIMESERIES_TOKEN',
    description: 'API token that may read and write the bucket and the one beside it, whose name ends in `_sluice`.',
  }),
  caFile: Type.Optional(
    Type.String({ minLength: 1, description: "Authority of the server's certificate, as PEM, in place of the system's." }),
  ),
  certFile: Type.Optional(Type.String({ minLength: 1, description: 'Certificate to show to the server (mutual TLS), as PEM.' })),
  keyFile: Type.Optional(Type.String({ minLength: 1, description: 'Private key of that certificate, as PEM.' })),
  requestTimeoutMs: Type.Integer({
    default: 30_000,
    minimum: 500,
    maximum: 600_000,
    description: 'Milliseconds after which a request without an answer is given up; its batch is written again.',
  }),
  bodyBytes: Type.Integer({
    default: 256 * 1024,
    minimum: 4096,
    maximum: 16 * 1024 * 1024,
    description: 'Bytes of line protocol, before it is compressed, that one request writes.',
  }),
  requestsInFlight: Type.Integer({
    default: 4,
    minimum: 1,
    maximum: 64,
    description: 'Requests of one batch that are on their way at once.',
  }),
  ...formatOptions,
  formatsMax: Type.Integer({
    ...formatOptions.formatsMax,
    description: 'JSON formats in the whole store, each a measurement. A message of one more is a dead letter (rule `format-limit`).',
  }),
  retentionDays: Type.Integer({
    default: 0,
    minimum: 0,
    maximum: 36_500,
    description:
      'Days that the bucket keeps. 0 keeps all in a bucket that is made, and leaves a bucket that is there as it is; otherwise the bucket is set so.',
  }),
})
export type SinkOptions = Static<typeof sinkOptions>

/** What a connection needs of the options of a writer, or of a reader. */
export type ConnectionOptions = Pick<SinkOptions, 'url' | 'token' | 'requestsInFlight'> &
  (Pick<SinkOptions, 'requestTimeoutMs'> | { readonly queryTimeoutMs: number })

/** What the URL says. */
export interface StoreAddress {
  /** `http://host:8086` */
  readonly origin: string
  /** Before `/api/v2`: empty, or the path of a proxy. */
  readonly path: string
  readonly org: string
  readonly bucket: string
}

/** What no other bucket's name may end in: it would be another store's registry. */
const registrySuffix = '_sluice'

/** The registry's bucket, which no retention may touch. */
export function registryBucketOf(bucket: string): string {
  return bucket + registrySuffix
}

export function addressOf(url: string): StoreAddress {
  const { origin, pathname, searchParams } = new URL(url)
  return { origin, path: pathname.replace(/\/+$/, ''), org: searchParams.get('org') ?? '', bucket: searchParams.get('bucket') ?? '' }
}

/** What can be known to be wrong with the URL before the start. */
export function urlFaults(url: string): { problem: string }[] {
  const example = 'give it as http://host:8086/?org=plant&bucket=messages'
  if (!URL.canParse(url)) return [{ problem: `is not a URL: ${example}` }]
  const { protocol, username, password, searchParams, hash } = new URL(url)
  const faults: { problem: string }[] = []
  const note = (problem: string): void => void faults.push({ problem: `${problem}: ${example}` })
  if (protocol !== 'http:' && protocol !== 'https:') note('begins with neither http:// nor https://')
  if (username !== '' || password !== '') note('holds a user or a password, which InfluxDB 2 does not take: set store.token')
  if (hash !== '') note('has a part behind #')
  for (const name of ['org', 'bucket']) {
    const values = searchParams.getAll(name)
    if (values.length !== 1 || values[0] === '') note(values.length > 1 ? `names ${name} more than once` : `names no ${name}`)
  }
  for (const name of new Set(searchParams.keys())) {
    if (name === 'token') note('holds a token, which would be seen in logs: set store.token')
    else if (name !== 'org' && name !== 'bucket') note('holds something besides org and bucket')
  }
  if (searchParams.get('bucket')?.startsWith('_') === true) note("names a bucket that begins with _, as InfluxDB's own do")
  if (searchParams.get('bucket')?.endsWith(registrySuffix) === true) {
    note(`names a bucket that ends in ${registrySuffix}, as the registries of stores do`)
  }
  return faults
}

/** By the name of the option: what nobody may know in production. */
export function secretsOf({ token }: SinkOptions): Record<string, string | undefined> {
  return { 'store.token': token }
}
