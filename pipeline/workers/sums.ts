// Sums over workers: of their books, and of their metrics, also of those that are gone.

import { AggregatorRegistry } from 'prom-client'
import type { PartitionCounts } from '../ledger.ts'
import { lastWriteName } from '../metrics.ts'
import type { Metrics } from './messages.ts'

/** Adds the books of a worker, partition by partition: a partition may have passed from one worker to another. */
export function addCounts(sums: Map<number, PartitionCounts>, counts: readonly (readonly [number, PartitionCounts])[]): void {
  for (const [partition, added] of counts) {
    const sum: Record<string, number> = { ...sums.get(partition) }
    for (const [name, value] of Object.entries(added)) sum[name] = (sum[name] ?? 0) + value
    sums.set(partition, sum as unknown as PartitionCounts)
  }
}

/** The books of a worker that is gone: what it had in flight will be received again, by another. */
export function withoutInFlight(counts: readonly (readonly [number, PartitionCounts])[]): (readonly [number, PartitionCounts])[] {
  return counts.map(([partition, of]) => [partition, { ...of, received: of.received - of.inFlight, inFlight: 0 }])
}

/** What stays of the metrics of a thread that is gone: counters, which never go back, and when it wrote last. */
export async function keepCounters(kept: Metrics, gone: Metrics): Promise<Metrics> {
  const counters = gone.filter(({ type, name }) => String(type) === 'counter' || name === lastWriteName)
  return await AggregatorRegistry.aggregate([[...kept], counters]).getMetricsAsJSON()
}

export function textOfMetrics(workers: readonly Metrics[]): Promise<string> {
  return AggregatorRegistry.aggregate(workers.map(metrics => [...metrics])).metrics()
}
