// What the kinds of stores share that know rows by their keys: one connection of the folder's own, on which sinks, readers and audits stand.

import { readTlsFiles, type TlsFiles, type TlsTexts } from '../../config/tls-files.ts'
import type { Reader } from '../../readers/reader.ts'
import type { StoreAudit } from '../../sinks/audit.ts'
import type { LogIdentity } from '../../sinks/log-registry.ts'
import type { ErrorClass, Sink } from '../../sinks/sink.ts'
import type { StoreKind } from './store.ts'
import { closingBehind } from './store-reader.ts'

interface SinkParts<Connection, Options> extends LogIdentity {
  readonly connection: Connection
  readonly options: Options
  readonly onNotice: (sentence: string) => void
}

/** A store's folders, file by file: each is loaded, and with it the driver, when it is needed. */
export interface StoreFolder<Options, ReadOptions, Connection> {
  connection(): Promise<{
    readonly openConnection: (options: Options | ReadOptions, applicationName: string, tls?: TlsTexts) => Promise<Connection>
  }>
  sink(): Promise<{
    readonly classify: (error: unknown) => ErrorClass
    readonly openSink: (parts: SinkParts<Connection, Options>) => Promise<Sink>
  }>
  schema(): Promise<{ readonly maintain: (connection: Connection, options: Options) => Promise<void> }>
  openReader(): Promise<(parts: { readonly connection: Connection; readonly options: ReadOptions }) => Reader>
  audit(): Promise<{ readonly openAudit: (connection: Connection, options: Options) => StoreAudit }>
}

/** How such a store is opened. It keeps no positions: the others do in the transaction of their rows. */
export function keyedStore<Options extends TlsFiles, ReadOptions extends TlsFiles, Connection extends { close(): Promise<void> }>(
  folder: StoreFolder<Options, ReadOptions, Connection>,
): Pick<StoreKind<Options, ReadOptions>, 'keepsPositions' | 'open' | 'openReader' | 'openAudit'> {
  async function connectionOf(options: Options | ReadOptions, applicationName: string): Promise<Connection> {
    const { openConnection } = await folder.connection()
    return await openConnection(options, applicationName, await readTlsFiles('store', options))
  }

  return {
    keepsPositions: false,
    async open(options, writer) {
      const { classify, openSink } = await folder.sink()
      const { maintain } = await folder.schema()
      const connection = await connectionOf(options, `sluice-writer-${writer}`)
      return {
        openSink: (identity, onNotice) => openSink({ connection, options, onNotice, ...identity }),
        classify,
        maintain: () => maintain(connection, options),
        close: () => connection.close(),
      }
    },
    async openReader(options) {
      const openReader = await folder.openReader()
      const connection = await connectionOf(options, 'sluice-reader')
      return closingBehind(openReader({ connection, options }), connection)
    },
    async openAudit(options) {
      const { openAudit } = await folder.audit()
      const connection = await connectionOf(options, 'sluice-audit')
      return { ...openAudit(connection, options), close: () => connection.close() }
    },
  }
}
