// Which partition of which log a message is in. A writer may read several logs, so a partition's number alone does not say it.

declare const brand: unique symbol

/**
 * A partition of a log, as one whole number, so that maps are keyed by it and columns hold it: log × 4096 + partition. `log` is the index of the
 * log among those that the writer reads, from 0. A source that reads one topic has log 0.
 */
export type LogPartition = number & { readonly [brand]: 'LogPartition' }

/** A column of them. */
export interface LogPartitions extends Uint32Array {
  [index: number]: LogPartition
}

const partitionBits = 12
/** Partitions that a log may have: a row's position has 12 bits for the partition. */
export const partitionsMax: number = 2 ** partitionBits
const partitionMax = partitionsMax - 1
/** Logs that a writer may read: a row's position has seven bits for the number of its log, which is never 0. */
export const logsMax: number = 2 ** 7 - 1
const logMax = logsMax - 1

/** @throws RangeError unless the log is a whole number from 0 to 126, and the partition one from 0 to 4095 */
export function logPartition(log: number, partition: number): LogPartition {
  if (!isIn(log, logMax) || !isIn(partition, partitionMax)) {
    throw new RangeError(`partition ${partition} of log ${log} is not one of 4096 partitions of 127 logs`)
  }
  return ((log << partitionBits) | partition) as LogPartition
}

function isIn(number: number, max: number): boolean {
  return Number.isInteger(number) && number >= 0 && number <= max
}

/** The index of the log among those that the writer reads. */
export function logOf(at: LogPartition): number {
  return at >>> partitionBits
}

/** The partition's number in its log. */
export function partitionOf(at: LogPartition): number {
  return at & partitionMax
}

/** For messages: `partition 3`, and `partition 3 of events` where several logs are read. */
export function partitionName(at: LogPartition, logNames: readonly string[] = []): string {
  const log = logOf(at)
  const name = `partition ${partitionOf(at)}`
  return log === 0 && logNames.length < 2 ? name : `${name} of ${logNames[log] ?? `log ${log}`}`
}
