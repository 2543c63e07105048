// The relational store: a PostgreSQL server.

import { named } from '../../config/options/variable.ts'
import { type Database, DatabaseError } from '../../database/database.ts'
import { type DatabaseUser, refusalSentence } from '../../database/refusal.ts'
import { checkMayCreate, checkServer, checkTableRights } from '../../database/rights.ts'
import type { ReaderStoreOptions } from '../../readers/postgres/options.ts'
import { checkLogs } from '../../sinks/logs.ts'
import type { SinkOptions } from '../../sinks/postgres/options.ts'
import { SinkError } from '../../sinks/sink-error.ts'
import { closingBehind, type StoreKind } from './store.ts'

interface WriterOptions extends SinkOptions {
  readonly url: string
  readonly statementTimeoutMs: number
}

interface ReaderOptions extends ReaderStoreOptions {
  readonly url: string
}

const option = named('store.url', 'SVC_RELATIONAL_URL')
/** Of a statement of `check`: a table may be locked. */
const checkMsMax = 5_000

/** Tables of the schema `sluice`, but for the months of records. The server's messages do not name the schema; all other tables belong to formats. */
const ownTables: ReadonlySet<string> = new Set([
  'channels',
  'dictionary',
  'erasures',
  'formats',
  'logs',
  'migrations',
  'offsets',
  'records',
  'replayed',
  'series',
])

/** As docs/stores/postgres.md lists them. */
function writerTableRights(table: string): string {
  if (table === 'messages') return 'SELECT ON public.messages'
  return ownTables.has(table) ? 'SELECT, INSERT, UPDATE ON ALL TABLES IN SCHEMA sluice' : 'SELECT, INSERT ON ALL TABLES IN SCHEMA formats'
}

/** As readers/postgres/README.md lists them. */
function readerTableRights(table: string): string {
  return ownTables.has(table)
    ? 'SELECT ON sluice.channels, sluice.series, sluice.records, sluice.formats'
    : 'SELECT ON ALL TABLES IN SCHEMA formats'
}

const writerUser = (url: string): DatabaseUser => ({ option, url, schemaRights: 'USAGE, CREATE', tableRights: writerTableRights })

/** @throws DatabaseError (42501) for a table that a writer may not use */
async function checkWritable(database: Database): Promise<void> {
  await checkTableRights(database, 'sluice', ['SELECT', 'INSERT', 'UPDATE'], ['channels', 'dictionary', 'logs', 'offsets', 'series'])
  await checkTableRights(database, 'sluice', ['SELECT', 'INSERT'], ['formats', 'records'])
}

/** Replaces permanent errors of the server with a SystemicError that says what to do; rethrows any other error. */
async function asked<Answer>(answer: Promise<Answer>, user: DatabaseUser): Promise<Answer> {
  try {
    return await answer
  } catch (error) {
    if (!(error instanceof DatabaseError) || error.transient) throw error
    throw new SinkError('systemic', refusalSentence(error, user), { cause: error })
  }
}

