// The contract of a reader: its queries, and the stored messages that it returns, the same for every store.
//
// Texts in a query are untrusted: they are always passed as values, never as part of a statement.

/** How a record's number is compared with the one in the filter. */
export type Comparator = 'eq' | 'lt' | 'le' | 'gt' | 'ge'

/** A field of a JSON payload, compared by the text of its scalar: `21.5`, `true`, `null`, a string without quotes. */
export interface PayloadFilter {
  /** From the root down; keys are not empty. */
  readonly path: readonly string[]
  readonly text: string
}

/** A field of JSON payloads that is aggregated. */
export interface PayloadField extends Pick<PayloadFilter, 'path'> {
  /** As in the request: the name of its buckets. */
  readonly name: string
}

/** Selects rows. Every statement sent to a store contains the channel. Undefined fields do not filter; 0, false and '' do. */
export interface Filter {
  readonly channel: string
  /** `messages` for SenML, else a JSON format: the last part of the subtopic, or the writer's default. */
  readonly format: string
  /** Only messages of this thing; undefined: the whole channel. */
  readonly publisher: string | undefined
  /** Dotted. */
  readonly subtopic: string | undefined
  readonly protocol: string | undefined
  /** Nanoseconds since 1970, inclusive. Rows of SenML have whole microseconds. */
  readonly fromNs: bigint | undefined
  /** Exclusive. */
  readonly toNs: bigint | undefined
  // For SenML records only.
  readonly name: string | undefined
  readonly unit: string | undefined
  readonly value: { readonly comparator: Comparator; readonly number: number } | undefined
  readonly boolValue: boolean | undefined
  readonly stringValue: string | undefined
  readonly dataValue: Uint8Array | undefined
  /** For JSON documents only; all must match. */
  readonly payload: readonly PayloadFilter[]
}

