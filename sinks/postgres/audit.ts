// The audit of a PostgreSQL store: what its tables hold of a log, in the order of positions, which no index has.
//
// So a server sorts, on its disk where it must, and hands the rows out through a cursor, a page at a time; that is one transaction for
// as long as the comparison takes. The embedded database runs one transaction at a time and has others to serve, so it is asked for small
// ranges, each of which reads its tables: right for the sizes that it is made for.

import type { Database, Queries } from '../../config/postgres/database.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import type { AuditedLog, AuditedMessage, AuditedPartition, StoreAudit, Whereabouts } from '../audit.ts'
import { positionHigh, positionLow } from '../sink.ts'

const pageRows = 5_000
const embeddedRangeOffsets = 50_000
/** A registered format whose table was dropped has no rows until it gets the table anew. */
const isThere = `to_regclass(format('formats.%I', table_name)) IS NOT NULL`

/** @param database stays the caller's; one that is a server's is opened without a statement timeout, since a sort may take its time */
export function openAudit(database: Database): StoreAudit {
  async function tables(): Promise<string[]> {
    const formats = await database.query<{ table_name: string }>(
      `SELECT table_name FROM sluice.formats WHERE ${isThere} ORDER BY table_name`,
    )
    return ['public.messages', ...formats.map(({ table_name }) => `formats.${quoted(table_name)}`)]
  }

  async function* inRanges(
    tables: readonly string[],
    log: number,
    partition: number,
    from: number,
    to: number,
  ): AsyncGenerator<AuditedMessage> {
    for (let start = from; start < to; start += embeddedRangeOffsets) {
      const end = Math.min(start + embeddedRangeOffsets, to)
      const rows = await database.query<MessageRow>(messagesSql(tables, packed(log, partition, start), packed(log, partition, end)))
      yield* rows.map(messageOf)
    }
  }

  return {
    async logs() {
      const rows = await database.query<LogRow>('SELECT number, name, id, writer FROM sluice.logs ORDER BY accepted_at DESC, number DESC')
      const partitions = await database.query<PartitionRow>('SELECT * FROM sluice.offsets ORDER BY partition')
      return rows.map(({ number, name, id, writer }): AuditedLog => {
        const own = partitions.filter(row => row.log === number && row.writer === writer)
        return { number, name, id, writer, partitions: new Map(own.map(row => [row.partition, partitionOf(row)])) }
      })
    },

    async *messages(log, partition, from, to) {
      const all = await tables()
      if (database.kind === 'embedded') yield* inRanges(all, log, partition, from, to)
      else yield* byCursor(database, messagesSql(all, packed(log, partition, from), packed(log, partition, to)))
    },

    async rowsOf(log, partition, offset, { channel, format, earliestUs, latestUs }: Whereabouts) {
      const position = packed(log, partition, offset)
      if (channel.includes('\0')) return 0
      if (format === senmlFormat) {
        const sql = `SELECT count(*) AS rows FROM public.messages WHERE channel = $1 AND position = $2
          AND time BETWEEN timestamptz 'epoch' + $3 * interval '1 microsecond' AND timestamptz 'epoch' + $4 * interval '1 microsecond'`
        return countOf(await database.query(sql, [channel, position, earliestUs, latestUs]))
      }
      if (format.includes('\0')) return 0
      const sqlOfTable = `SELECT table_name FROM sluice.formats WHERE format = $1 AND ${isThere}`
      const [table] = await database.query<{ table_name: string }>(sqlOfTable, [format])
      if (table === undefined) return 0
      const sql = `SELECT count(*) AS rows FROM formats.${quoted(table.table_name)}
        WHERE channel = $1 AND position = $2 AND created BETWEEN $3 AND $4`
      return countOf(await database.query(sql, [channel, position, BigInt(earliestUs) * 1000n, BigInt(latestUs) * 1000n + 999n]))
    },
  }
}

/** Rows of a message lie in one table, and would be found in more. The positions stand in it as they are, since a cursor takes no values. */
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

/** Page after page out of one transaction, which ends with the last page or when the caller does. */
async function* byCursor(database: Database, sql: string): AsyncGenerator<AuditedMessage> {
  const pages = openHandover<MessageRow[]>()
  const reading = database.transaction(async transaction => {
    await transaction.execute(`DECLARE audited NO SCROLL CURSOR FOR ${sql}`)
    for (;;) {
      const rows = await fetchPage(transaction)
      if (rows.length === 0 || !(await pages.give(rows))) return
    }
  })
  reading.then(pages.end, pages.fail)
  try {
    for await (const rows of pages.taken) yield* rows.map(messageOf)
  } finally {
    pages.stop()
    await reading
  }
}

function fetchPage(transaction: Queries): Promise<MessageRow[]> {
  return transaction.query<MessageRow>(`FETCH ${pageRows} FROM audited`)
}

interface Handover<Item> {
  /** Resolves when the item has been worked on and the next one is asked for; false where nobody will. */
  readonly give: (item: Item) => Promise<boolean>
  readonly end: () => void
  readonly fail: (reason: unknown) => void
  readonly stop: () => void
  readonly taken: AsyncIterable<Item>
}

/** From one who gives, inside a transaction, to one who takes: one item at a time. */
function openHandover<Item>(): Handover<Item> {
  let offered = Promise.withResolvers<{ item: Item } | undefined>()
  let asked = Promise.withResolvers<boolean>()
  return {
    give(item) {
      const answer = asked.promise
      offered.resolve({ item })
      return answer
    },
    end: () => offered.resolve(undefined),
    fail(reason) {
      const last = offered
      last.reject(reason)
      // Whoever stopped taking does not wait for it.
      last.promise.catch(() => undefined)
    },
    stop: () => asked.resolve(false),
    taken: {
      async *[Symbol.asyncIterator]() {
        for (;;) {
          const given = await offered.promise
          if (given === undefined) return
          offered = Promise.withResolvers()
          yield given.item
          const before = asked
          asked = Promise.withResolvers()
          before.resolve(true)
        }
      },
    },
  }
}

type LogRow = Record<string, number | string> & { number: number; name: string; id: string; writer: string }
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

function packed(log: number, partition: number, offset: number): bigint {
  return (BigInt(positionHigh(log, partition, offset)) << 32n) | BigInt(positionLow(offset))
}

function countOf(rows: readonly Record<string, unknown>[]): number {
  return Number(rows[0]?.['rows'] ?? 0)
}

function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}
