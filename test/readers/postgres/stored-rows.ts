// Rows in a PostgreSQL store without a writer, and where its reader looks for them.

import type { Database } from '../../../database/database.ts'
import type { RecordScope } from '../../../readers/postgres/conditions.ts'
import { selectNumbers } from '../../../readers/postgres/select.ts'
import type { Filter } from '../../../readers/reader.ts'

/**
 * Stores records as a writer does: with the number of their series, or in the rest of the thing if their texts are too long for one.
 *
 * @param columns of `messages`, as in INSERT
 * @param select the rows
 */
export async function insertRecords(database: Database, columns: string, select: string): Promise<void> {
  await database.execute(`
    BEGIN;
    CREATE TEMPORARY TABLE given (LIKE public.messages) ON COMMIT DROP;
    INSERT INTO given (${columns}) ${select};
    INSERT INTO sluice.channels (channel) SELECT DISTINCT channel FROM given ON CONFLICT DO NOTHING;
    CREATE TEMPORARY TABLE numbered ON COMMIT DROP AS
      SELECT given.*, channels.id AS channel_id, octet_length(publisher || subtopic || protocol || name || coalesce(unit, '')) <= 2400 AS is_named
      FROM given JOIN sluice.channels USING (channel);
    INSERT INTO sluice.series (channel, publisher, subtopic, protocol, name, unit)
      SELECT DISTINCT channel_id, publisher, subtopic, protocol, name, unit FROM numbered WHERE is_named ON CONFLICT DO NOTHING;
    INSERT INTO sluice.series (channel, publisher) SELECT DISTINCT channel_id, publisher FROM numbered WHERE NOT is_named ON CONFLICT DO NOTHING;
    INSERT INTO sluice.records (time, position, value, channel, series, index, bool_value, string_value, data_value, sum, update_time)
      SELECT n.time, n.position, n.value, s.channel, s.id, n.index, n.bool_value, n.string_value, n.data_value, n.sum, n.update_time
      FROM numbered AS n JOIN sluice.series AS s ON (s.channel, s.publisher, s.subtopic, s.protocol, s.name, coalesce(s.unit, ''))
        = (n.channel_id, n.publisher, n.subtopic, n.protocol, n.name, coalesce(n.unit, '')) WHERE n.is_named;
    INSERT INTO sluice.records
      (time, position, value, channel, series, index, bool_value, string_value, data_value, sum, update_time, subtopic, protocol, name, unit)
      SELECT n.time, n.position, n.value, s.channel, s.id, n.index, n.bool_value, n.string_value, n.data_value, n.sum, n.update_time, n.subtopic,
        n.protocol, n.name, n.unit
      FROM numbered AS n JOIN sluice.series AS s ON (s.channel, s.publisher) = (n.channel_id, n.publisher) AND s.name IS NULL WHERE NOT n.is_named;
    COMMIT`)
}

/** Where the records of a filter are: in the rows of its series if it names any texts, else in those of the channel. */
export async function scopeOf(database: Database, filter: Filter): Promise<RecordScope> {
  const { sql, values } = selectNumbers(filter, 1e6)
  const [numbers] = await database.query<{ channel: number; series: string | null }>(sql, values)
  return { channel: numbers!.channel, series: numbers!.series === null ? undefined : (JSON.parse(numbers!.series) as number[]) }
}
