// What the suites of an audit need of its store.

import type { AuditedMessage, StoreAudit } from '../../sinks/audit.ts'
import type { ReplaySink } from '../../sinks/replay.ts'
import type { Sink } from '../../sinks/sink.ts'
import type { SinkIdentity } from './sink/fixture.ts'

/** A change of one row that no sink could write: of what only this store keeps of it, or of the type of a value. */
export interface ForeignChange {
  readonly of: 'record' | 'document'
  /** The column that the audit must name. */
  readonly column: string
  /** @param position of a message with one row, in the channel `channel-1`; a document has the format `engine` */
  readonly change: (position: bigint) => Promise<unknown>
}

/** An empty store. */
export interface AuditedStore {
  readonly open: (identity?: SinkIdentity) => Promise<Sink>
  /** @param logNumber of a log that belongs to the sink's writer */
  readonly openReplay: (logNumber: number) => Promise<ReplaySink>
  readonly audit: StoreAudit
  /** Writes the rows of this position a second time, to simulate a fault. */
  readonly double: (position: bigint) => Promise<void>
  /** Removes the rows of this position from all tables. */
  readonly remove: (position: bigint) => Promise<void>
  /** By what they change. */
  readonly foreignChanges: Readonly<Record<string, ForeignChange>>
  /** Drops the table of a format, like an operator may. */
  readonly dropFormat: (format: string) => Promise<void>
  /** How many rows the store's own shell would show for `statementOf`; absent for a store without one. */
  readonly shown?: (statement: string) => Promise<number>
  /** Frees the number of a log, as `./sluice logs --free` does. */
  readonly free: (logNumber: number) => Promise<void>
  readonly close: () => Promise<void>
}

export async function all(messages: AsyncIterable<AuditedMessage>): Promise<AuditedMessage[]> {
  const found: AuditedMessage[] = []
  for await (const message of messages) found.push(message)
  return found
}
