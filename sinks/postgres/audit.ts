// The audit of a PostgreSQL store: lists the rows of a log in the order of positions, for which there is no index.
//
// So a server sorts them, on disk if necessary, and returns them through a cursor, a page at a time, in one transaction that lasts as long as the
// comparison. The embedded database runs one transaction at a time and has to serve others, so it is queried by small ranges, each of which reads its
// tables: good enough for the sizes it is made for. Rows with all their columns are sorted and read in the same way.

import type { Database, SqlRow } from '../../database/database.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import type { AuditedLog, AuditedMessage, AuditedPartition, PositionRange, StoreAudit, Whereabouts } from '../audit.ts'
import { addDigests, digestOf, storedPayload, textOf } from '../contents.ts'
import { erasuresIn } from '../erasure.ts'
import { packedPosition } from '../sink.ts'
import { hasRows, physicalName, quoted, type RowTable, readLogs, rowTables, tableExists } from './registry.ts'

const pageMessages = 5_000
/** Fewer, since a row may have a payload of 256 KiB. */
const pageRows = 200
const embeddedRangeOffsets = 50_000
/** How much the embedded database returns at once. */
const embeddedRowsBytes = 8 * 1024 * 1024

/** @param database the caller closes it; opened without a statement timeout where it is a server, since a sort may take long */
export function openAudit(database: Database): StoreAudit {
  const isEmbedded = database.kind === 'embedded'

  /** The pages of a query of positions in a range: on a server by one cursor, embedded by one query for each part of the range. */
  async function* pages<Row extends SqlRow>(
    sql: (range: HalfOpenRange) => string,
    range: HalfOpenRange,
    rowsMax: number,
    parts: (range: HalfOpenRange) => AsyncIterable<HalfOpenRange> = parted,
  ): AsyncGenerator<Row[]> {
    if (!isEmbedded) yield* byCursor<Row>(database, sql(range), rowsMax)
    else for await (const part of parts(range)) yield await database.query<Row>(sql(part))
  }

  /** Parts whose rows with all their columns have a bounded size, unless a single message exceeds it. */
  async function* partedBySize(tables: readonly RowTable[], range: HalfOpenRange): AsyncGenerator<HalfOpenRange> {
    for await (const { from, to } of parted(range)) {
      let start = from
      let bytes = 0
      for (const row of await database.query<SizeRow>(sizesSql(tables, { from, to }))) {
        if (bytes > 0 && bytes + Number(row.bytes) > embeddedRowsBytes) {
          yield { from: start, to: row.position }
          start = row.position
          bytes = 0
        }
        bytes += Number(row.bytes)
      }
      yield { from: start, to }
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

    async erasures() {
      const found = await database.query<{ erasure: string }>('SELECT erasure::text AS erasure FROM sluice.erasures')
      return erasuresIn(found.map(({ erasure }) => erasure))
    },

    async *messages(log, partition, from, to, { contents = false } = {}) {
      const all = await rowTables(database)
      const range = { from: packedPosition(log, partition, from), to: packedPosition(log, partition, to) }
      if (contents) {
        const rows = pages<ContentsRow>(
          part => `${contentsSql(all, inRange(part))} ORDER BY every.position, every.index`,
          range,
          pageRows,
          part => partedBySize(all, part),
        )
        yield* digested(all, rows)
        return
      }
      for await (const page of pages<MessageRow>(part => messagesSql(all, part), range, pageMessages)) yield* page.map(messageOf)
    },

    async rows(ranges, contents, each) {
      if (ranges.length === 0) return
      const all = await rowTables(database)
      const [sql, rowsMax] = contents ? [contentsSql, pageRows] : [keysSql, pageMessages]
      for await (const page of isEmbedded ? partByPart() : byCursor<ContentsRow>(database, sql(all, within(ranges)), rowsMax)) {
        for (const row of page) each(row.position, row.index, () => rowTextOf(all, row))
      }

      async function* partByPart(): AsyncGenerator<ContentsRow[]> {
        for (const { first, last } of ranges) {
          const range = { from: first, to: last + 1n }
          for await (const part of contents ? partedBySize(all, range) : parted(range)) yield await database.query(sql(all, inRange(part)))
        }
      }
    },

    async replayed(log, partition, from, to) {
      const range = { from: packedPosition(log, partition, from), to: packedPosition(log, partition, to) }
      const found = await database.query<{ position: bigint }>(`SELECT position FROM sluice.replayed WHERE ${inRange(range)}`)
      return new Set(found.map(({ position }) => offsetOf(position)))
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

/** Packed positions: `[from, to)`. */
interface HalfOpenRange {
  readonly from: bigint
  readonly to: bigint
}

// The positions are literals, since a cursor takes no parameters.

function inRange({ from, to }: HalfOpenRange): string {
  return `position >= ${from} AND position < ${to}`
}

function within(ranges: readonly PositionRange[]): string {
  return `(${ranges.map(({ first, last }) => `position BETWEEN ${first} AND ${last}`).join(' OR ')})`
}

async function* parted({ from, to }: HalfOpenRange): AsyncGenerator<HalfOpenRange> {
  for (let start = from; start < to; start += BigInt(embeddedRangeOffsets)) {
    const end = start + BigInt(embeddedRangeOffsets)
    yield { from: start, to: end < to ? end : to }
  }
}

/** A message's rows are in one table, but the statement would also find them in several. A row without its series is hidden: the view does not show it. */
function messagesSql(tables: readonly RowTable[], range: HalfOpenRange): string {
  const rows = tables.map(({ format, table }) =>
    format === senmlFormat
      ? `SELECT position, index, known.id AS shown FROM ${table} LEFT JOIN sluice.series AS known ON known.id = series WHERE ${inRange(range)}`
      : `SELECT position, index, 0 FROM ${table} WHERE ${inRange(range)}`,
  )
  return `
    SELECT found.position, found.rows, found.hidden, found.doubled, replayed.position IS NOT NULL AS replayed
    FROM (
      SELECT position, sum(times)::bigint AS rows, sum(every_time - times)::bigint AS hidden, sum(greatest(times - 1, 0))::bigint AS doubled
      FROM (
        SELECT position, index, count(*) AS every_time, count(shown) AS times FROM (${rows.join(' UNION ALL ')}) AS every GROUP BY position, index
      ) AS each
      GROUP BY position
    ) AS found
    LEFT JOIN sluice.replayed ON replayed.position = found.position
    ORDER BY found.position`
}

const originColumns = 'position, index, channel, subtopic, publisher, protocol'
/** An infinite time, which only others write, has no microseconds. */
const recordColumns = `${originColumns}, name, unit, CASE WHEN isfinite(time) THEN (extract(epoch FROM time) * 1000000)::bigint END AS time,
  value, string_value, bool_value, data_value, sum, update_time, NULL::bigint AS created, NULL::text AS payload`
const documentColumns = `${originColumns}, NULL::text, NULL::text, NULL::bigint,
  NULL::float8, NULL::text, NULL::boolean, NULL::bytea, NULL::float8, NULL::float8, created, payload::text`

/** All columns of the rows that meet the condition; `nth` is the row's table. */
function contentsSql(tables: readonly RowTable[], condition: string): string {
  const rows = tables.map(
    ({ format, table }, nth) =>
      `SELECT ${nth} AS nth, ${format === senmlFormat ? `${recordColumns} FROM public.messages` : `${documentColumns} FROM ${table}`} WHERE ${condition}`,
  )
  return `
    SELECT every.*, replayed.position IS NOT NULL AS replayed
    FROM (${rows.join(' UNION ALL ')}) AS every
    LEFT JOIN sluice.replayed ON replayed.position = every.position`
}

/** Position and index of the rows that meet the condition. */
function keysSql(tables: readonly RowTable[], condition: string): string {
  return tables
    .map(({ format, table }) => `SELECT position, index FROM ${format === senmlFormat ? 'public.messages' : table} WHERE ${condition}`)
    .join(' UNION ALL ')
}

/** About how many bytes the rows of each message have. */
function sizesSql(tables: readonly RowTable[], range: HalfOpenRange): string {
  const rows = tables.map(({ format, table }) => {
    const own =
      format === senmlFormat
        ? 'coalesce(octet_length(string_value), 0) + coalesce(octet_length(data_value), 0)'
        : 'octet_length(payload::text)'
    return `SELECT position, 500 + octet_length(subtopic) + ${own} AS bytes FROM ${format === senmlFormat ? 'public.messages' : table} WHERE ${inRange(range)}`
  })
  return `SELECT position, sum(bytes)::bigint AS bytes FROM (${rows.join(' UNION ALL ')}) AS every GROUP BY position ORDER BY position`
}

/** @param pages in the order of positions and indexes */
async function* digested(tables: readonly RowTable[], pages: AsyncIterable<ContentsRow[]>): AsyncGenerator<AuditedMessage> {
  let position = -1n
  let index = -1
  let message = { offset: 0, rows: 0, doubled: 0, replayed: false, digest: 0 }
  for await (const page of pages) {
    for (const row of page) {
      if (row.position !== position) {
        if (message.rows > 0) yield message
        message = { offset: offsetOf(row.position), rows: 0, doubled: 0, replayed: row.replayed, digest: 0 }
        position = row.position
        index = -1
      }
      if (row.index === index) message.doubled++
      index = row.index
      message.rows++
      message.digest = addDigests(message.digest, digestOf(rowTextOf(tables, row)))
    }
  }
  if (message.rows > 0) yield message
}

function rowTextOf(tables: readonly RowTable[], row: ContentsRow): string {
  const { format } = tables[row.nth]!
  return textOf(format, row.payload === null ? row : { ...row, payload: storedPayload(row.payload) })
}

/** Yields page after page from one transaction, which ends with the last page or when the caller stops. */
async function* byCursor<Row extends SqlRow>(database: Database, sql: string, rowsMax: number): AsyncGenerator<Row[]> {
  const { readable, writable } = new TransformStream<Row[], Row[]>()
  const pages = writable.getWriter()
  const reading = database.transaction(async transaction => {
    await transaction.execute(`DECLARE audited NO SCROLL CURSOR FOR ${sql}`)
    for (;;) {
      const rows = await transaction.query<Row>(`FETCH ${rowsMax} FROM audited`)
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
    yield* readable
  } finally {
    await ended
  }
}

type PartitionRow = Record<string, number | string | bigint> & {
  writer: string
  log: number
  partition: number
} & Readonly<
    Record<
      'next_offset' | 'received' | 'stored' | 'empty' | 'filtered' | 'skipped' | 'duplicate' | 'dead_lettered' | 'lost' | 'copied_below',
      bigint
    >
  >
type MessageRow = SqlRow & { position: bigint; rows: bigint; hidden: bigint; doubled: bigint; replayed: boolean }
type SizeRow = SqlRow & { position: bigint; bytes: bigint }
type ContentsRow = SqlRow & { nth: number; position: bigint; index: number; payload: string | null; replayed: boolean }

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
    ...(row.copied_below > 0n ? { copiedBelow: Number(row.copied_below) } : {}),
  }
}

function messageOf({ position, rows, hidden, doubled, replayed }: MessageRow): AuditedMessage {
  const message = { offset: offsetOf(position), rows: Number(rows), doubled: Number(doubled), replayed }
  return hidden === 0n ? message : { ...message, hidden: Number(hidden) }
}

function offsetOf(position: bigint): number {
  return Number(position & 0xfff_ffff_ffffn)
}

function countOf(rows: readonly Record<string, unknown>[]): number {
  return Number(rows[0]?.['rows'] ?? 0)
}
