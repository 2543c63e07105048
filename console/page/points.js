// Points of series in bounded memory, and the columns of a chart made of them.

/** @typedef {import('./views/overview.js').DeviceRecord & { Publisher: string, Subtopic: string, Name: string, Time: number }} SenmlRecord */
/** Points in any order; `low`, `mid` and `high` are the same but for buckets. @typedef {{ times: ArrayLike<any>, low: ArrayLike<any>, mid: ArrayLike<any>, high: ArrayLike<any>, size: number }} Points */
/** @typedef {{ key: string, place: number, publisher: string, subtopic: string, name: string, unit: string, newest: { time: number, text: string }, ring: Ring }} Series */
/** @typedef {ReturnType<typeof openRing>} Ring */
/** Seconds since 1970. @typedef {{ from: number, to: number }} Range */

export const seriesMax = 32
/** Points of one series. */
export const ringMax = 65_536
const ringMin = 256
const textMax = 200
/** Of numbers in a chart, so that no range overflows a double. */
const magnitudeMax = 1e300

/** The newest points of one series: it grows up to `max`, then the oldest are overwritten. */
export function openRing(max = ringMax) {
  let times = new Float64Array(ringMin)
  let values = new Float64Array(ringMin)
  let pushed = 0
  return {
    /** @param {number} time @param {number} value */
    push(time, value) {
      if (pushed === times.length && pushed < max) {
        const [oldTimes, oldValues, size] = [times, values, Math.min(max, pushed * 2)]
        times = new Float64Array(size)
        values = new Float64Array(size)
        times.set(oldTimes)
        values.set(oldValues)
      }
      times[pushed % times.length] = time
      values[pushed % values.length] = Math.max(-magnitudeMax, Math.min(magnitudeMax, value))
      pushed++
    },
    /** @returns {Points} */
    points: () => ({ times, low: values, mid: values, high: values, size: Math.min(pushed, times.length) }),
    /** The time of the oldest point since which none was overwritten; -Infinity if all are here. */
    completeSince: () => (pushed <= times.length ? -Infinity : /** @type {number} */ (times[pushed % times.length])),
  }
}

/** @typedef {ReturnType<typeof openStore>} Store */

/** The series of a channel, by publisher, subtopic, name and unit. */
export function openStore() {
  /** @type {Map<string, Series>} */
  const series = new Map()
  const store = {
    series,
    /** Numbers and booleans that came. */
    points: 0,
    /** Records of series beyond the first ones. */
    leftOut: 0,
    newestTime: -Infinity,
    /** @param {SenmlRecord} record @returns {Series | undefined} undefined if there are too many */
    seriesOf({ Publisher: publisher, Subtopic: subtopic, Name: name, Unit: unit = '' }) {
      const key = JSON.stringify([publisher, subtopic, name, unit])
      let found = series.get(key)
      if (found === undefined && series.size < seriesMax) {
        found = { key, place: series.size, publisher, subtopic, name, unit, newest: { time: -Infinity, text: '' }, ring: openRing() }
        series.set(key, found)
      }
      return found
    },
    /** @param {SenmlRecord} record */
    add(record) {
      const found = store.seriesOf(record)
      if (found === undefined) {
        store.leftOut++
        return
      }
      note(found, record)
      const value = numberOf(record)
      if (value === undefined) return
      found.ring.push(record.Time, value)
      store.points++
      store.newestTime = Math.max(store.newestTime, record.Time)
    },
    completeSince: () => Math.max(...[...series.values()].map(({ ring }) => ring.completeSince())),
  }
  return store
}

/** The number that a chart shows; of a boolean 0 or 1. @param {SenmlRecord} record */
export function numberOf({ Value, BoolValue }) {
  return Value ?? (BoolValue === undefined ? undefined : Number(BoolValue))
}

/** Remembers the value, if it is the newest. @param {Series} series @param {SenmlRecord} record */
export function note(series, record) {
  const { Time: time, Value, StringValue, BoolValue, DataValue, Sum } = record
  if (time < series.newest.time) return
  const text = Value ?? StringValue ?? BoolValue ?? DataValue ?? (Sum === undefined ? '' : `sum ${Sum}`)
  series.newest = { time, text: String(text).slice(0, textMax) }
}

/**
 * Smallest, mean and largest value in each of `number` columns of a range, null where there is none: all that a screen of that many pixels shows.
 *
 * @param {readonly Points[]} sources
 * @param {Range} range
 * @param {number} number
 */
export function columnsOf(sources, { from, to }, number) {
  const empty = () => Array.from({ length: number }, () => /** @type {any} */ (null))
  const [low, mid, high, counts] = [empty(), empty(), empty(), /** @type {any} */ (new Uint32Array(number))]
  const scale = number / (to - from)
  for (const { times, low: lows, mid: mids, high: highs, size } of sources) {
    for (let at = 0; at < size; at++) {
      const column = Math.floor((times[at] - from) * scale)
      if (!(column >= 0 && column < number)) continue
      const count = ++counts[column]
      if (count === 1) {
        low[column] = lows[at]
        mid[column] = mids[at]
        high[column] = highs[at]
      } else {
        if (lows[at] < low[column]) low[column] = lows[at]
        if (highs[at] > high[column]) high[column] = highs[at]
        mid[column] += (mids[at] - mid[column]) / count
      }
    }
  }
  return { low, mid, high }
}
