// What a reader is asked for, checked and in one form for every store. Texts come from a stranger: they are values, and never a part of a statement.

/** How a record's number is compared with the one that is asked for. */
export type Comparator = 'eq' | 'lt' | 'le' | 'gt' | 'ge'

/** A field of a JSON payload, compared with the text of its scalar: `21.5`, `true`, `null`, a string as it is. */
export interface PayloadFilter {
  /** From the root down; no key is empty. */
  readonly path: readonly string[]
  readonly text: string
}

/** Which rows are meant. Every statement that reaches a store carries the channel. What is undefined does not filter; 0, false and '' do. */
export interface Selection {
  readonly channel: string
  /** `messages` for SenML, else a JSON format: the last part of the subtopic. */
  readonly format: string
  /** Only what this thing published; undefined: the whole channel. */
  readonly publisher: string | undefined
  /** Dotted. */
  readonly subtopic: string | undefined
  readonly protocol: string | undefined
  /** Nanoseconds since 1970, inclusive. Rows of SenML have whole microseconds. */
  readonly fromNs: bigint | undefined
  /** Exclusive. */
  readonly toNs: bigint | undefined
  // Of SenML records alone.
  readonly name: string | undefined
  readonly unit: string | undefined
  readonly value: { readonly comparator: Comparator; readonly number: number } | undefined
  readonly boolValue: boolean | undefined
  readonly stringValue: string | undefined
  readonly dataValue: Uint8Array | undefined
  /** Of JSON documents alone; all of them hold. */
  readonly payload: readonly PayloadFilter[]
}

/** Of a selection of everything in a channel and format. */
export const noFilters: Omit<Selection, 'channel' | 'format'> = {
  publisher: undefined,
  subtopic: undefined,
  protocol: undefined,
  fromNs: undefined,
  toNs: undefined,
  name: undefined,
  unit: undefined,
  value: undefined,
  boolValue: undefined,
  stringValue: undefined,
  dataValue: undefined,
  payload: [],
}

/** A row's place in the total order: by time, then by position and index. */
export interface RowKey {
  readonly timeNs: bigint
  /** Packed: log, partition and offset. */
  readonly position: bigint
  readonly index: number
}

/** `desc`: newest first. */
export type Direction = 'asc' | 'desc'

export interface PageQuery extends Selection {
  readonly direction: Direction
  readonly limit: number
  /** Rows to pass over; 0 where `after` is given. */
  readonly offset: number
  /** Only rows that lie behind this one, in the direction. */
  readonly after: RowKey | undefined
}

/** What is asked of the formats of a channel. */
export interface FormatsQuery extends Pick<Selection, 'channel' | 'publisher'> {
  /** Only rows from this instant on: microseconds since 1970. */
  readonly fromUs: number
  /** So many rows of each format are looked at, the newest. */
  readonly rowsMax: number
  /** So many formats are wanted, and so many subtopics of each. */
  readonly formatsMax: number
  readonly subtopicsMax: number
}

export type Aggregation = 'min' | 'max' | 'avg' | 'sum' | 'count' | 'first' | 'last'

/** Of SenML records with a number, by publisher, subtopic, name, unit and bucket of time. */
export interface AggregateQuery extends Selection {
  readonly aggregation: Aggregation
  /** Buckets begin at whole multiples of it since 1970. */
  readonly intervalUs: number
  /** Of the buckets. */
  readonly direction: Direction
  readonly limit: number
  readonly offset: number
}
