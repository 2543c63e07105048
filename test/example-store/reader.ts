// The reader of the example store. The file has no queries: rows are filtered, ordered and grouped by the code that readers share.

import { aggregateRows, byBytes, firstOfEach, pageOfRows } from '../../readers/groups.ts'
import { matcherOf } from '../../readers/matching.ts'
import {
  compareKeys,
  type Filter,
  type FormatsQuery,
  type FoundFormat,
  keyOf,
  noFilters,
  type Reader,
  type Row,
  timeNsOf,
} from '../../readers/reader.ts'
import { senmlFormat } from '../../transformers/record-batch.ts'
import { unitsDown } from '../../transformers/time-units.ts'
import type { FileRow, FileStore } from './file.ts'

export function openFileReader(file: FileStore): Reader {
  /** Newest first. */
  function rowsOf(filter: Filter): Row[] {
    const inFormat = [...file.rows.values()].filter(row => row.channel === filter.channel && row.format === filter.format)
    return inFormat
      .map(rowOf)
      .filter(matcherOf(filter))
      .sort((one, other) => compareKeys(keyOf(other), keyOf(one)))
  }

  function formatOf(format: string, { rowsMax, subtopicsMax, ...query }: FormatsQuery): FoundFormat {
    const rows = rowsOf({ ...noFilters, ...query, format, fromNs: BigInt(query.fromUs) * 1000n }).slice(0, rowsMax)
    const newest = new Map(rows.toReversed().map(row => [row.subtopic, Number(unitsDown(timeNsOf(row), 1000n))]))
    const subtopics = Array.from(newest, ([subtopic, lastUs]) => ({ subtopic, lastUs }))
    subtopics.sort((one, other) => other.lastUs - one.lastUs || byBytes(one.subtopic, other.subtopic))
    return { format, subtopics: subtopics.slice(0, subtopicsMax), hasMore: rows.length >= rowsMax || subtopics.length > subtopicsMax }
  }

  return {
    async read(query, signal) {
      signal.throwIfAborted()
      return pageOfRows(rowsOf(query), query)
    },
    count: async (filter, max) => Math.min(rowsOf(filter).length, max + 1),
    async latest(query) {
      const newest = await firstOfEach(each(rowsOf(query)))
      return { groups: pageOfRows(newest, query), total: newest.length }
    },
    aggregate: async query => await aggregateRows(each(rowsOf(query)), query),
    async formats(query, signal) {
      signal.throwIfAborted()
      const names = [senmlFormat, ...[...file.formats.keys()].sort(byBytes)]
      const found = names.map(name => formatOf(name, query)).filter(({ subtopics }) => subtopics.length > 0)
      return found.slice(0, query.formatsMax)
    },
    check: async () => undefined,
    close: async () => undefined,
  }
}

function rowOf({ format, position, index, channel, subtopic, publisher, protocol, timeUs, ...row }: FileRow): Row {
  const origin = { channel, subtopic, publisher, protocol, position: BigInt(position), index }
  if (format !== senmlFormat) {
    return { kind: 'document', ...origin, createdNs: BigInt(timeUs) * 1000n + BigInt(row.restNs!), payloadText: row.payloadText! }
  }
  const { name, unit, value, stringValue, boolValue, dataValue, sum, updateTime } = row
  const bytes = dataValue === undefined ? undefined : Buffer.from(dataValue, 'base64')
  return { kind: 'senml', ...origin, name: name!, unit, timeUs, value, stringValue, boolValue, dataValue: bytes, sum, updateTime }
}

async function* each(rows: readonly Row[]): AsyncGenerator<Row> {
  yield* rows
}
