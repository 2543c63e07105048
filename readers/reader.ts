// The contract of a reader: stored messages of one store, in one canonical form.

import type { AggregateQuery, FormatsQuery, PageQuery, RowKey, Selection } from './query.ts'

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

export type Row = SenmlRow | DocumentRow

/** What an aggregation says of one series in one bucket of time. */
export interface Bucket {
  readonly channel: string
  readonly publisher: string
  readonly subtopic: string
  readonly name: string
  readonly unit: string | undefined
  /** Where the bucket begins, microseconds since 1970. */
  readonly timeUs: number
  readonly value: number
  /** How many records with a number it has. */
  readonly count: number
}

/** Of groups (series, buckets), all are made to give some: their number is known. */
export interface Grouped<Group> {
  readonly groups: readonly Group[]
  readonly total: number
}

/** A format that a channel has rows of, and the subtopics that they came by. */
export interface FoundFormat {
  readonly format: string
  /** The one that came last first, of the same time by the bytes of their UTF-8. */
  readonly subtopics: readonly FoundSubtopic[]
  /** There are more subtopics, or as many rows as were looked at, behind which there may be more. */
  readonly hasMore: boolean
}

export interface FoundSubtopic {
  /** Dotted, may be empty. */
  readonly subtopic: string
  /** The microsecond since 1970 in which its newest row lies. */
  readonly lastUs: number
}

/** The store cannot answer now; the caller may try again. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError'
}

/** The store would look at more, or for longer, than one question may: the caller may ask for less. */
export class QueryTooLargeError extends Error {
  override readonly name = 'QueryTooLargeError'
}

/**
 * Order is total everywhere: by time, then by position and index. Pages of rows that nobody writes meanwhile never overlap, and together
 * are the whole.
 *
 * What the caller guarantees: the query is authorized, its limits are checked, filters fit the format, and nothing is called after
 * `close`. What a reader guarantees: no row of another channel or, where one is asked for, of another publisher is looked at for an answer or a
 * count; a format that the store does not know has no rows; a read creates nothing; it ends soon when the signal aborts, with the
 * signal's reason, where the store can be told.
 *
 * Every method throws StoreUnavailableError, and QueryTooLargeError where the store's time limit is reached.
 */
export interface Reader {
  /** The rows of a page: fewer than `limit` only where there are no more. */
  read(query: PageQuery, signal: AbortSignal): Promise<readonly Row[]>
  /** How many rows there are, counted up to `max`; more than that is `max + 1`. */
  count(selection: Selection, max: number, signal: AbortSignal): Promise<number>
  /** The newest row of each publisher, subtopic and name (documents: of each publisher and subtopic), in the order of rows. */
  latest(query: PageQuery, signal: AbortSignal): Promise<Grouped<Row>>
  /** Buckets by time in the direction, then by publisher, subtopic, name and unit, each by the bytes of its UTF-8, no unit first. */
  aggregate(query: AggregateQuery, signal: AbortSignal): Promise<Grouped<Bucket>>
  /**
   * The formats that have rows: SenML, then the others by the bytes of their UTF-8. Which of the rows at one microsecond are looked at is the
   * store's choice, where `rowsMax` ends among them.
   */
  formats(query: FormatsQuery, signal: AbortSignal): Promise<readonly FoundFormat[]>
  /** Resolves when the store answers; throws otherwise. */
  check(): Promise<void>
  close(): Promise<void>
}

/** Groups that one question may make: beyond it a QueryTooLargeError asks for less. */
export const groupsMax = 100_000
/** Of the texts of its groups, each of at most two bytes: nothing else bounds a name. */
const groupCharactersMax = 16 * 1024 * 1024

/** @param what they are: `series`, `buckets` */
export function tooManyGroups(what: string): QueryTooLargeError {
  return new QueryTooLargeError(`the question makes more than ${groupsMax} ${what}: ask for less by name, publisher, from and to`)
}

/**
 * Counts the groups of one question, which lie in memory.
 *
 * @returns to be called for each, with what its texts have
 * @throws QueryTooLargeError from there, for the group that is one too many
 */
export function openGroupLimit(what: string): (characters: number) => void {
  let groups = 0
  let left = groupCharactersMax
  return characters => {
    if (++groups > groupsMax) throw tooManyGroups(what)
    left -= characters
    if (left >= 0) return
    throw new QueryTooLargeError(
      `the names of the ${what} that the question makes have more than ${groupCharactersMax} characters: ask for less by name, publisher, from and to`,
    )
  }
}

export function timeNsOf(row: Row): bigint {
  return row.kind === 'senml' ? BigInt(row.timeUs) * 1000n : row.createdNs
}

export function keyOf(row: Row): RowKey {
  return { timeNs: timeNsOf(row), position: row.position, index: row.index }
}
