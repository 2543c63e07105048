// A PostgreSQL store with the sink's schema, and a reader over it.

import { expect } from 'vitest'
import type { Database } from '../../../database/database.ts'
import { openPostgresReader, type PostgresReaderParts } from '../../../readers/postgres/reader.ts'
import { openSink } from '../../../sinks/postgres/sink.ts'
import type { ReaderSite } from '../../conformance/reader/index.ts'
import { withNumbers } from '../../conformance/sink/fixture.ts'
import { openFreshEmbedded } from '../../servers/embedded.ts'
import { options } from '../../sinks/postgres/store.ts'

export interface PostgresSite extends ReaderSite {
  readonly database: Database
}

const signal = new AbortController().signal

/** Of the reader, and of the writer. */
type Parts = Partial<PostgresReaderParts> & { readonly seriesPerChannelMax?: number }

/** @param closed what remains to be done when the database is closed */
export async function openSite(
  database: Database,
  closed: () => Promise<unknown>,
  { seriesPerChannelMax = 100_000, ...parts }: Parts = {},
): Promise<PostgresSite> {
  const sink = await withNumbers(
    openSink({
      database,
      options: { ...options, seriesPerChannelMax },
      logs: [{ logName: 'messages', logId: 'log-1', writer: 'relational' }],
    }),
  )
  const reader = openPostgresReader({ database, ...parts })
  return {
    database,
    reader,
    async store(batch) {
      const refuse = async (rejections: unknown): Promise<void> => expect(rejections).toEqual([])
      await sink.write(sink.encode(batch), refuse, signal)
    },
    async names() {
      const rows = await database.query<{ name: string }>(
        "SELECT oid::regclass::text AS name FROM pg_class WHERE relkind IN ('r', 'p') ORDER BY 1",
      )
      return rows.map(row => row.name)
    },
    async close() {
      await reader.close()
      await sink.close()
      await database.close()
      await closed()
    },
  }
}

export async function openEmbeddedSite(parts?: Parts): Promise<PostgresSite> {
  return await openSite(await openFreshEmbedded(), async () => undefined, parts)
}