/** Matches everything in a channel and format. */
export const noFilters: Omit<Filter, 'channel' | 'format'> = {
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

/** A row's key in the total order: by time, then by position and index. */
export interface RowKey {
  readonly timeNs: bigint
  /** Packed: log, partition and offset. */
  readonly position: bigint
  readonly index: number
}

/** `desc`: newest first. */
export type Direction = 'asc' | 'desc'

/** A page of the rows that match a filter. */
export interface PageQuery extends Filter {
  readonly direction: Direction
  readonly limit: number
  /** Rows to skip; 0 if `after` is set. */
  readonly offset: number
  /** Only rows after this one, in the direction. */
  readonly after: RowKey | undefined
}

/** A query for the formats of a channel. */
export interface FormatsQuery extends Pick<Filter, 'channel' | 'publisher'> {
  /** Only rows since this time: microseconds since 1970. */
  readonly fromUs: number
  /** How many of the newest rows of each format are examined. */
  readonly rowsMax: number
  /** Maximum formats, and maximum subtopics of each. */
  readonly formatsMax: number
  readonly subtopicsMax: number
}

/** The aggregation of the numbers in a bucket. */
export type Aggregation = 'min' | 'max' | 'avg' | 'sum' | 'count' | 'first' | 'last'

/** Aggregates SenML records with a number, by publisher, subtopic, name, unit and time bucket. */
export interface AggregateQuery extends Filter {
  readonly aggregation: Aggregation
  /** Buckets start at whole multiples of it since 1970. */
  readonly intervalUs: number
  /** Order of the buckets. */
  readonly direction: Direction
  readonly limit: number
  readonly offset: number
}

/** The format under which SenML is stored and read. */
export const senmlFormat = 'messages'

interface Origin {
  readonly channel: string
  /** Dotted, may be empty. */
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  /** Packed: log, partition and offset. With the index it identifies the row. */
  readonly position: bigint
  readonly index: number
}

/** A SenML record as read. Absent fields are undefined; 0, false and '' are not absent. */
export interface SenmlRow extends Origin {
  readonly kind: 'senml'
  readonly name: string
  readonly unit: string | undefined
  /** Microseconds since 1970, whole. */
  readonly timeUs: number
  readonly value: number | undefined
  readonly stringValue: string | undefined
  readonly boolValue: boolean | undefined
  readonly dataValue: Uint8Array | undefined
  readonly sum: number | undefined
  /** Seconds. */
  readonly updateTime: number | undefined
}

/** A JSON document as read. */
export interface DocumentRow extends Origin {
  readonly kind: 'document'
  /** Nanoseconds since 1970. */
  readonly createdNs: bigint
  /** JSON text with every digit of its numbers; key order is the store's. */
  readonly payloadText: string
}

/** A stored row. */
export type Row = SenmlRow | DocumentRow

/** The aggregate of one series in one time bucket. */
export interface Bucket {
  readonly channel: string
  readonly publisher: string
  readonly subtopic: string
  readonly name: string
  readonly unit: string | undefined
  /** Start of the bucket, microseconds since 1970. */
  readonly timeUs: number
  readonly value: number
  /** Number of records with a number. */
  readonly count: number
}

/** A page of groups (series, buckets) with their total number, which is known because all groups are computed. */
export interface Grouped<Group> {
  readonly groups: readonly Group[]
  readonly total: number
}

/** A format with rows in a channel, and its subtopics. */
export interface FoundFormat {
  readonly format: string
  /** Most recent first; those of the same time by their UTF-8 bytes. */
  readonly subtopics: readonly FoundSubtopic[]
  /** There are more subtopics, or the limit of examined rows was reached, so there may be more. */
  readonly hasMore: boolean
}

/** A subtopic of a format. */
export interface FoundSubtopic {
  /** Dotted, may be empty. */
  readonly subtopic: string
  /** Time of its newest row, microseconds since 1970. */
  readonly lastUs: number
}

/** The store is unavailable; the caller may retry. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError'
}

/** The query exceeds a limit on work or time; the caller may narrow it. */
export class QueryTooLargeError extends Error {
  override readonly name = 'QueryTooLargeError'
}

/**
 * The order is always total: by time, then by position and index. Without new messages, the pages of a channel never overlap and together
 * are complete.
 *
 * The caller guarantees that the query is authorized, its limits are checked, filters match the format, and nothing is called after
 * `close`. A reader guarantees that no row of another channel or, if one is set, of another publisher affects a result or a
 * count; that an unknown format has no rows; that reading creates nothing; and that it ends soon after the signal aborts, with the
 * signal's reason, if the store supports cancelling.
 * Every method throws StoreUnavailableError, and QueryTooLargeError if the store's time limit is exceeded.
 */
export interface Reader {
  /** The rows of a page: fewer than `limit` only if there are no more. */
  read(query: PageQuery, signal: AbortSignal): Promise<readonly Row[]>
  /** The number of rows, counted up to `max`; `max + 1` if there are more. */
  count(filter: Filter, max: number, signal: AbortSignal): Promise<number>
  /** The newest row of each publisher, subtopic and name (documents: of each publisher and subtopic), in row order. */
  latest(query: PageQuery, signal: AbortSignal): Promise<Grouped<Row>>
  /** Buckets by time in the direction, then by publisher, subtopic, name and unit, each by its UTF-8 bytes; a missing unit comes first. */
  aggregate(query: AggregateQuery, signal: AbortSignal): Promise<Grouped<Bucket>>
  /**
   * The formats with rows: SenML, then the others by their UTF-8 bytes. If `rowsMax` is reached among rows of the same microsecond, the
   * store chooses which of them are examined.
   */
  formats(query: FormatsQuery, signal: AbortSignal): Promise<readonly FoundFormat[]>
  /** Resolves if the store answers; else throws. */
  check(): Promise<void>
  close(): Promise<void>
}

/** The time of a row, nanoseconds since 1970. */
export function timeNsOf(row: Row): bigint {
  return row.kind === 'senml' ? BigInt(row.timeUs) * 1000n : row.createdNs
}

/** A row's key in the total order. */
export function keyOf(row: Row): RowKey {
  return { timeNs: timeNsOf(row), position: row.position, index: row.index }
}

/** The total order: negative if the first key comes before the other. */
export function compareKeys(one: RowKey, other: RowKey): number {
  if (one.timeNs !== other.timeNs) return one.timeNs < other.timeNs ? -1 : 1
  if (one.position !== other.position) return one.position < other.position ? -1 : 1
  return one.index - other.index
}

/** The order of rows of one kind. Position and index are those of one row of the store, so that it is total over any number of channels. */
export function compareRows(one: Row, other: Row): number {
  // Most rows differ in their times, and need no keys.
  if (one.kind === 'senml' && other.kind === 'senml' && one.timeUs !== other.timeUs) return one.timeUs - other.timeUs
  return compareKeys(keyOf(one), keyOf(other))
}

/** True if a key comes after another one, in the direction. */
export function isBehind(key: RowKey, after: RowKey, direction: Direction): boolean {
  const order = compareKeys(key, after)
  return direction === 'desc' ? order < 0 : order > 0
}
