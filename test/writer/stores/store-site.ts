// The store of a site: its own server behind a proxy, which can crash, and is read without the product's code.

import type { StoreName } from '../../../roles/stores/store.ts'
import type { Proxy } from '../../servers/process/proxy.ts'
import type { Environment } from '../process.ts'

export interface StoredRow {
  /** `messages` for SenML, else the format. */
  readonly table: string
  /** As a `LogPartition`: of the site's first topic the partition's number. In a store without positions the log is the number that the store gave it. */
  readonly partition: number
  readonly offset: number
  readonly index: number
  /** In the form of `senmlText` and `documentText` (messages.ts), which contains the number. */
  readonly text: string
}

/** The ledger of a `LogPartition`, in a store that keeps positions. */
export interface Books {
  readonly partition: number
  readonly next_offset: number
  readonly received: number
  readonly stored: number
  readonly empty: number
  readonly filtered: number
  readonly skipped: number
  readonly duplicate: number
  readonly dead_lettered: number
  readonly lost: number
}

export interface StoreSite {
  readonly name: StoreName
  /** Between writers and the server: all connections of writers go through it. */
  readonly proxy: Proxy
  /** For writers, through the proxy; with time limits of about ten seconds, so that a half-open connection does not cost a minute. */
  readonly environment: Environment
  /** For tools, without the proxy. */
  readonly directEnvironment: Environment
  /** Position and ledger by partition, of a store that keeps them. Empty before a writer has created its schema. */
  positions?(): Promise<ReadonlyMap<number, number>>
  books?(): Promise<readonly Books[]>
  /** Every row of every table, message by message. */
  rows(): AsyncIterable<StoredRow>
  /** As if the server had crashed. */
  kill(): Promise<void>
  restart(how?: 'TERM' | 'KILL'): Promise<void>
  close(): Promise<void>
}

/** The place of a row in a store without positions: 7 bits of the log, 12 of the partition and 44 of the offset. */
export function placeAt(position: bigint): Pick<StoredRow, 'partition' | 'offset'> {
  return { partition: Number(position >> 44n), offset: Number(position & 0xfff_ffff_ffffn) }
}
