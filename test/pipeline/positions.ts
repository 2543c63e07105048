// Short notation for positions in a source's only log.

import { type LogPartition, logPartition } from '../../transformers/log-partition.ts'

/** By the number of the partition. */
export function positionsOf<Value = number>(byPartition: Readonly<Record<number, Value>>): Map<LogPartition, Value> {
  return new Map(Object.entries(byPartition).map(([partition, value]) => [logPartition(0, Number(partition)), value]))
}
