// The store of a site where writers work: a server of its own, behind a proxy, that can be struck, and read without the product's code.

import type { StoreName } from '../../../roles/stores/store.ts'
import type { Proxy } from '../../servers/proxy.ts'
import type { Environment } from '../process.ts'

export interface StoredRow {
  /** `messages` for SenML, else the format. */
  readonly table: string
  readonly partition: number
  readonly offset: number
  readonly index: number
  /** As `senmlText` and `documentText` of messages.ts make it: its number is in there. */
  readonly text: string
}

/** What a store that keeps positions says of a partition. */
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
  /** Between writers and the server: no connection of a writer gets around it. */
  readonly proxy: Proxy
  /** Of writers, which come through the proxy; with short waits, so that a test lasts seconds where an operator would wait a minute. */
  readonly environment: Environment
  /** Of tools, which do not. */
  readonly directEnvironment: Environment
  /** By partition, where the store goes on, and its books: of a store that keeps them. Empty before a writer has made its schema. */
  positions?(): Promise<ReadonlyMap<number, number>>
  books?(): Promise<readonly Books[]>
  /** Every row of every table, message by message. */
  rows(): AsyncIterable<StoredRow>
  /** As if the server had crashed. */
  kill(): Promise<void>
  restart(how?: 'TERM' | 'KILL'): Promise<void>
  close(): Promise<void>
}
