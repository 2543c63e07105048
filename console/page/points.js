// Points of a channel's series in bounded memory, and the columns of a chart made of them.

/** @typedef {Record<'Channel' | 'Publisher' | 'Subtopic' | 'Name', string> & { Time: number, Unit?: string }} RecordHead */
/** @typedef {RecordHead & { Value?: number, StringValue?: string, BoolValue?: boolean, DataValue?: string, Sum?: number }} SenmlRecord */
/** In any order. @typedef {{ times: number[], values: number[] }} Points */
/** @typedef {{ key: string, place: number, publisher: string, subtopic: string, name: string, unit: string, newest: { time: number, text: string }, live: Points }} Series */
/** @typedef {ReturnType<typeof openStore>} Store */

export const seriesMax = 32
/** Of one series. */
export const pointsMax = 65_536
const textMax = 200
/** Of numbers in a chart, so that no range overflows a double. */
const magnitudeMax = 1e300

/** The series of a channel, by publisher, subtopic, name and unit. */
export function openStore() {
  const store = {
    /** @type {Map<string, Series>} */
    series: new Map(),
    /** Numbers and booleans that came. */
    points: 0,
    /** Records of series beyond the first ones. */
    leftOut: 0,
    newestTime: -Infinity,
    /** How often points were dropped or missed that are stored. */
    gaps: 0,

    /** The series of a record, which may become its newest. @param {SenmlRecord} record @returns {Series | undefined} undefined if there are too many */
    seriesOf({ Publisher: publisher, Subtopic: subtopic, Name: name, Unit: unit = '', Time: time, ...values }) {
      const key = JSON.stringify([publisher, subtopic, name, unit])
      let found = store.series.get(key)
      if (found === undefined) {
        if (store.series.size === seriesMax) return undefined
        const place = store.series.size
        found = { key, place, publisher, subtopic, name, unit, newest: { time: -Infinity, text: '' }, live: { times: [], values: [] } }
        store.series.set(key, found)
      }
      if (time >= found.newest.time) found.newest = { time, text: textOf(values) }
      return found
    },

    /** @param {SenmlRecord} record that is new */
    add(record) {
      const live = store.seriesOf(record)?.live
      if (live === undefined) {
        store.leftOut++
        return
      }
      if (!push(live, record)) return
      store.points++
      store.newestTime = Math.max(store.newestTime, record.Time)
      if (live.times.length <= pointsMax) return
      live.times.splice(0, pointsMax / 2)
      live.values.splice(0, pointsMax / 2)
      store.gaps++
    },
  }
  return store
}

/** The value of a record. @param {Pick<SenmlRecord, 'Value' | 'StringValue' | 'BoolValue' | 'DataValue' | 'Sum'>} record */
export function textOf({ Value, StringValue, BoolValue, DataValue, Sum }) {
  return String(Value ?? StringValue ?? BoolValue ?? DataValue ?? `sum ${Sum}`).slice(0, textMax)
}

/** Adds a number, or a boolean as 0 or 1. @param {Points} points @param {SenmlRecord} record @returns {boolean} false for any other value */
export function push({ times, values }, { Time, Value, BoolValue }) {
  const value = Value ?? (BoolValue === undefined ? undefined : Number(BoolValue))
  if (value === undefined) return false
  times.push(Time)
  values.push(Math.max(-magnitudeMax, Math.min(magnitudeMax, value)))
  return true
}

/**
 * Smallest and largest value in each of `number` columns of a range, in turn, null where there is none: all that a screen of that many pixels shows.
 * @param {readonly Points[]} sources @param {import('./chart.js').Range} range @param {number} number
 */
export function columnsOf(sources, { from, to }, number) {
  const columns = Array.from({ length: 2 * number }, () => /** @type {number | null} */ (null))
  const scale = number / (to - from)
  for (const { times, values } of sources) {
    for (let at = 0; at < times.length; at++) {
      const [time, value] = [times[at] ?? NaN, values[at] ?? NaN]
      const low = 2 * Math.floor((time - from) * scale)
      if (!(low >= 0 && low < columns.length)) continue
      columns[low] = Math.min(columns[low] ?? value, value)
      columns[low + 1] = Math.max(columns[low + 1] ?? value, value)
    }
  }
  return columns
}
