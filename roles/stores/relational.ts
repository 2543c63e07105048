// The relational store of a writer: a PostgreSQL server.

import { openServer } from '../config/postgres/server.ts'
import { maintain } from '../sinks/postgres/schema.ts'
import { classify, openSink } from '../sinks/postgres/sink.ts'
import type { RelationalOptions } from './relational-options.ts'
import type { Store } from './stores.ts'

export async function openRelationalStore(options: RelationalOptions, writer: string): Promise<Store> {
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
}
