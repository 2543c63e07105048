// Columns of the store as rows of the contract. What was not asked for, or is not there, is undefined.

import type { Row as Columns } from '../../sinks/cassandra/connection.ts'
import type { DocumentRow, Row, SenmlRow } from '../reader.ts'
import type { Place } from './key-range.ts'
import type { Source } from './source.ts'

/** @param columns those that are looked at afterwards */
export function toRow(columns: Columns, { kind }: Pick<Source, 'kind'>, channel: string): Row {
  return kind === 'senml' ? toSenmlRow(columns, channel) : toDocumentRow(columns, channel)
}

export function placeOf(row: Row): Place {
  const { position, index } = row
  return { time: row.kind === 'senml' ? BigInt(row.timeUs) : row.createdNs, position, index }
}

function toSenmlRow(columns: Columns, channel: string): SenmlRow {
  return {
    kind: 'senml',
    channel,
    subtopic: columns['subtopic'] as string,
    publisher: columns['publisher'] as string,
    protocol: columns['protocol'] as string,
    position: columns['position'] as bigint,
    index: columns['index'] as number,
    name: columns['name'] as string,
    unit: (columns['unit'] ?? undefined) as string | undefined,
    timeUs: Number(columns['time_us']),
    value: (columns['value'] ?? undefined) as number | undefined,
    stringValue: (columns['string_value'] ?? undefined) as string | undefined,
    boolValue: (columns['bool_value'] ?? undefined) as boolean | undefined,
    dataValue: (columns['data_value'] ?? undefined) as Uint8Array | undefined,
    sum: (columns['sum'] ?? undefined) as number | undefined,
    updateTime: (columns['update_time'] ?? undefined) as number | undefined,
  }
}

function toDocumentRow(columns: Columns, channel: string): DocumentRow {
  return {
    kind: 'document',
    channel,
    subtopic: columns['subtopic'] as string,
    publisher: columns['publisher'] as string,
    protocol: columns['protocol'] as string,
    position: columns['position'] as bigint,
    index: columns['index'] as number,
    createdNs: columns['created'] as bigint,
    payloadText: columns['payload'] as string,
  }
}
