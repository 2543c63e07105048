// Rows from the columns of a table, which have the same names in PostgreSQL and Cassandra. A missing value is null, or undefined if it was not selected.

import type { DocumentRow, SenmlRow } from './reader.ts'

/** By name, as the store's driver returns them. */
export type Columns = Readonly<Record<string, unknown>>

export function senmlRowOf(columns: Columns, channel: string): SenmlRow {
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

export function documentRowOf(columns: Columns, channel: string): DocumentRow {
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
