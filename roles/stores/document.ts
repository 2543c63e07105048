// The document store: MongoDB.

import { readTlsFiles } from '../../config/tls-files.ts'
import { loginFaults } from '../../sinks/login.ts'
import { credentialsOf, type SinkOptions, secretsOf, sinkOptions, urlFaults } from '../../sinks/mongodb/options.ts'
import type { StoreKind } from './store.ts'

export const document: StoreKind<SinkOptions> = {
  name: 'document',
  options: sinkOptions,
  keepsPositions: false,
  takesFlat: false,
  faults: options => [
    ...urlFaults(options.url).map(({ problem }) => ({ place: 'store.url', problem })),
    ...loginFaults(options, credentialsOf(options.url), false),
  ],
  secrets: secretsOf,

  async open(options, writer) {
    const { openConnection } = await import('../../sinks/mongodb/connection.ts')
    const { classify, openSink } = await import('../../sinks/mongodb/sink.ts')
    const { maintain } = await import('../../sinks/mongodb/schema.ts')
    const connection = await openConnection(options, `sluice-writer-${writer}`, await readTlsFiles('store', options))
    return {
      openSink: (identity, onNotice) => openSink({ connection, options, onNotice, ...identity }),
      classify,
      maintain: () => maintain(connection, options),
      close: () => connection.close(),
    }
  },

  async openAudit(options) {
    const { openConnection } = await import('../../sinks/mongodb/connection.ts')
    const { openAudit } = await import('../../sinks/mongodb/audit.ts')
    const connection = await openConnection(options, 'sluice-audit', await readTlsFiles('store', options))
    return { ...openAudit(connection, options), close: () => connection.close() }
  },
}
