// What the benchmark of the stores is given of each: a server, a bare loop over its driver, and the sink on the same server.

import type { Sink } from '../../sinks/sink.ts'
import type { RecordBatch } from '../../transformers/record-batch.ts'

export interface RawStore {
  /** `Cassandra 5.0.9` */
  readonly server: string
  /** Of the bare loop: `256 single inserts in flight`. */
  readonly parameters: string
  /** Makes ready, outside the measured time, what the loop sends for these batches. */
  ready(batches: readonly RecordBatch[]): unknown
  /** Sends it all; resolves when everything is acknowledged. */
  run(ready: unknown): Promise<void>
  /** An empty store again, with what the sink makes in it. */
  empty(): Promise<void>
  /** Opens the sink on the same server, as a writer's worker does. */
  openSink(): Promise<Sink>
  /** How many rows it has. */
  count(): Promise<number>
  close(): Promise<void>
}

export interface StoreToMeasure {
  /** The file of benchmarks/raw. */
  readonly name: 'cassandra' | 'influxdb' | 'mongodb'
  /** Of one turn: some seconds of work. */
  readonly rows: number
}
