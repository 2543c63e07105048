// The relational store: a PostgreSQL server.

import { databaseUrlFaults, passwordOf } from '../../config/database-url.ts'
import { type RelationalOptions, type RelationalReaderOptions, relationalOptions, relationalReaderOptions } from './relational-options.ts'
import type { StoreKind } from './store.ts'
import { closingBehind } from './store-reader.ts'

export const relational: StoreKind<RelationalOptions, RelationalReaderOptions> = {
  name: 'relational',
  options: relationalOptions,
  readerOptions: relationalReaderOptions,
  keepsPositions: true,
  takesFlat: false,
  faults: ({ url }) => databaseUrlFaults('store.url', url),
  secrets: ({ url }) => ({ 'store.url': passwordOf(url) }),

  async open(options, writer) {
    const { openServer } = await import('../../config/postgres/server.ts')
    const { classify, openSink } = await import('../../sinks/postgres/sink.ts')
    const { maintain } = await import('../../sinks/postgres/schema.ts')
    const database = await openServer({
      url: options.url,
      applicationName: `sluice-writer-${writer}`,
      connectionsMax: 3,
      statementTimeoutMs: options.statementTimeoutMs,
      lockTimeoutMs: options.lockTimeoutMs,
    })
    return {
      openSink: (identity, onNotice) => openSink({ database, options, onNotice, ...identity }),
      classify,
      async maintain() {
        await maintain(database, options)
      },
      close: () => database.close(),
    }
  },

  async openReader({ url, queryTimeoutMs, connectionsMax }) {
    const { openServer } = await import('../../config/postgres/server.ts')
    const { openPostgresReader } = await import('../../readers/postgres/reader.ts')
    const database = await openServer({
      url,
      applicationName: 'sluice-reader',
      connectionsMax,
      statementTimeoutMs: queryTimeoutMs,
      watchesClients: true,
      plansEach: true,
    })
    return closingBehind(openPostgresReader({ database, queryTimeoutMs }), database)
  },

  async openAudit({ url }) {
    const { openServer } = await import('../../config/postgres/server.ts')
    const { openAudit } = await import('../../sinks/postgres/audit.ts')
    // Without a statement timeout: to read all rows in order takes as long as it takes.
    const database = await openServer({ url, applicationName: 'sluice-audit', connectionsMax: 2 })
    return { ...openAudit(database), close: () => database.close() }
  },
}
