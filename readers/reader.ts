// The contract of a reader: stored messages of one store, in one canonical form.

import type { Query } from './query.ts'

/** The format under which SenML is stored and read. */
export const senmlFormat = 'messages'

/** A SenML record as read. Absent fields are undefined; 0, false and '' are not absent. */
export interface SenmlRow {
  readonly kind: 'senml'
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
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
export interface DocumentRow {
  readonly kind: 'document'
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly protocol: string
  /** Nanoseconds since 1970. */
  readonly createdNs: bigint
  /** JSON text with every digit of its numbers; key order is the store's. */
  readonly payloadText: string
}

export type Row = SenmlRow | DocumentRow

/** One page, newest first, then by position and index descending: a total order. */
export interface Page {
  readonly rows: readonly Row[]
  readonly total: number
  /** False: there are at least `total`. */
  readonly totalExact: boolean
}

/** The store cannot answer now; the caller may try again. */
export class StoreUnavailableError extends Error {
  override readonly name = 'StoreUnavailableError'
}

/** What the caller guarantees: the query is authorized, its limits are checked, and nothing is called after `close`. */
export interface Reader {
  /**
   * A format that the store does not know is an empty page; a read creates nothing.
   *
   * @throws StoreUnavailableError
   */
  read(query: Query, signal: AbortSignal): Promise<Page>
  /** Resolves when the store answers; throws otherwise. */
  check(): Promise<void>
  close(): Promise<void>
}
