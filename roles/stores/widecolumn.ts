// The wide-column store: Cassandra.

import { type ReaderStoreOptions, readerStoreOptions } from '../../readers/cassandra/options.ts'
import type { Connection } from '../../sinks/cassandra/connection.ts'
import { credentialsOf, type SinkOptions, secretsOf, sinkOptions, urlFaults } from '../../sinks/cassandra/options.ts'
import { loginFaults } from '../../sinks/login.ts'
import { keyedStore } from './keyed.ts'
import type { StoreKind } from './store.ts'

export const widecolumn: StoreKind<SinkOptions, ReaderStoreOptions> = {
  name: 'widecolumn',
  options: sinkOptions,
  readerOptions: readerStoreOptions,
  takesFlat: false,
  faults: options => [
    ...urlFaults(options.url).map(({ problem }) => ({ place: 'store.url', problem })),
    ...loginFaults(options, credentialsOf(options.url), true),
  ],
  secrets: secretsOf,
  ...keyedStore<SinkOptions, ReaderStoreOptions, Connection>({
    connection: () => import('../../sinks/cassandra/connection.ts'),
    sink: () => import('../../sinks/cassandra/sink.ts'),
    schema: () => import('../../sinks/cassandra/schema.ts'),
    openReader: async () => (await import('../../readers/cassandra/reader.ts')).openCassandraReader,
    audit: () => import('../../sinks/cassandra/audit.ts'),
  }),
}
