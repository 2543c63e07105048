// The wide-column store: Cassandra.

import { readTlsFiles } from '../../config/tls-files.ts'
import { credentialsOf, type SinkOptions, secretsOf, sinkOptions, urlFaults } from '../../sinks/cassandra/options.ts'
import { loginFaults } from '../../sinks/login.ts'
import type { StoreKind } from './store.ts'

export const widecolumn: StoreKind<SinkOptions> = {
  name: 'widecolumn',
  options: sinkOptions,
  keepsPositions: false,
  takesFlat: false,
  faults: options => [
    ...urlFaults(options.url).map(({ problem }) => ({ place: 'store.url', problem })),
    ...loginFaults(options, credentialsOf(options.url), true),
  ],
  secrets: secretsOf,

  async open(options, writer) {
    const { openConnection } = await import('../../sinks/cassandra/connection.ts')
    const { classify, openSink } = await import('../../sinks/cassandra/sink.ts')
    const { maintain } = await import('../../sinks/cassandra/schema.ts')
    const connection = await openConnection(options, `sluice-writer-${writer}`, await readTlsFiles('store', options))
    return {
      openSink: (identity, onNotice) => openSink({ connection, options, onNotice, ...identity }),
      classify,
      maintain: () => maintain(connection, options),
      close: () => connection.close(),
    }
  },

  async openAudit(options) {
    const { openConnection } = await import('../../sinks/cassandra/connection.ts')
    const { openAudit } = await import('../../sinks/cassandra/audit.ts')
    const connection = await openConnection(options, 'sluice-audit', await readTlsFiles('store', options))
    return { ...openAudit(connection, options), close: () => connection.close() }
  },
}
