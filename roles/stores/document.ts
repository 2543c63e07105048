// The document store: MongoDB.

import { type ReaderStoreOptions, readerStoreOptions } from '../../readers/mongodb/options.ts'
import { loginFaults } from '../../sinks/login.ts'
import type { Connection } from '../../sinks/mongodb/connection.ts'
import { credentialsOf, type SinkOptions, secretsOf, sinkOptions, urlFaults } from '../../sinks/mongodb/options.ts'
import { keyedStore } from './keyed.ts'
import type { StoreKind } from './store.ts'

export const document: StoreKind<SinkOptions, ReaderStoreOptions> = {
  name: 'document',
  options: sinkOptions,
  readerOptions: readerStoreOptions,
  takesFlat: false,
  faults: options => [
    ...urlFaults(options.url).map(({ problem }) => ({ place: 'store.url', problem })),
    ...loginFaults(options, credentialsOf(options.url), false),
  ],
  secrets: secretsOf,
  ...keyedStore<SinkOptions, ReaderStoreOptions, Connection>({
    connection: () => import('../../sinks/mongodb/connection.ts'),
    sink: () => import('../../sinks/mongodb/sink.ts'),
    schema: () => import('../../sinks/mongodb/schema.ts'),
    openReader: async () => (await import('../../readers/mongodb/reader.ts')).openMongodbReader,
    audit: () => import('../../sinks/mongodb/audit.ts'),
  }),
}
