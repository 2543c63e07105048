// The interface of a kind of store for roles and tools: how its sinks, readers and audits are opened.

import type { Reader } from '../../readers/reader.ts'
import type { StoreAudit } from '../../sinks/audit.ts'
import type { StoreErasure } from '../../sinks/erasure.ts'
import type { LogIdentity } from '../../sinks/logs.ts'
import type { ReplaySink } from '../../sinks/replay.ts'
import type { ErrorClass, Sink } from '../../sinks/sink.ts'

/** The kinds by their names in SPEC §2, and the database of each. */
const storeNames = { relational: 'postgres', widecolumn: 'cassandra', timeseries: 'influxdb', document: 'mongodb' } as const
/** The databases as messages name them. */
export const databaseNames = { relational: 'PostgreSQL', widecolumn: 'Cassandra', timeseries: 'InfluxDB', document: 'MongoDB' } as const
export type StoreName = keyof typeof storeNames
export const storeNameList = Object.keys(storeNames) as StoreName[]

/** The kind for either of its names; undefined if unknown. */
export function storeOf(name: string): StoreName | undefined {
  return storeNameList.find(store => store === name || storeNames[store] === name)
}

/** The names for messages. */
export const storeNamesText = storeNameList.map(store => `${store} (or ${storeNames[store]})`).join(', ')

/** The roles that exist once per kind of store. */
export const rolesOfStores = ['writer', 'reader'] as const
export type RoleOfStore = (typeof rolesOfStores)[number]

/** The variable with the path of the configuration file. SPEC §2 defines those of writers; readers have similar ones. */
export function configPathVariable(role: RoleOfStore, store: StoreName): string {
  return `SVC_${store}_${role}_CONFIG_PATH`.toUpperCase()
}

/** A store opened by a writer's worker. */
export interface Store {
  /** @param onNotice called if the store works with a limitation, for example because a right is missing */
  openSink(logs: readonly LogIdentity[], onNotice: (sentence: string) => void): Promise<Sink>
  /** Classifies an error of `openSink`. */
  classify(error: unknown): ErrorClass
  /** Periodic maintenance, called in one thread of the process. */
  maintain(): Promise<void>
  close(): Promise<void>
}

/** A store opened to replay dead letters. It creates no schema and registers no log. */
export interface ReplayStore {
  readonly audit: StoreAudit
  /**
   * Opens a sink for the log with this number in the store.
   *
   * @throws SinkError if the store has another schema version
   */
  readonly openSink: (logNumber: number) => Promise<ReplaySink>
  close(): Promise<void>
}

/**
 * A kind of store. Its modules and driver are loaded when one is opened. `Options` is the section `store` of a writer, `ReadOptions` that of a
 * reader.
 */
export interface StoreKind<Options = unknown, ReadOptions = unknown> {
  readonly name: StoreName
  /**
   * Whether it stores the position in the log itself, in the transaction of the rows. The others resume at the offsets committed by the
   * consumer group.
   */
  readonly keepsPositions: boolean
  /** Whether it stores JSON documents flattened (SPEC §2, transformer rule 8). */
  readonly takesFlat: boolean

  /**
   * Connects on first use.
   *
   * @throws SecretError for an unusable certificate
   */
  open(options: Options, writer: string): Promise<Store>
  /** Connects on first use. Closing the reader closes its connection. */
  openReader(options: ReadOptions): Promise<Reader>
  /** How many queries its reader runs at once. */
  queriesAtOnce(options: ReadOptions): number
  openAudit(options: Options): Promise<StoreAudit & { close(): Promise<void> }>
  /**
   * What a writer needs of the store, and changes nothing.
   *
   * @param logs those that the writer reads
   * @returns what was found
   * @throws UnpreparedStoreError for a store that a writer's start creates or migrates; what `Store.classify` knows
   */
  check(options: Options, writer: string, logs: readonly LogIdentity[], warn: (sentence: string) => void): Promise<string>
  /** Resolves with what classifies an error of `check`. */
  classifier(): Promise<(error: unknown) => ErrorClass>
  /**
   * Frees the number of a log whose rows are gone, so that another log can have it.
   *
   * @param isIdle whether no process of its writer runs
   * @throws SinkError (systemic) that says why it cannot be freed
   */
  freeLog(options: Options, number: number, isIdle: boolean): Promise<void>
  /** Opens the store to erase rows. It creates no schema: a writer of this version has started before. */
  openErasure(options: Options): Promise<StoreErasure>
  /** Opens the store to replay the dead letters of this writer. */
  openReplays(options: Options, writer: string): Promise<ReplayStore>
}

/** The same reader; closing it closes the connection behind it. */
export function closingBehind(reader: Reader, connection: { close(): Promise<void> }): Reader {
  return {
    ...reader,
    async close() {
      await reader.close()
      await connection.close()
    },
  }
}
