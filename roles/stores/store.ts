// What a kind of store is to the roles and tools: its options, and how its sinks, readers and audits are opened.

import type { TObject } from 'typebox'
import type { OptionFault } from '../../config/option-faults.ts'
import type { Reader } from '../../readers/reader.ts'
import type { StoreAudit } from '../../sinks/audit.ts'
import type { LogIdentity } from '../../sinks/log-registry.ts'
import type { ErrorClass, Sink } from '../../sinks/sink.ts'

/** The kinds by the names of SPEC §2, and the database that each is here. */
export const storeNames = { relational: 'postgres', widecolumn: 'cassandra', timeseries: 'influxdb', document: 'mongodb' } as const
/** The databases as sentences name them. */
export const databaseNames = { relational: 'PostgreSQL', widecolumn: 'Cassandra', timeseries: 'InfluxDB', document: 'MongoDB' } as const
export type StoreName = keyof typeof storeNames
export const storeNameList = Object.keys(storeNames) as StoreName[]

/** The kind for either of its names; undefined for what is none. */
export function storeOf(name: string): StoreName | undefined {
  return storeNameList.find(store => store === name || storeNames[store] === name)
}

/** How the names are told to people. */
export const storeNamesText = storeNameList.map(store => `${store} (or ${storeNames[store]})`).join(', ')

/** The roles that there are one of for each kind of store. */
export const rolesOfStores = ['writer', 'reader'] as const
export type RoleOfStore = (typeof rolesOfStores)[number]

/** The variable that names the configuration file: SPEC §2 has those of writers, and a reader has one like them. */
export function configPathVariable(role: RoleOfStore, store: StoreName): string {
  return `SVC_${store}_${role}_CONFIG_PATH`.toUpperCase()
}

/** One store, as a writer's worker has it. */
export interface Store {
  /** @param onNotice told of what the store does without: a right that it was not given, say */
  openSink(identity: LogIdentity, onNotice: (sentence: string) => void): Promise<Sink>
  /** What an error of `openSink` means. */
  classify(error: unknown): ErrorClass
  /** Once in a process, now and then: what the store needs beside writing. */
  maintain(): Promise<void>
  close(): Promise<void>
}

/**
 * A kind of store. Its folder and driver are loaded when one is opened. `Options` is the section `store` of a writer, `ReadOptions` that of a
 * reader.
 */
export interface StoreKind<Options = unknown, ReadOptions = unknown> {
  readonly name: StoreName
  /** Of the section `store` of a writer. */
  readonly options: TObject
  /** Of the section `store` of a reader. */
  readonly readerOptions: TObject
  /**
   * Whether it says itself where to go on in the log, in the transaction of its rows. The others go on at what the consumer group has
   * committed.
   */
  readonly keepsPositions: boolean
  /** Whether it takes JSON documents flattened (SPEC §2, transformer rule 8). */
  readonly takesFlat: boolean

  /** What is wrong between options, each of which is right by itself, and with a URL. */
  faults(options: Options | ReadOptions): OptionFault[]
  /** Secrets by the name of their option: what nobody may know in production. */
  secrets(options: Options | ReadOptions): Readonly<Record<string, string | undefined>>
  /**
   * Connects when it is first used.
   *
   * @throws SecretError for a certificate that cannot be used
   */
  open(options: Options, writer: string): Promise<Store>
  /** Likewise. Closing the reader closes what it has connected. */
  openReader(options: ReadOptions): Promise<Reader>
  openAudit(options: Options): Promise<StoreAudit & { close(): Promise<void> }>
}
