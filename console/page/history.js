// What a channel stored in a range of time: its records if they are few, else smallest, mean and largest of buckets.

import { get } from './api.js'
import { note, numberOf } from './points.js'

/** @typedef {import('./points.js').Range} Range */
/** @typedef {{ times: number[], low: number[], mid: number[], high: number[], size: number }} Past */
/** `interval`: length of the buckets in seconds, undefined for records; `isCut`: older ones are missing. @typedef {{ range: Range, interval: number | undefined, of: ReadonlyMap<string, Past>, isCut: boolean }} History */

const pageSize = 1000
const recordsMax = 10_000
const bucketsMax = 10_000
/** In a range, of one series. */
const bucketsWanted = 200
const [minute, hour, day] = [60, 3600, 86_400]
const intervals = [
  1,
  2,
  5,
  10,
  15,
  30,
  ...[1, 2, 5, 10, 15, 30].map(n => n * minute),
  ...[1, 2, 3, 6, 12].map(n => n * hour),
  ...[1, 2, 7, 30].map(n => n * day),
]

/** Seconds of a bucket. @param {Range} range */
export function intervalFor({ from, to }) {
  return intervals.find(interval => interval * bucketsWanted >= to - from) ?? 365 * day
}

/** In seconds, as the reader takes it. @param {Range} range */
export function asQuery({ from, to }) {
  return { from: from.toFixed(3), to: to.toFixed(3) }
}

/**
 * @param {string} path of the messages
 * @param {Record<string, string>} filter
 * @param {Range} range
 * @param {import('./points.js').Store} store gets the series that it did not know
 * @param {AbortSignal} signal
 * @returns {Promise<History>}
 */
export async function loadHistory(path, filter, range, store, signal) {
  /** @type {Map<string, Past>} */
  const of = new Map()
  /** @param {any} record @param {number | undefined} low @param {number} [mid] @param {number} [high] */
  const add = (record, low, mid = low, high = low, shift = 0) => {
    const series = store.seriesOf(record)
    if (series === undefined) return
    note(series, record)
    if (low === undefined || mid === undefined || high === undefined) return
    let past = of.get(series.key)
    if (past === undefined) of.set(series.key, (past = { times: [], low: [], mid: [], high: [], size: 0 }))
    past.times.push(record.Time + shift)
    past.low.push(low)
    past.mid.push(mid)
    past.high.push(high)
    past.size++
  }
  const query = { ...filter, ...asQuery(range), limit: pageSize }
  let page = await get(path, { query, signal })
  if (page.total_is_lower_bound !== true && page.total <= recordsMax) {
    for (;;) {
      for (const record of page.messages) add(record, numberOf(record))
      if (page.next_cursor === undefined) return { range, interval: undefined, of, isCut: false }
      page = await get(path, { query: { ...query, cursor: page.next_cursor, count: 'none' }, signal })
    }
  }

  const interval = intervalFor(range)
  const buckets = async (/** @type {string} */ aggregation) => {
    /** @type {any[]} */
    const all = []
    for (;;) {
      const { messages } = await get(path, {
        query: { ...query, aggregation, interval: `${interval}s`, offset: all.length, count: 'none' },
        signal,
      })
      all.push(...messages)
      if (messages.length < pageSize || all.length >= bucketsMax) return all
    }
  }
  const [low, mid, high] = await Promise.all(['min', 'avg', 'max'].map(buckets))
  const keyOf = (/** @type {any} */ { Publisher, Subtopic, Name, Unit, Time }) => JSON.stringify([Publisher, Subtopic, Name, Unit, Time])
  const values = (/** @type {any[]} */ all) => new Map(all.map(bucket => [keyOf(bucket), Number(bucket.Value)]))
  const [lows, highs] = [values(low ?? []), values(high ?? [])]
  for (const bucket of mid ?? []) {
    const key = keyOf(bucket)
    // New records may come between the three requests.
    add(bucket, lows.get(key) ?? bucket.Value, bucket.Value, highs.get(key) ?? bucket.Value, interval / 2)
  }
  return { range, interval, of, isCut: (mid ?? []).length >= bucketsMax }
}
