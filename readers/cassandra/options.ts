// Options of the Cassandra reader.

import { type Static, Type } from 'typebox'
import { sinkOptions } from '../../sinks/cassandra/options.ts'
import { queryTimeoutMs } from '../options.ts'

const { url, user, password, tls, caFile, certFile, keyFile, tlsName, connectTimeoutMs } = sinkOptions.properties

/** The levels at which Cassandra reads; EACH_QUORUM is only for writes. */
const readConsistencyNames = ['ONE', 'LOCAL_ONE', 'TWO', 'THREE', 'QUORUM', 'LOCAL_QUORUM', 'ALL'] as const

/** The options, with their defaults and descriptions. */
export const readerStoreOptions = Type.Object({
  url,
  user,
  password,
  tls,
  caFile,
  certFile,
  keyFile,
  tlsName,
  consistency: Type.Enum([...readConsistencyNames], {
    default: 'LOCAL_QUORUM',
    // Not SVC_STORE_CONSISTENCY, which sets the writer's level: both processes may share one environment.
    environment: 'SVC_STORE_READ_CONSISTENCY',
    description:
      "How many replicas must answer a read. If these and the writers' level together are more than all replicas, such as quorum and quorum, what is stored can be read at once.",
  }),
  connectTimeoutMs,
  requestTimeoutMs: Type.Integer({
    default: 12_000,
    minimum: 500,
    maximum: 600_000,
    description: 'Milliseconds after which a request fails and its connection is closed.',
  }),
  queryTimeoutMs: Type.Integer({
    ...queryTimeoutMs,
    description: 'Milliseconds that one query may take in the store, in all of its requests; a longer one is answered with 422.',
  }),
})
/** The options of a reader. */
export type ReaderStoreOptions = Static<typeof readerStoreOptions>
