// Where the rows of a format lie, as the sink has made it: the table, its columns, and how it counts time.

import { physicalName } from '../../sinks/cassandra/physical-name.ts'
import { type Column, formatTable, messagesTable, quoted } from '../../sinks/cassandra/statements.ts'
import type { Selection } from '../query.ts'
import { senmlFormat } from '../reader.ts'

export interface Source {
  readonly kind: 'senml' | 'document'
  /** With its keyspace, in quotes. */
  readonly table: string
  /** What the table orders rows by, the time first. */
  readonly key: readonly [time: string, position: string, index: string]
  /** All that a row is made of. */
  readonly columns: readonly string[]
  /** Nanoseconds of a unit of its time. */
  readonly unitNs: bigint
}

/** The name of a format's table follows from the format, so that nothing has to be asked for it. */
export function sourceOf(keyspace: string, format: string): Source {
  const isSenml = format === senmlFormat
  const { name, columns } = isSenml ? messagesTable : formatTable(physicalName(format))
  const names = (kinds: readonly Column['kind'][]): string[] =>
    columns.filter(({ kind }) => kinds.includes(kind)).map(column => column.name)
  const [time, position, index] = names(['clustering'])
  return {
    kind: isSenml ? 'senml' : 'document',
    table: `${quoted(keyspace)}.${quoted(name)}`,
    key: [time!, position!, index!],
    columns: names(['clustering', 'regular']),
    unitNs: isSenml ? 1000n : 1n,
  }
}

/** By filter, the column that it looks at. Channel, format and time are found by keys. */
const columnOf = {
  publisher: 'publisher',
  subtopic: 'subtopic',
  protocol: 'protocol',
  name: 'name',
  unit: 'unit',
  value: 'value',
  boolValue: 'bool_value',
  stringValue: 'string_value',
  dataValue: 'data_value',
} as const satisfies Partial<Record<keyof Selection, string>>

/** The columns that say whether a row is one that is asked for; none where all of the walked ones are. */
export function testedColumns(selection: Selection): string[] {
  const filters = Object.keys(columnOf) as (keyof typeof columnOf)[]
  const columns: string[] = filters.filter(filter => selection[filter] !== undefined).map(filter => columnOf[filter])
  return selection.payload.length > 0 ? [...columns, 'payload'] : columns
}

/** Bytes of channel, publisher and format together beyond which the sink stores nothing: the store's keys hold no more. */
const identifiersBytesMax = 65_500

/** False where no row can be there, and the store would refuse to look, or look for another text: half a surrogate pair is none. */
export function isStorable({ channel, publisher = '', format }: Selection): boolean {
  const texts = [channel, publisher, format]
  if (!texts.every(text => text.isWellFormed())) return false
  return texts.reduce((bytes, text) => bytes + Buffer.byteLength(text), 0) <= identifiersBytesMax
}
