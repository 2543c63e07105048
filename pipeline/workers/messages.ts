// What a worker's thread and the main thread tell each other: states, counts and the word to stop. No message of a device among it.

import type { MetricObjectWithValues, MetricValue } from 'prom-client'
import { codeOf } from '../../config/logger.ts'
import type { PartitionCounts } from '../ledger.ts'
import type { WriterDependency, WriterState } from '../writer.ts'

export type Metrics = readonly MetricObjectWithValues<MetricValue<string>>[]

/** An error in transit: what an error's structured clone would lose is its name and its code. */
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
  /** By partition, since the worker began. */
  readonly counts: readonly (readonly [number, PartitionCounts])[]
  readonly metrics: Metrics
}

/** From a worker: last of all, that it has stopped; and as soon as it knows, that it met what no retry can mend, whatever becomes of its parts. */
export interface WorkerEnd {
  readonly kind: 'stopped' | 'systemic'
  readonly failure?: CarriedError
}

/** From a worker: what one of its parts learnt of what it depends on, as it happens. */
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
