// What the pieces of a question found, made one: buckets, and the newest row of each series.

import { bucketOrder, charactersOf, groupKey } from '../groups.ts'
import type { AggregateQuery, PageQuery, RowKey } from '../query.ts'
import { type Bucket, type Grouped, openGroupLimit } from '../reader.ts'
import { type BucketColumns, type SeriesColumns, toBucket } from './rows.ts'

export interface MergedBuckets {
  /** @param found of a piece, in their order, of an average the sums; pieces come in the query's direction */
  add(found: readonly BucketColumns[]): void
  page(): Grouped<Bucket>
}

export function mergeBuckets({ channel, aggregation, direction, limit, offset }: AggregateQuery): MergedBuckets {
  const merged = new Map<string, Bucket>()
  const enter = openGroupLimit('buckets')
  const isOfLaterPiece = (aggregation === 'last') === (direction === 'asc')

  function valueOf(before: number, found: number): number {
    if (aggregation === 'min') return Math.min(before, found)
    if (aggregation === 'max') return Math.max(before, found)
    if (aggregation === 'first' || aggregation === 'last') return isOfLaterPiece ? found : before
    return before + found
  }

  return {
    add(found) {
      for (const columns of found) {
        const bucket = toBucket(columns, channel)
        const { timeUs, publisher, subtopic, name, unit } = bucket
        const key = groupKey([timeUs, publisher, subtopic, name, unit ?? null])
        const before = merged.get(key)
        if (before === undefined) enter(charactersOf([publisher, subtopic, name, unit ?? '']))
        merged.set(
          key,
          before === undefined ? bucket : { ...before, value: valueOf(before.value, bucket.value), count: before.count + bucket.count },
        )
      }
    },
    page() {
      // They are nearly in order, which a sort makes use of.
      const groups = [...merged.values()].toSorted(bucketOrder(direction)).slice(offset, offset + limit)
      const isAverage = aggregation === 'avg'
      return { groups: isAverage ? groups.map(group => ({ ...group, value: group.value / group.count })) : groups, total: merged.size }
    },
  }
}

export interface MergedSeries {
  /** @param found of a piece, newest first; pieces come newest first */
  add(found: readonly SeriesColumns[]): void
  /** Keys of the rows that the page shows. */
  page(): RowKey[]
  total(): number
}

/** @param unitNs of the times that are found */
export function mergeSeries({ direction, after, offset, limit }: PageQuery, unitNs: bigint): MergedSeries {
  const newest = new Map<string, RowKey>()
  const enter = openGroupLimit('series')
  return {
    add(found) {
      for (const { series, time, position, index } of found) {
        const key = groupKey(series)
        if (newest.has(key)) continue
        enter(charactersOf(series))
        newest.set(key, { timeNs: BigInt(time) * unitNs, position: BigInt(position), index })
      }
    },
    page() {
      const keys = [...newest.values()]
      if (direction === 'asc') keys.reverse()
      const isBehind = (key: RowKey): boolean => (direction === 'desc' ? isNewer(after!, key) : isNewer(key, after!))
      const first = after === undefined ? 0 : keys.findIndex(isBehind)
      return first < 0 ? [] : keys.slice(first + offset, first + offset + limit)
    },
    total: () => newest.size,
  }
}

function isNewer(one: RowKey, other: RowKey): boolean {
  if (one.timeNs !== other.timeNs) return one.timeNs > other.timeNs
  return one.position === other.position ? one.index > other.index : one.position > other.position
}
