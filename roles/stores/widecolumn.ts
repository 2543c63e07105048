// The wide-column store: Cassandra.

import { credentialsOf, type SinkOptions, secretsOf, sinkOptions, urlFaults } from '../../sinks/cassandra/options.ts'
import { loginFaults } from '../../sinks/login.ts'
import { keyedStore } from './keyed.ts'
import type { StoreKind } from './store.ts'

export const widecolumn: StoreKind<SinkOptions> = {
  name: 'widecolumn',
  options: sinkOptions,
  takesFlat: false,
  faults: options => [
    ...urlFaults(options.url).map(({ problem }) => ({ place: 'store.url', problem })),
    ...loginFaults(options, credentialsOf(options.url), true),
  ],
  secrets: secretsOf,
  ...keyedStore({
    connection: () => import('../../sinks/cassandra/connection.ts'),
    sink: () => import('../../sinks/cassandra/sink.ts'),
    schema: () => import('../../sinks/cassandra/schema.ts'),
    audit: () => import('../../sinks/cassandra/audit.ts'),
  }),
}
