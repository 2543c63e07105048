// The messages between a worker's thread and the main thread: states, counts and the stop request, but no messages of devices.

import type { MetricObjectWithValues, MetricValue } from 'prom-client'
import { codeOf } from '../../../config/logger.ts'
import type { LogPartition } from '../../../transformers/log-partition.ts'
import type { PartitionCounts } from '../ledger.ts'
import type { WriterDependency, WriterState } from '../writer.ts'

export type Metrics = readonly MetricObjectWithValues<MetricValue<string>>[]

/** An error for another thread: structured clone would lose its name and its code. */
export interface CarriedError {
  readonly name: string
  readonly message: string
  readonly code?: string
}

/** From a worker, at each change of its state and once a second. */
export interface WorkerReport {
  readonly kind: 'report'
  readonly state: WriterState
  /** Why it is retrying. */
  readonly failure?: CarriedError
  /** The partitions that it has. */
  readonly held: readonly LogPartition[]
  /** By log and partition, since the worker started. */
  readonly counts: readonly (readonly [LogPartition, PartitionCounts])[]
  readonly metrics: Metrics
}

/** From a worker: finally, that it has stopped; and immediately, that it has a systemic error, whatever happens to its parts. */
export interface WorkerEnd {
  readonly kind: 'stopped' | 'systemic'
  readonly failure?: CarriedError
}

/** From a worker: a change of state of one of its dependencies. */
export interface WorkerOutage {
  readonly kind: 'outage'
  readonly dependency: WriterDependency
  /** Numbers the parts of a worker that report an outage. */
  readonly part: number
  readonly change:
    | { readonly is: 'failed'; readonly fact: string; readonly next: { readonly waitMs?: number; readonly meanwhile?: string } | undefined }
    | { readonly is: 'recovered'; readonly waitedMessages: number | undefined }
    | { readonly is: 'closed' }
}

/** To a worker. */
export interface StopWorker {
  readonly kind: 'stop'
}

export function carried(error: unknown): CarriedError {
  if (!(error instanceof Error)) return { name: 'Error', message: String(error) }
  const code = codeOf(error)
  return { name: error.name, message: error.message, ...(code === undefined ? {} : { code }) }
}

export function arrived({ message, ...named }: CarriedError): Error {
  return Object.assign(new Error(message), named)
}
