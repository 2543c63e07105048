// The audit of a PostgreSQL store: lists the rows of a log in the order of positions, for which there is no index.
//
// So a server sorts them, on disk if necessary, and returns them through a cursor, a page at a time, in one transaction that lasts as long as the
// comparison. The embedded database runs one transaction at a time and has to serve others, so it is queried by small ranges, each of which reads its
// tables: good enough for the sizes it is made for.

import type { Database } from '../../database/database.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import type { AuditedLog, AuditedMessage, AuditedPartition, StoreAudit, Whereabouts } from '../audit.ts'
import { packedPosition } from '../sink.ts'
import { hasRows, physicalName, quoted, readLogs, rowTables, tableExists } from './registry.ts'

const pageRows = 5_000
const embeddedRangeOffsets = 50_000

/** @param database the caller closes it; opened without a statement timeout where it is a server, since a sort may take long */
export function openAudit(database: Database): StoreAudit {
  async function* inRanges(
    tables: readonly string[],
    log: number,
    partition: number,
    from: number,
    to: number,
  ): AsyncGenerator<AuditedMessage> {
    for (let start = from; start < to; start += embeddedRangeOffsets) {
      const end = Math.min(start + embeddedRangeOffsets, to)
      const rows = await database.query<MessageRow>(
        messagesSql(tables, packedPosition(log, partition, start), packedPosition(log, partition, end)),
      )
      yield* rows.map(messageOf)
    }
  }

  return {
    async logs() {
      const logs = await readLogs(database)
      const partitions = await database.query<PartitionRow>('SELECT * FROM sluice.offsets ORDER BY partition')
      return logs.map((log): AuditedLog => {
        const own = partitions.filter(row => row.log === log.number && row.writer === log.writer)
        return { ...log, partitions: new Map(own.map(row => [row.partition, partitionOf(row)])) }
      })
    },

    async *messages(log, partition, from, to) {
      const all = await rowTables(database)
      if (database.kind === 'embedded') yield* inRanges(all, log, partition, from, to)
      else yield* byCursor(database, messagesSql(all, packedPosition(log, partition, from), packedPosition(log, partition, to)))
    },

    hasRows: log => hasRows(database, log),

    async rowsOf(log, partition, offset, { channel, format, earliestUs, latestUs }: Whereabouts) {
      const position = packedPosition(log, partition, offset)
      if (format === senmlFormat) {
        const sql = `SELECT count(*) AS rows FROM public.messages WHERE channel = $1 AND position = $2
          AND time BETWEEN timestamptz 'epoch' + $3 * interval '1 microsecond' AND timestamptz 'epoch' + $4 * interval '1 microsecond'`
        return countOf(await database.query(sql, [channel, position, earliestUs, latestUs]))
      }
      const sqlOfTable = `SELECT table_name FROM sluice.formats WHERE format = $1 AND ${tableExists}`
      const [table] = await database.query<{ table_name: string }>(sqlOfTable, [format])
      if (table === undefined) return 0
      const sql = `SELECT count(*) AS rows FROM ${quoted(table.table_name)}
        WHERE channel = $1 AND position = $2 AND created BETWEEN $3 AND $4`
      return countOf(await database.query(sql, [channel, position, BigInt(earliestUs) * 1000n, BigInt(latestUs) * 1000n + 999n]))
    },

    statementOf(log, partition, offset, { channel, format, earliestUs, latestUs }) {
      const [table, times] =
        format === senmlFormat
          ? ['public.messages', `time BETWEEN '${isoTime(earliestUs)}' AND '${isoTime(latestUs)}'`]
          : [quoted(physicalName(format)), `created BETWEEN ${earliestUs}000 AND ${latestUs}999`]
      return `SELECT * FROM ${table} WHERE channel = ${literal(channel)} AND ${times} AND position = ${packedPosition(log, partition, offset)};`
    },
  }
}

/** As people read it, to the microsecond. */
function isoTime(us: number): string {
  const ms = Math.floor(us / 1000)
  return new Date(ms).toISOString().replace('Z', `${String(us - ms * 1000).padStart(3, '0')}Z`)
}

const unprintable = /[\p{C}\p{Zl}\p{Zp}]/u

/** A text as it is typed, on one line: control characters are escaped. */
function literal(text: string): string {
  const doubled = text.replaceAll("'", "''")
  if (!unprintable.test(text) && !text.includes('\\')) return `'${doubled}'`
  return `E'${doubled.replaceAll('\\', '\\\\').replace(new RegExp(unprintable, 'gu'), character => `\\U${character.codePointAt(0)!.toString(16).padStart(8, '0')}`)}'`
}

/** A message's rows are in one table, but the statement would also find them in several. The positions are literals, since a cursor takes no parameters. */
function messagesSql(tables: readonly string[], from: bigint, to: bigint): string {
  const rows = tables.map(table => `SELECT position, index FROM ${table} WHERE position >= ${from} AND position < ${to}`)
  return `
    SELECT found.position, found.rows, found.doubled, replayed.position IS NOT NULL AS replayed
    FROM (
      SELECT position, sum(times)::bigint AS rows, sum(times - 1)::bigint AS doubled
      FROM (SELECT position, index, count(*) AS times FROM (${rows.join(' UNION ALL ')}) AS every GROUP BY position, index) AS each
      GROUP BY position
    ) AS found
    LEFT JOIN sluice.replayed ON replayed.position = found.position
    ORDER BY found.position`
}

/** Yields page after page from one transaction, which ends with the last page or when the caller stops. */
async function* byCursor(database: Database, sql: string): AsyncGenerator<AuditedMessage> {
  const { readable, writable } = new TransformStream<MessageRow[], MessageRow[]>()
  const pages = writable.getWriter()
  const reading = database.transaction(async transaction => {
    await transaction.execute(`DECLARE audited NO SCROLL CURSOR FOR ${sql}`)
    for (;;) {
      const rows = await transaction.query<MessageRow>(`FETCH ${pageRows} FROM audited`)
      if (rows.length === 0) return
      // Rejects if the caller has stopped.
      await pages.write(rows)
    }
  })
  const ended = reading
    .then(
      () => pages.close(),
      error => pages.abort(error),
    )
    // The caller has stopped, so there is nothing to close.
    .catch(() => undefined)
  try {
    for await (const rows of readable) yield* rows.map(messageOf)
  } finally {
    await ended
  }
}

type PartitionRow = Record<string, number | string | bigint> & {
  writer: string
  log: number
  partition: number
} & Readonly<
    Record<'next_offset' | 'received' | 'stored' | 'empty' | 'filtered' | 'skipped' | 'duplicate' | 'dead_lettered' | 'lost', bigint>
  >
type MessageRow = Record<string, bigint | boolean> & { position: bigint; rows: bigint; doubled: bigint; replayed: boolean }

function partitionOf(row: PartitionRow): AuditedPartition {
  return {
    nextOffset: Number(row.next_offset),
    received: Number(row.received),
    stored: Number(row.stored),
    empty: Number(row.empty),
    filtered: Number(row.filtered),
    skipped: Number(row.skipped),
    duplicate: Number(row.duplicate),
    deadLettered: Number(row.dead_lettered),
    lost: Number(row.lost),
  }
}

function messageOf({ position, rows, doubled, replayed }: MessageRow): AuditedMessage {
  return { offset: Number(position & 0xfff_ffff_ffffn), rows: Number(rows), doubled: Number(doubled), replayed }
}

function countOf(rows: readonly Record<string, unknown>[]): number {
  return Number(rows[0]?.['rows'] ?? 0)
}
