// What the benchmark of the stores needs for each store: a server, a raw loop over its driver, and the sink on the same server.

import type { StoreAudit } from '../../sinks/audit.ts'
import type { Sink } from '../../sinks/sink.ts'
import type { RecordBatch } from '../../transformers/record-batch.ts'

export interface RawStore {
  /** `Cassandra 5.0.9` */
  readonly server: string
  /** Of the raw loop: `256 single inserts in flight`. */
  readonly parameters: string
  /** Prepares what the loop sends for these batches, before the measurement. */
  ready(batches: readonly RecordBatch[]): unknown
  /** Sends it; resolves when everything is acknowledged. */
  run(ready: unknown): Promise<void>
  /** Empties the store, and creates what the sink needs in it. */
  empty(): Promise<void>
  /** Opens the sink on the same server, like a writer's worker. */
  openSink(): Promise<Sink>
  openAudit(): StoreAudit
  /** The number of stored rows. */
  count(): Promise<number>
  close(): Promise<void>
}

export interface StoreToMeasure {
  /** The file in benchmarks/raw. */
  readonly name: 'cassandra' | 'influxdb' | 'mongodb'
  /** For one turn: some seconds of work. */
  readonly rows: number
}
