// An empty PostgreSQL store for the tests of the sink, over a database of either kind.

import type { Database } from '../../../database/database.ts'
import { openAudit } from '../../../sinks/postgres/audit.ts'
import { openErasure } from '../../../sinks/postgres/erase.ts'
import { firstPartitions, formatTable, type MonthlyTable } from '../../../sinks/postgres/months.ts'
import type { SinkOptions } from '../../../sinks/postgres/options.ts'
import { physicalName, tableOf, tableStatements } from '../../../sinks/postgres/registry.ts'
import { maintain } from '../../../sinks/postgres/schema.ts'
import { openReplaySink, openSink } from '../../../sinks/postgres/sink.ts'
import type { JsonObject } from '../../../transformers/record-batch.ts'
import { logsOf, withNumbers } from '../../conformance/sink/fixture.ts'
import type { SinkStore, StoredRow } from '../../conformance/sink/index.ts'

export const options: SinkOptions = {
  formatsMax: 1000,
  formatsPerChannelMax: 32,
  lockTimeoutMs: 10_000,
  retentionMonths: 0,
  seriesPerChannelMax: 100_000,
  seriesCacheBytes: 32 * 1024 * 1024,
}

/** The columns of `public.messages`, in their order. */
export const messageColumns =
  'time, channel, subtopic, publisher, protocol, name, unit, value, string_value, bool_value, data_value, sum, update_time, position, index'

/** @param close lets go of the database */
export function storeOn(
  database: Database,
  close: () => Promise<void>,
  formatsMax = options.formatsMax,
): Omit<SinkStore, 'readableDuringWrite'> {
  const limits = { ...options, formatsMax: formatsMax }
  return {
    open: (identity = {}) => withNumbers(openSink({ database, options: limits, logs: logsOf(identity) }), identity),
    replays: {
      audit: openAudit(database),
      openSink: logNumber => openReplaySink({ database, options: limits, writer: 'writer-1', logNumber }),
    },
    erasure: openErasure(database),
    maintain: (retention, now) => maintain(database, { ...retention, now }),
    rows: () => rowsOf(database),
    poisons: {
      'a NUL in a name': offset => ({ offset, records: [{ value: 1 }, { name: 'n\0', value: 2 }] }),
      'a NUL in a text': offset => ({ offset, records: [{ value: 1 }, { stringValue: 'a\0b' }] }),
      'half a surrogate pair in a document': offset => ({
        offset,
        documents: [
          { format: 'engine', payload: { a: 1 } },
          { format: 'engine', payload: { a: '\ud800' } },
        ],
      }),
      'a NUL in a document': offset => ({
        offset,
        documents: [
          { format: 'engine', payload: { a: 1 } },
          { format: 'engine', payload: { 'a\0': 1 } },
        ],
      }),
    },
    formatsMax,
    formatsPerChannelMax: options.formatsPerChannelMax,
    close,
  }
}

/** Creates and registers a format whose only months are those around January 2001: rows of other times go to the default partition. */
export async function addFormat(database: Database, format: string): Promise<MonthlyTable> {
  const [added] = await database.query<{ id: number }>(
    'INSERT INTO sluice.formats (format, table_name, channel) VALUES ($1, $2, $3) RETURNING id',
    [format, physicalName(format), 'c'],
  )
  const table = formatTable(tableOf(format), `format_${added!.id}`)
  await database.execute(tableStatements(physicalName(format)) + firstPartitions(table, { now: new Date('2001-01-15T00:00:00Z') }))
  return table
}

/** Empties a database that is used again; the schema stays, since creating it takes longer than most tests. */
export async function emptyDatabase(database: Database): Promise<void> {
  const [found] = await database.query<{ made: boolean }>(`SELECT to_regclass('sluice.offsets') IS NOT NULL AS made`)
  if (found?.made !== true) return
  const formats = await database.query<{ name: string }>(`DELETE FROM sluice.formats RETURNING format('formats.%I', table_name) AS name`)
  // Each has about forty locks with its partitions, and the server's lock table is bounded.
  for (let start = 0; start < formats.length; start += 50) {
    const some = formats.slice(start, start + 50).map(({ name }) => name)
    await database.execute(`DROP TABLE IF EXISTS ${some.join(', ')}`)
  }
  if (formats.length > 0) await database.execute('DROP SCHEMA formats CASCADE; CREATE SCHEMA formats')
  await database.execute(
    'DELETE FROM sluice.records; DELETE FROM sluice.series; DELETE FROM sluice.channels; DELETE FROM sluice.offsets; DELETE FROM sluice.replayed; DELETE FROM sluice.logs; DELETE FROM sluice.erasures',
  )
}

async function rowsOf(database: Database): Promise<StoredRow[]> {
  const rows: StoredRow[] = []
  const columns = messageColumns.replace('time,', '(extract(epoch FROM time) * 1000000)::bigint AS time_us,')
  for (const row of await database.query(`SELECT ${columns} FROM public.messages`)) {
    rows.push({
      table: 'messages',
      ...originOf(row),
      name: row['name'] as string,
      unit: (row['unit'] ?? undefined) as string | undefined,
      timeUs: Number(row['time_us']),
      value: (row['value'] ?? undefined) as number | undefined,
      stringValue: (row['string_value'] ?? undefined) as string | undefined,
      boolValue: (row['bool_value'] ?? undefined) as boolean | undefined,
      dataValue: row['data_value'] === null ? undefined : new Uint8Array(row['data_value'] as Uint8Array),
      sum: (row['sum'] ?? undefined) as number | undefined,
      updateTime: (row['update_time'] ?? undefined) as number | undefined,
    })
  }
  const formats = await database.query<{ format: string; table_name: string }>('SELECT format, table_name FROM sluice.formats')
  for (let start = 0; start < formats.length; start += 50) {
    const some = formats.slice(start, start + 50)
    const selects = some.map(({ table_name }, at) => `SELECT ${start + at} AS nth, formats."${table_name}".* FROM formats."${table_name}"`)
    for (const row of await database.query(selects.join(' UNION ALL '))) {
      rows.push({
        table: formats[row['nth'] as number]!.format,
        ...originOf(row),
        createdNs: row['created'] as bigint,
        payload: withBigints(row['payload'] as string),
      })
    }
  }
  return rows.sort((one, other) => (one.position === other.position ? one.index - other.index : one.position < other.position ? -1 : 1))
}

function originOf(row: Readonly<Record<string, unknown>>) {
  return {
    channel: row['channel'] as string,
    subtopic: row['subtopic'] as string,
    publisher: row['publisher'] as string,
    protocol: row['protocol'] as string,
    position: row['position'] as bigint,
    index: row['index'] as number,
  }
}

function withBigints(text: string): JsonObject {
  const revive = (_key: string, value: unknown, context?: { source?: string }) =>
    typeof value === 'number' && !Number.isSafeInteger(value) && /^-?\d+$/.test(context?.source ?? '') ? BigInt(context!.source!) : value
  return JSON.parse(text, revive) as JsonObject
}
