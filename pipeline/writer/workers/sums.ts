// Sums over workers: of their ledgers and metrics, including those that are gone.

import { AggregatorRegistry } from 'prom-client'
import type { LogPartition } from '../../../transformers/log-partition.ts'
import type { PartitionCounts } from '../ledger.ts'
import { lastWriteName } from '../metrics.ts'
import type { Metrics, WorkerReport } from './messages.ts'

/** Adds the ledger of a worker, partition by partition: a partition may have moved from one worker to another. */
export function addCounts(sums: Map<LogPartition, PartitionCounts>, counts: WorkerReport['counts']): void {
  for (const [at, added] of counts) {
    const sum: Record<string, number> = { ...sums.get(at) }
    for (const [name, value] of Object.entries(added)) sum[name] = (sum[name] ?? 0) + value
    sums.set(at, sum as unknown as PartitionCounts)
  }
}

/** The ledger of a worker that is gone: what it had in flight will be received again, by another. */
export function withoutInFlight(counts: WorkerReport['counts']): WorkerReport['counts'] {
  return counts.map(([at, of]) => [at, { ...of, received: of.received - of.inFlight, inFlight: 0 }])
}

/** What is kept of the metrics of a thread that is gone: counters, which never decrease, and the time of its last write. */
export async function keepCounters(kept: Metrics, gone: Metrics): Promise<Metrics> {
  const counters = gone.filter(({ type, name }) => String(type) === 'counter' || name === lastWriteName)
  return await AggregatorRegistry.aggregate([[...kept], counters]).getMetricsAsJSON()
}

export function textOfMetrics(workers: readonly Metrics[]): Promise<string> {
  return AggregatorRegistry.aggregate(workers.map(metrics => [...metrics])).metrics()
}
