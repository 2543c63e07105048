// Options of the InfluxDB reader: the section `store` of a reader of the time-series store.

import { type Static, Type } from 'typebox'
import { sinkOptions } from '../../sinks/influxdb/options.ts'

const { url, token, caFile, certFile, keyFile, requestsInFlight } = sinkOptions.properties

export const readerStoreOptions = Type.Object({
  url: Type.String({ ...url, description: 'The InfluxDB server, the organisation, and the bucket that messages are stored in.' }),
  token: Type.String({ ...token, description: 'API token that may read the bucket.' }),
  caFile,
  certFile,
  keyFile,
  queryTimeoutMs: Type.Integer({
    default: 30_000,
    minimum: 100,
    maximum: 600_000,
    description: 'Milliseconds that one question may take in the store; one that takes longer is told to ask for less.',
  }),
  requestsInFlight: Type.Integer({
    ...requestsInFlight,
    default: 16,
    description: 'Requests that are on their way at once; further questions wait for one of them.',
  }),
})
export type ReaderStoreOptions = Static<typeof readerStoreOptions>
