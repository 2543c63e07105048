// The relational store: a PostgreSQL server.

import { databaseUrlFaults, passwordOf } from '../../config/database-url.ts'
import { named } from '../../config/option-variable.ts'
import { DatabaseError } from '../../config/postgres/database.ts'
import { type DatabaseUser, refusalSentence } from '../../config/postgres/refusal.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { type RelationalOptions, type RelationalReaderOptions, relationalOptions, relationalReaderOptions } from './relational-options.ts'
import type { StoreKind } from './store.ts'
import { closingBehind } from './store-reader.ts'

const option = named('store.url', 'SVC_RELATIONAL_URL')

/** Of the schema `sluice`; the server's words name no schema, and the other tables are those of formats. */
const ownTables: ReadonlySet<string> = new Set(['formats', 'logs', 'migrations', 'offsets', 'replayed'])

/** As sinks/postgres/README.md lists them. */
function writerTableRights(table: string): string {
  if (table === 'messages') return 'SELECT, INSERT ON public.messages'
  return ownTables.has(table) ? 'SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA sluice' : 'SELECT, INSERT ON ALL TABLES IN SCHEMA formats'
}

/** As readers/postgres/README.md lists them. */
function readerTableRights(table: string): string {
  return table === 'messages' ? 'SELECT ON public.messages' : 'SELECT ON ALL TABLES IN SCHEMA sluice, formats'
}

/** Rejects with what to do about it where the server refuses what was asked and no retry changes that; with any other error as it is. */
async function asked<Answer>(answer: Promise<Answer>, user: DatabaseUser): Promise<Answer> {
  try {
    return await answer
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.transient) throw error
    throw new SinkError('systemic', refusalSentence(error, user), { cause: error })
  }
}

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
    const user: DatabaseUser = { option, url: options.url, schemaRights: 'USAGE, CREATE', tableRights: writerTableRights }
    return {
      async openSink(identity, onNotice) {
        const sink = await asked(openSink({ database, options, onNotice, ...identity }), user)
        const write: typeof sink.write = (...batch) => asked(sink.write(...batch), user)
        return { ...sink, write, positions: partitions => asked(sink.positions!(partitions), user) }
      },
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
    const reader = openPostgresReader({ database, queryTimeoutMs })
    // Checks have a connection of their own: one that waits behind slow queries would say that the server is away.
    const checks = await openServer({ url, applicationName: 'sluice-reader-check', connectionsMax: 1, statementTimeoutMs: queryTimeoutMs })
    const checked = openPostgresReader({ database: checks })
    const user: DatabaseUser = { option, url, schemaRights: 'USAGE', tableRights: readerTableRights }
    const connections = { close: async () => void (await Promise.all([database.close(), checks.close()])) }
    return closingBehind({ ...reader, check: () => asked(checked.check(), user) }, connections)
  },

  async openAudit({ url }) {
    const { openServer } = await import('../../config/postgres/server.ts')
    const { openAudit } = await import('../../sinks/postgres/audit.ts')
    // Without a statement timeout: to read all rows in order takes as long as it takes.
    const database = await openServer({ url, applicationName: 'sluice-audit', connectionsMax: 2 })
    return { ...openAudit(database), close: () => database.close() }
  },
}