export const relational: StoreKind<WriterOptions, ReaderOptions> = {
  name: 'relational',
  keepsPositions: true,
  takesFlat: false,

  async open(options, writer) {
    const { openServer } = await import('../../database/server.ts')
    const { classify } = await import('../../sinks/postgres/errors.ts')
    const database = await openServer({
      url: options.url,
      applicationName: `sluice-writer-${writer}`,
      connectionsMax: 3,
      statementTimeoutMs: options.statementTimeoutMs,
      lockTimeoutMs: options.lockTimeoutMs,
    })
    const user = writerUser(options.url)
    return {
      // Loaded when it is used: a worker does not maintain, and the main thread does not write.
      async openSink(logs, onNotice) {
        const { openSink } = await import('../../sinks/postgres/sink.ts')
        const sink = await asked(openSink({ database, options, onNotice, logs }), user)
        await asked(checkWritable(database), user)
        const write: typeof sink.write = (...batch) => asked(sink.write(...batch), user)
        return { ...sink, write, positions: of => asked(sink.positions!(of), user) }
      },
      classify,
      async maintain() {
        const { maintain } = await import('../../sinks/postgres/schema.ts')
        await maintain(database, options)
      },
      close: () => database.close(),
    }
  },

  async check({ url }, writer, logs, warn) {
    const { openServer } = await import('../../database/server.ts')
    const { readLogs } = await import('../../sinks/postgres/registry.ts')
    const { checkStore } = await import('../../sinks/postgres/schema.ts')
    const applicationName = `sluice-check-${writer}`
    const database = await openServer({ url, applicationName, connectionsMax: 1, statementTimeoutMs: checkMsMax })
    try {
      const look = async (): Promise<string> => {
        const server = await checkServer(database, warn)
        await checkMayCreate(database, 'sluice')
        await checkStore(database)
        await checkWritable(database)
        checkLogs(await readLogs(database), logs)
        return server
      }
      return await asked(look(), writerUser(url))
    } finally {
      await database.close()
    }
  },
  classifier: async () => (await import('../../sinks/postgres/errors.ts')).classify,

  async openReader({ url, queryTimeoutMs, connectionsMax }) {
    const { openServer } = await import('../../database/server.ts')
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
    // Health checks have their own connection: waiting behind slow queries would look like an outage.
    const checks = await openServer({ url, applicationName: 'sluice-reader-check', connectionsMax: 1, statementTimeoutMs: queryTimeoutMs })
    const checked = openPostgresReader({ database: checks })
    const user: DatabaseUser = { option, url, schemaRights: 'USAGE', tableRights: readerTableRights }
    const connections = { close: async () => void (await Promise.all([database.close(), checks.close()])) }
    return closingBehind({ ...reader, check: () => asked(checked.check(), user) }, connections)
  },

  queriesAtOnce: ({ connectionsMax }) => connectionsMax,

  async openAudit({ url }) {
    const { openServer } = await import('../../database/server.ts')
    const { openAudit } = await import('../../sinks/postgres/audit.ts')
    // No statement timeout: reading all rows in order may take arbitrarily long.
    const database = await openServer({ url, applicationName: 'sluice-audit', connectionsMax: 2 })
    return { ...openAudit(database), close: () => database.close() }
  },

  async openErasure({ url }) {
    const { openServer } = await import('../../database/server.ts')
    const { openErasure } = await import('../../sinks/postgres/erase.ts')
    const database = await openServer({ url, applicationName: 'sluice-erase', connectionsMax: 1 })
    const rights = 'SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA sluice, formats'
    const user: DatabaseUser = { option, url, schemaRights: 'USAGE', tableRights: () => rights }
    const erasure = openErasure(database)
    return {
      count: (...given) => asked(erasure.count(...given), user),
      erase: (...given) => asked(erasure.erase(...given), user),
      note: given => asked(erasure.note(given), user),
      close: () => database.close(),
    }
  },

  async freeLog({ url, lockTimeoutMs }, number, isIdle) {
    const { openServer } = await import('../../database/server.ts')
    const { freeLog } = await import('../../sinks/postgres/registry.ts')
    const database = await openServer({ url, applicationName: 'sluice-logs', connectionsMax: 1, lockTimeoutMs })
    const user: DatabaseUser = { option, url, schemaRights: 'USAGE', tableRights: () => 'SELECT, DELETE ON ALL TABLES IN SCHEMA sluice' }
    try {
      await asked(freeLog(database, number, isIdle), user)
    } finally {
      await database.close()
    }
  },

  async openReplays(options, writer) {
    const { openServer } = await import('../../database/server.ts')
    const { openAudit } = await import('../../sinks/postgres/audit.ts')
    const { openReplaySink } = await import('../../sinks/postgres/sink.ts')
    const { url, statementTimeoutMs } = options
    const database = await openServer({ url, applicationName: `sluice-replay-${writer}`, connectionsMax: 3, statementTimeoutMs })
    const user = writerUser(url)
    return {
      audit: openAudit(database),
      async openSink(logNumber) {
        const sink = await asked(openReplaySink({ database, options, writer, logNumber }), user)
        return { ...sink, write: (...batch) => asked(sink.write(...batch), user) }
      },
      close: () => database.close(),
    }
  },
}
