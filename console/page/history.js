// What a channel stored in a range of time: its records if they are few, else the smallest and the largest value of buckets.

import { getPage } from './api.js'
import { push } from './points.js'

/** @typedef {import('./points.js').Points} Points */
/** @typedef {{ interval: number | undefined, isCut: boolean, of: ReadonlyMap<string, Points> }} History of buckets of so many seconds, else of records */

const recordsMax = 10_000
/** In a range, of one series. */
const bucketsMax = 200

/**
 * @param {string} path of the messages @param {Record<string, string>} filter with the range @param {number} span of the range in seconds
 * @param {import('./points.js').Store} store gets the series that it did not know @param {AbortSignal} signal @returns {Promise<History>}
 */
export async function loadHistory(path, filter, span, store, signal) {
  /** @type {Map<string, Points>} */
  const of = new Map()
  /** Page by page. @param {Record<string, string>} query @param {number} shift of the times */
  const load = async (query, shift) => {
    /** @type {Record<string, string> | undefined} */
    let next = { ...filter, ...query, limit: '1000' }
    for (let loaded = 0; next !== undefined; ) {
      if (loaded >= recordsMax) return true
      const page = await getPage(path, next, signal)
      for (const record of page.messages) {
        const series = store.seriesOf(record)
        if (series === undefined) continue
        const points = of.get(series.key) ?? { times: [], values: [] }
        if (push(points, { ...record, Time: record.Time + shift })) of.set(series.key, points)
      }
      loaded += page.messages.length
      next = page.next
    }
    return false
  }

  const { total = Infinity, total_is_lower_bound: isMore = false } = await getPage(path, { ...filter, limit: '1' }, signal)
  if (!isMore && total <= recordsMax) return { interval: undefined, isCut: await load({}, 0), of }
  const interval = Math.max(1, Math.ceil(span / bucketsMax))
  const cut = await Promise.all([
    load({ aggregation: 'min', interval: `${interval}s` }, interval / 3),
    load({ aggregation: 'max', interval: `${interval}s` }, (interval * 2) / 3),
  ])
  return { interval, isCut: cut.includes(true), of }
}
