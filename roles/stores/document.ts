// The document store: MongoDB.

import { loginFaults } from '../../sinks/login.ts'
import { credentialsOf, type SinkOptions, secretsOf, sinkOptions, urlFaults } from '../../sinks/mongodb/options.ts'
import { keyedStore } from './keyed.ts'
import type { StoreKind } from './store.ts'

export const document: StoreKind<SinkOptions> = {
  name: 'document',
  options: sinkOptions,
  takesFlat: false,
  faults: options => [
    ...urlFaults(options.url).map(({ problem }) => ({ place: 'store.url', problem })),
    ...loginFaults(options, credentialsOf(options.url), false),
  ],
  secrets: secretsOf,
  ...keyedStore({
    connection: () => import('../../sinks/mongodb/connection.ts'),
    sink: () => import('../../sinks/mongodb/sink.ts'),
    schema: () => import('../../sinks/mongodb/schema.ts'),
    audit: () => import('../../sinks/mongodb/audit.ts'),
  }),
}
