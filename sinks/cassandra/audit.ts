// The audit of a Cassandra store: lists the rows of a log in the order of positions. No key begins with the position, so it reads all tables.

import { senmlFormat } from '../../transformers/record-batch.ts'
import { unitsDown } from '../../transformers/time-units.ts'
import type { StoreAudit, Whereabouts } from '../audit.ts'
import { storedPayload, textOf } from '../contents.ts'
import { openScanAudit } from '../scan-audit.ts'
import { packedPosition } from '../sink.ts'
import type { Connection, Row } from './connection.ts'
import { dateBytes } from './day-registry.ts'
import { isSchemaFault } from './errors.ts'
import type { SinkOptions } from './options.ts'
import { readLogs } from './registry.ts'
import { erasuresTable, physicalName } from './schema.ts'

const dayUs = 86_400_000_000
/** Fewer than of keys alone, since a row may have a payload of 256 KiB. */
const pageRows = 200

const keyColumns = 'position, "index"'
const originColumns = `${keyColumns}, channel, day, subtopic, publisher, protocol`
const recordColumns = `${originColumns}, name, unit, time_us, value, string_value, bool_value, data_value, sum, update_time`
const documentColumns = `${originColumns}, created, payload`

interface StoredRow {
  readonly format: string
  readonly columns: Row
}

/** @param connection the caller closes it */
export function openAudit(connection: Connection, { bucketDays }: SinkOptions): StoreAudit {
  /** The bucket of the row before: most rows are of the same one. */
  let bucket = { day: Number.NaN, text: '' }

  /** The tables that exist: a format's table may have been dropped. */
  async function tables(): Promise<{ format: string; table: string }[]> {
    const there = new Set<string>()
    const all = 'SELECT table_name FROM system_schema.tables WHERE keyspace_name = ?'
    for await (const rows of connection.pages(all, [connection.keyspace])) for (const row of rows) there.add(row['table_name'] as string)
    const found = [{ format: senmlFormat, table: senmlFormat }]
    for await (const rows of connection.pages(`SELECT format, table_name FROM ${connection.table('sluice_formats')}`)) {
      for (const row of rows) {
        const [format, table] = [row['format'] as string, row['table_name'] as string]
        if (there.has(table)) found.push({ format, table })
      }
    }
    return found
  }

  return openScanAudit<StoredRow>({
    logs: () => readLogs(connection),

    async erasures() {
      const rows = await connection.query(`SELECT erasure FROM ${connection.table(erasuresTable.name)}`)
      return rows.map(row => row['erasure'] as string)
    },

    async scan(add, _ranges, contents) {
      for (const { format, table } of await tables()) {
        const columns = contents ? (format === senmlFormat ? recordColumns : documentColumns) : keyColumns
        const select = `SELECT ${columns} FROM ${connection.table(table)}`
        for await (const rows of connection.pages(select, [], contents ? { fetchSize: pageRows } : {})) {
          for (const row of rows) add(row['position'] as bigint, row['index'] as number, { format, columns: row })
        }
      }
    },

    textOf({ format, columns }) {
      if (format === senmlFormat) {
        const timeUs = columns['time_us'] as bigint
        return textOf(format, { ...columns, time: inBucket(timeUs, timeUs, columns['day']) })
      }
      const created = columns['created'] as bigint
      const payload = storedPayload(String(columns['payload']))
      return textOf(format, {
        ...columns,
        created: inBucket(created, unitsDown(created, 1000n), columns['day']),
        payload,
      })
    },

    async replayed(log, partition, from, to) {
      const first = packedPosition(log, partition, from)
      const found = new Set<number>()
      for await (const rows of connection.pages(`SELECT position FROM ${connection.table('sluice_replayed')}`)) {
        for (const row of rows) {
          const distance = (row['position'] as bigint) - first
          if (distance >= 0n && distance < to - from) found.add(from + Number(distance))
        }
      }
      return found
    },

    async rowsOf(log, partition, offset, { channel, format, earliestUs, latestUs }: Whereabouts) {
      const position = packedPosition(log, partition, offset)
      const scale = format === senmlFormat ? 1n : 1000n
      const [column, table] = format === senmlFormat ? ['time_us', senmlFormat] : ['created', physicalName(format)]
      const earliest = BigInt(earliestUs) * scale
      const latest = BigInt(latestUs) * scale + (scale - 1n)
      const days = `SELECT day FROM ${connection.table('sluice_channel_days')} WHERE channel = ? AND format = ? AND day >= ? AND day <= ?`
      const count = `SELECT count(*) AS rows FROM ${connection.table(table)}
        WHERE channel = ? AND day = ? AND ${column} >= ? AND ${column} <= ? AND position = ? ALLOW FILTERING`
      let rows = 0
      try {
        for await (const page of connection.pages(days, [channel, format, bucketOf(earliestUs), bucketOf(latestUs)])) {
          for (const { day } of page) {
            const [found] = await connection.query(count, [channel, day, earliest, latest, position], {
              consistency: connection.levels.rows,
            })
            rows += Number(found?.['rows'] ?? 0)
          }
        }
      } catch (error) {
        // The table of a format was dropped, and has no rows.
        if (format === senmlFormat || !isSchemaFault(error)) throw error
      }
      return rows
    },

    statementOf(log, partition, offset, { channel, format, earliestUs, latestUs }) {
      // A statement reads one day, and cqlsh has no escapes.
      if (dayOf(earliestUs) !== dayOf(latestUs) || /\p{C}/u.test(channel)) return undefined
      const [table, times] =
        format === senmlFormat
          ? [senmlFormat, `time_us >= ${earliestUs} AND time_us <= ${latestUs}`]
          : [physicalName(format), `created >= ${earliestUs}000 AND created <= ${latestUs}999`]
      const day = new Date(dayOf(earliestUs) * 86_400_000).toISOString().slice(0, 10)
      const partitionKey = `channel = '${channel.replaceAll("'", "''")}' AND day = '${day}'`
      return `SELECT * FROM ${connection.table(table)} WHERE ${partitionKey} AND ${times} AND position = ${packedPosition(log, partition, offset)} ALLOW FILTERING;`
    },
  })

  /** The first day of the bucket, since 1970. */
  function dayOf(timeUs: number): number {
    return Math.floor(Math.floor(timeUs / dayUs) / bucketDays) * bucketDays
  }

  function bucketOf(timeUs: number): Buffer {
    return dateBytes(dayOf(timeUs))
  }

  /** A time as it is compared: readers do not find a row that stands in the bucket of another day. */
  function inBucket(time: bigint, timeUs: bigint, day: unknown): bigint | string {
    const first = dayOf(Number(timeUs))
    if (first !== bucket.day) bucket = { day: first, text: new Date(first * 86_400_000).toISOString().slice(0, 10) }
    return String(day) === bucket.text ? time : `${time} on the day ${String(day)}`
  }
}
