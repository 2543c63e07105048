// Options of the InfluxDB reader.

import { type Static, Type } from 'typebox'
import { sinkOptions } from '../../sinks/influxdb/options.ts'
import { queryTimeoutMs } from '../options.ts'

const { url, token, caFile, certFile, keyFile, requestsInFlight } = sinkOptions.properties

/** The options, with their defaults and descriptions. */
export const readerStoreOptions = Type.Object({
  url: Type.String({ ...url, description: 'The InfluxDB server, the organisation, and the bucket that messages are stored in.' }),
  token: Type.String({ ...token, description: 'API token with read permission on the bucket.' }),
  caFile,
  certFile,
  keyFile,
  queryTimeoutMs,
  requestsInFlight: Type.Integer({
    ...requestsInFlight,
    default: 16,
    description: 'Requests that are in flight at once; further queries wait for one of them.',
  }),
})
/** The options of a reader. */
export type ReaderStoreOptions = Static<typeof readerStoreOptions>
