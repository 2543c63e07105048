// Deletes the partitions of days that are no longer kept: whole ones, each by one tombstone.
//
// Not by a time to live, which counts from the write: a row that comes late would outlive the others of its day. Everything is deleted as of one
// instant, so that rows that come later, and their days, stay until the next time.

import type { Connection } from './connection.ts'
import { oldestKeptDay } from './days.ts'
import { isSchemaFault } from './errors.ts'
import type { SinkOptions } from './options.ts'
import { quoted } from './statements.ts'

const dayMs = 86_400_000

export interface RetentionClock {
  /** Milliseconds since 1970. */
  readonly nowMs?: number
}

export async function deleteOldDays(
  connection: Connection,
  { retentionDays, bucketDays }: SinkOptions,
  { nowMs = Date.now() }: RetentionClock = {},
): Promise<void> {
  // A bucket goes when all of its days are old.
  const before = dateOf(oldestKeptDay(nowMs, retentionDays) - bucketDays + 1)
  const { channelDays, publisherDays, formats } = tablesIn(connection)
  const options = { consistency: connection.levels.rows, timestamp: nowMs * 1000 }
  const names = new Map<string, string>([['messages', connection.table('messages')]])
  for await (const rows of connection.pages(`SELECT format, table_name FROM ${formats}`)) {
    for (const row of rows) names.set(row['format'] as string, connection.table(row['table_name'] as string))
  }
  // The oldest day of each channel stands first: those that are young enough cost one row.
  const oldest = `SELECT channel, format, day FROM ${channelDays} PER PARTITION LIMIT 1`
  for await (const rows of connection.pages(oldest)) {
    for (const { channel, format, day } of rows) {
      if (String(day) >= before) continue
      const table = names.get(format as string)
      const days = connection.pages(`SELECT day FROM ${channelDays} WHERE channel = ? AND format = ? AND day < ?`, [
        channel,
        format,
        before,
      ])
      for await (const some of days) {
        for (const { day } of some) if (table !== undefined) await deletePartition(connection, table, channel, day, options)
      }
      // After the rows: a day that has rows is always listed.
      await connection.query(`DELETE FROM ${channelDays} WHERE channel = ? AND format = ? AND day < ?`, [channel, format, before], options)
    }
  }
  await deletePublisherDays(connection, publisherDays, before, options)
}

async function deletePartition(
  connection: Connection,
  table: string,
  channel: unknown,
  day: unknown,
  options: { consistency: number; timestamp: number },
): Promise<void> {
  try {
    await connection.query(`DELETE FROM ${table} WHERE channel = ? AND day = ?`, [channel, day], options)
  } catch (error) {
    // A format's table that an operator dropped has nothing to delete.
    if (!isSchemaFault(error)) throw error
  }
}

async function deletePublisherDays(
  connection: Connection,
  table: string,
  before: string,
  options: { consistency: number; timestamp: number },
): Promise<void> {
  const remove = `DELETE FROM ${table} WHERE channel = ? AND publisher = ? AND format = ? AND day < ?`
  let last = ''
  for await (const rows of connection.pages(`SELECT channel, publisher, format, day FROM ${table}`)) {
    for (const { channel, publisher, format, day } of rows) {
      if (String(day) >= before) continue
      const key = JSON.stringify([channel, publisher, format])
      if (key === last) continue
      last = key
      await connection.query(remove, [channel, publisher, format, before], options)
    }
  }
}

function tablesIn(connection: Connection): { channelDays: string; publisherDays: string; formats: string } {
  return {
    channelDays: connection.table('sluice_channel_days'),
    publisherDays: connection.table('sluice_publisher_days'),
    formats: `${quoted(connection.keyspace)}.${quoted('sluice_formats')}`,
  }
}

/** `2026-03-01` */
function dateOf(day: number): string {
  return new Date(day * dayMs).toISOString().slice(0, 10)
}
