// Options of the Cassandra reader: the section `store` of a reader of it.

import { type Static, Type } from 'typebox'
import { sinkOptions } from '../../sinks/cassandra/options.ts'

const { url, user, password, tls, caFile, certFile, keyFile, tlsName, connectTimeoutMs } = sinkOptions.properties

/** Cassandra reads at each of them; EACH_QUORUM is of writes alone. */
export const readConsistencyNames = ['ONE', 'LOCAL_ONE', 'TWO', 'THREE', 'QUORUM', 'LOCAL_QUORUM', 'ALL'] as const

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
    // A writer's variable, SVC_STORE_CONSISTENCY, is of its writes: processes may share one environment.
    environment: 'SVC_STORE_READ_CONSISTENCY',
    description:
      "How many replicas must answer a read. Together with the writers' more than there are, such as quorum and quorum: what is stored is then read at once.",
  }),
  connectTimeoutMs,
  requestTimeoutMs: Type.Integer({
    default: 12_000,
    minimum: 500,
    maximum: 600_000,
    description: 'Milliseconds after which a request without an answer is given up, and its connection with it.',
  }),
  queryTimeoutMs: Type.Integer({
    default: 30_000,
    minimum: 100,
    maximum: 600_000,
    description: 'Milliseconds that one question may take in the store, in all of its requests; a longer one is answered 422.',
  }),
})
export type ReaderStoreOptions = Static<typeof readerStoreOptions>
