// Points of a channel's series in bounded memory, and the columns of a chart made of them.

/** @typedef {Record<'Channel' | 'Publisher' | 'Subtopic' | 'Name', string> & { Time: number, Unit?: string }} RecordHead */
/** @typedef {RecordHead & { Value?: number, StringValue?: string, BoolValue?: boolean, DataValue?: string, Sum?: number }} SenmlRecord */
/** In any order; texts are of a series of states. @typedef {{ times: number[], values: (number | string)[] }} Points */
/** @typedef {{ key: string, place: number, publisher: string, subtopic: string, name: string, unit: string, isState: boolean, newest: { time: number, text: string }, live: Points }} Series */
/** @typedef {ReturnType<typeof openStore>} Store */

export const seriesMax = 32
/** Of one series. */
export const pointsMax = 65_536
const textMax = 200
/** Of states that are drawn, and of usual steps between values, after which there is a gap. */
const [spansMax, gapSteps] = [500, 5]
/** Of numbers in a chart, so that no range overflows a double. */
const magnitudeMax = 1e300

/** The series of a channel, by publisher, subtopic, name and unit. */
export function openStore() {
  const store = {
    /** @type {Map<string, Series>} */
    series: new Map(),
    /** Values that came. */
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
        const isState = values.Value === undefined && values.Sum === undefined
        const newest = { time: -Infinity, text: '' }
        found = { key, place, publisher, subtopic, name, unit, isState, newest, live: { times: [], values: [] } }
        store.series.set(key, found)
      }
      if (time >= found.newest.time) found.newest = { time, text: textOf(values) }
      return found
    },

    /** @param {SenmlRecord} record that is new */
    add(record) {
      const series = store.seriesOf(record)
      if (series === undefined) store.leftOut++
      if (series === undefined || !push(series.live, record, series.isState)) return
      const { live } = series
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

/** Adds a number or, to a series of states, a text. @param {Points} points @param {SenmlRecord} record @param {boolean} isState @returns {boolean} false for any other value */
export function push({ times, values }, record, isState) {
  if (!isState && record.Value === undefined) return false
  times.push(record.Time)
  values.push(isState ? textOf(record) : Math.max(-magnitudeMax, Math.min(magnitudeMax, record.Value ?? 0)))
  return true
}

/**
 * The smallest and the largest value in each of `number` columns of a range: all that a screen of that many pixels shows. Undefined without one; null in
 * a gap, which is much longer than what is usual between the values.
 * @param {readonly Points[]} sources @param {import('./chart.js').Range} range @param {number} number
 */
export function columnsOf(sources, { from, to }, number) {
  const empty = () => Array.from({ length: number }, () => /** @type {number | null | undefined} */ (undefined))
  const [low, high] = [empty(), empty()]
  const scale = number / (to - from)
  for (const { times, values } of sources) {
    for (let at = 0; at < times.length; at++) {
      const [column, value] = [Math.floor(((times[at] ?? NaN) - from) * scale), Number(values[at])]
      if (!(column >= 0 && column < number)) continue
      low[column] = Math.min(low[column] ?? value, value)
      high[column] = Math.max(high[column] ?? value, value)
    }
  }
  const filled = [...low.keys()].filter(column => low[column] !== undefined)
  const steps = filled.map((column, nth) => (filled[nth + 1] ?? column) - column)
  const usual = steps.toSorted((one, other) => one - other)[steps.length >> 1] ?? 0
  for (const [nth, column] of filled.entries()) {
    const step = steps[nth] ?? 0
    if (step > gapSteps * usual) for (const one of [low, high]) one.fill(null, column + 1, column + step)
  }
  return [low, high]
}

/** How long each state lasted in a range. @param {readonly Points[]} sources @param {import('./chart.js').Range} range */
export function spansOf(sources, { from, to }) {
  /** @type {{ from: number, text: string }[]} */
  const found = []
  for (const { times, values } of sources)
    for (const [at, time] of times.entries()) if (time >= from && time < to) found.push({ from: time, text: String(values[at]) })
  const changes = found.toSorted((one, other) => one.from - other.from).filter(({ text }, at, all) => text !== all[at - 1]?.text)
  return changes.slice(-spansMax).map((one, at, all) => ({ ...one, to: all[at + 1]?.from ?? to }))
}
