// Answers over several channels of one store, from what it answers for each: rows in their order, totals, and buckets.
//
// Every query is of one channel, so that no store needs another statement. A position is of one message, so the order of rows is total over all channels,
// and a cursor is one key, whatever their number.

import { eachAtOnce } from '../../config/each-at-once.ts'
import { bucketOrder, charactersOf, openGroupLimit } from '../groups.ts'
import { type AggregateQuery, type Bucket, compareRows, type Grouped, type PageQuery, type Row } from '../reader.ts'

/** What one request asks for at once: each query takes its turn among those of all accounts. */
export const channelsAtOnceMax = 8

/** A channel's rows that were read and not returned yet. */
interface Source {
  readonly channel: string
  readonly chunks: AsyncGenerator<readonly Row[]>
  rows: readonly Row[]
  /** With as many rows or fewer, the next ones are read as soon as those of another channel are. */
  low: number
  isOver: boolean
}

/**
 * Rows of all channels in the direction, from the offset on. Of each channel a chunk and a half is in memory.
 *
 * @param open returns a channel's rows, chunk by chunk and without an offset; it calls `onLast` once the next chunk is the last
 * @param onRead called before each round of reads with those channels of the round that were in the last one too, and the rows in memory of each channel
 */
export async function* mergeRows(
  channels: readonly string[],
  { direction, offset }: Pick<PageQuery, 'direction' | 'offset'>,
  open: (channel: string, onLast: () => void) => AsyncGenerator<readonly Row[]>,
  onRead: (busy: readonly string[], held: readonly { readonly rows: readonly Row[] }[]) => void,
): AsyncGenerator<readonly Row[]> {
  const sign = direction === 'desc' ? -1 : 1
  const inOrder = (one: Row, other: Row): number => sign * compareRows(one, other)
  const sources = channels.map(channel => {
    const source: Source = { channel, chunks: open(channel, () => void (source.isOver = true)), rows: [], low: 0, isOver: false }
    return source
  })
  let left = offset
  let lacking: readonly Source[] = sources
  for (;;) {
    const before = lacking
    lacking = sources.filter(({ rows, low, isOver }) => !isOver && rows.length <= low)
    const busy = lacking.filter(source => before.includes(source))
    onRead(
      busy.map(({ channel }) => channel),
      sources,
    )
    await eachAtOnce(lacking, channelsAtOnceMax, refill)
    // Rows up to the first end of what was read of a channel: none of them can follow later.
    const ends = sources.flatMap(({ rows, isOver }) => (isOver ? [] : [rows.at(-1)!]))
    const end = ends.reduce<Row | undefined>((first, row) => (first === undefined || inOrder(row, first) < 0 ? row : first), undefined)
    const ready = sources.flatMap(source => takeUntil(source, end, inOrder)).sort(inOrder)
    const skipped = Math.min(left, ready.length)
    left -= skipped
    if (ready.length > skipped) yield ready.slice(skipped)
    if (end === undefined) return
  }
}

async function refill(source: Source): Promise<void> {
  const { done, value } = await source.chunks.next()
  if (done === true) {
    source.isOver = true
    return
  }
  source.rows = [...source.rows, ...value]
  source.low = value.length / 2
}

/** Removes the rows up to `end`, or all, and returns them. */
function takeUntil(source: Source, end: Row | undefined, inOrder: (one: Row, other: Row) => number): readonly Row[] {
  const { rows } = source
  const behind = end === undefined ? -1 : rows.findIndex(row => inOrder(row, end) > 0)
  const taken = behind < 0 ? rows.length : behind
  source.rows = rows.slice(taken)
  return rows.slice(0, taken)
}

/**
 * The number of rows of all channels, counted up to `max`; `max + 1` if there are more.
 *
 * @param count counts a channel likewise
 */
export async function countAll(
  channels: readonly string[],
  max: number,
  count: (channel: string, max: number) => Promise<number>,
): Promise<number> {
  let total = 0
  await eachAtOnce(channels, channelsAtOnceMax, async channel => {
    if (total > max) return
    const counted = await count(channel, max - total)
    total += counted
  })
  return Math.min(total, max + 1)
}

/**
 * A page of the buckets of all channels.
 *
 * @throws QueryTooLargeError if those up to the end of the page are more than one query may have
 */
export async function mergeBuckets(
  channels: readonly string[],
  query: AggregateQuery,
  aggregate: (query: AggregateQuery) => Promise<Grouped<Bucket>>,
): Promise<Grouped<Bucket>> {
  if (channels.length === 1) return await aggregate(query)
  const { direction, offset, limit } = query
  const enter = openGroupLimit('buckets')
  const buckets: Bucket[] = []
  let total = 0
  await eachAtOnce(channels, channelsAtOnceMax, async channel => {
    const found = await aggregate({ ...query, channel, offset: 0, limit: offset + limit })
    total += found.total
    for (const bucket of found.groups) {
      enter(charactersOf([bucket.publisher, bucket.subtopic, bucket.name, bucket.unit ?? '']))
      buckets.push(bucket)
    }
  })
  buckets.sort(bucketOrder(direction))
  return { groups: buckets.slice(offset, offset + limit), total }
}
