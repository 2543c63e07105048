// A channel's series as charts that follow its stream, and further back what is stored.

import { html } from 'htm/preact'
import { useEffect, useMemo, useRef, useState } from 'preact/hooks'
import { follow } from '../api.js'
import { ChannelChoice, ChannelLine, messagesOf, Publisher, saveCsv } from '../channel-choice.js'
import { openPlot } from '../chart.js'
import { Action, count, Field, Problem, State, Table, timeOf } from '../elements.js'
import { asQuery, intervalFor, loadHistory } from '../history.js'
import { columnsOf, openStore, seriesMax } from '../points.js'

/** @typedef {import('../points.js').Series} Series */
/** @typedef {import('../points.js').Range} Range */
/** `to`: undefined while it follows. @typedef {{ span: number, to: number | undefined }} Window in seconds */

const second = /** @type {const} */ ([1, 'second'])
const [minute, hour, day] = [60, 3600, 86_400]
const units = /** @type {const} */ ([[day, 'day'], [hour, 'hour'], [minute, 'minute'], second])
const spans = [10, minute, 10 * minute, hour, 6 * hour, day, 7 * day, 30 * day]
const spanMin = 0.1
const spanMax = 366 * day
const columns = 500
const height = 260
const tickMs = 500
const reloadMs = 5000
/** Without new points, a chart that follows is drawn this often. */
const idleMs = 250
/** Clocks of devices that are further ahead do not move the range. */
const aheadMax = 300
const filters = { publisher: 'Thing id', subtopic: 'Subtopic', name: 'Name', unit: 'Unit' }
const markedMax = 60

/** @param {import('../session.js').ViewProps} props */
export function Live({ route: [id], home }) {
  const [filter, setFilter] = useState(/** @type {Record<string, string>} */ ({}))
  useEffect(() => setFilter({}), [id])
  if (id === undefined) return html`<${ChannelChoice} path="live" home=${home} />`
  return html`<${ChannelLine} path="live" id=${id} home=${home} />
    <details><summary>Only some series</summary>
      <div class="cards top">
        ${Object.entries(filters).map(
          ([name, label]) => html`<${Field} label=${label}
            ><input value=${filter[name] ?? ''} onChange=${(/** @type {any} */ { target }) => setFilter({ ...filter, [name]: target.value.trim() })}
          /><//>`,
        )}
      </div>
    </details>
    <${Charts} key=${JSON.stringify([id, filter])} id=${id} filter=${filter} home=${home} />`
}

/** @param {{ id: string, filter: Record<string, string>, home: import('../session.js').Home }} props */
function Charts({ id, filter, home }) {
  const store = useMemo(openStore, [])
  const [window, setWindow] = useState(/** @type {Window} */ ({ span: 60, to: undefined }))
  const [hidden, setHidden] = useState(/** @type {ReadonlySet<string>} */ (new Set()))
  const { isOpen, error, openedAt } = useStream(id, filter, store)
  const edge = () => {
    const now = Date.now() / 1000
    return store.newestTime < now + aheadMax ? Math.max(now, store.newestTime) : now
  }
  const range = () => ({ from: (window.to ?? edge()) - window.span, to: window.to ?? edge() })
  const { history, isLoading, problem } = useHistory(id, filter, store, range, openedAt)
  const area = useRef(/** @type {HTMLElement | null} */ (null))
  const draws = useRef(new Set(/** @type {(() => void)[]} */ ([])))

  useEffect(() => {
    let [isDue, drawn, drawnAt, frames] = [true, 0, 0, Number(area.current?.dataset['frames'] ?? 0)]
    let handle = requestAnimationFrame(function frame(at) {
      handle = requestAnimationFrame(frame)
      if (!isDue && (window.to !== undefined || (store.points === drawn && at - drawnAt < idleMs))) return
      ;[isDue, drawn, drawnAt] = [false, store.points, at]
      for (const draw of draws.current) draw()
      Object.assign(area.current?.dataset ?? {}, { frames: ++frames, points: drawn })
    })
    return () => cancelAnimationFrame(handle)
  }, [window, history, hidden])

  const all = [...store.series.values()]
  const shown = new Map(/** @type {[string, Series[]][]} */ ([]))
  for (const series of all) {
    const isNumeric = series.ring.points().size > 0 || history?.of.has(series.key)
    if (isNumeric && !hidden.has(series.key)) shown.set(series.unit, [...(shown.get(series.unit) ?? []), series])
  }
  const move = (/** @type {number} */ by) => setWindow({ span: window.span, to: Math.min(edge(), range().to + by * window.span) })
  const zoom = (/** @type {number} */ by) => {
    const span = Math.max(spanMin, Math.min(spanMax, window.span * by))
    setWindow({ span, to: window.to && Math.min(edge(), window.to - window.span / 2 + span / 2) })
  }
  const toggle = (/** @type {string} */ key) =>
    setHidden(hidden => new Set(hidden.has(key) ? [...hidden].filter(other => other !== key) : [...hidden, key]))
  const latest = { range, history }
  const state = useRef(latest)
  state.current = latest
  const now = range()
  return html`<div class="row tools">
      <button type="button" class="main" onClick=${() => setWindow({ span: window.span, to: window.to === undefined ? edge() : undefined })}>
        ${window.to === undefined ? 'Pause' : 'Continue'}
      </button>
      <button type="button" onClick=${() => move(-0.5)}>Earlier</button>
      <button type="button" disabled=${window.to === undefined} onClick=${() => move(0.5)}>Later</button>
      <button type="button" onClick=${() => zoom(0.5)}>Zoom in</button>
      <button type="button" onClick=${() => zoom(2)}>Zoom out</button>
      <select aria-label="Length of the range" value=${window.span} onChange=${(/** @type {any} */ { target }) => setWindow({ ...window, span: Number(target.value) })}>
        ${[...new Set([...spans, window.span])].map(span => html`<option value=${span}>${lengthOf(span)}</option>`)}
      </select>
      <${Action} action=${() => saveCsv(`${messagesOf(id)}?${new URLSearchParams({ ...given(filter), ...asQuery(range()), limit: 'all', dir: 'asc', csv_safe: 'true' })}`)}>Save as CSV<//>
    </div>
    <p class="row">
      ${isOpen ? html`<${State} state="good">${window.to === undefined ? 'following' : 'paused: new points wait'}<//>` : html`<${State} state="waiting">connecting…<//>`}
      <span class="quiet">${timeOf(now.from)} to ${timeOf(now.to)}</span>
      <span class="quiet">${count(store.points)} points since it was opened</span>
      <span class="quiet" role="status">${isLoading ? 'Loading what is stored…' : history && pastOf(history)}</span>
    </p>
    <${Problem} error=${error ?? problem} />
    ${store.leftOut > 0 && html`<p class="notice">More than ${seriesMax} series: ${count(store.leftOut)} records of others are left out. Choose some above.</p>`}
    <section ref=${area} class="charts" aria-label="Charts">
      ${[...shown].map(
        ([unit, series]) =>
          html`<${UnitChart} key=${JSON.stringify([unit, series.map(({ key }) => key)])} unit=${unit} series=${series} home=${home} state=${state} draws=${draws.current} onZoom=${setWindow} />`,
      )}
    </section>
    <${Table}
      caption="Series and their newest values"
      columns=${['Shown', 'Thing', 'Subtopic', 'Name', 'Unit', 'Newest value', 'Time']}
      empty="No series yet. SenML records appear here as soon as they come; JSON documents are in the explorer."
      rows=${all.map(series => ({
        key: series.key,
        cells: [
          html`<input type="checkbox" aria-label=${`Show ${series.name}`} checked=${!hidden.has(series.key)} onChange=${() => toggle(series.key)} />`,
          html`<${Publisher} id=${series.publisher} home=${home} />`,
          series.subtopic,
          series.name,
          series.unit,
          html`<code>${series.newest.text}</code>`,
          Number.isFinite(series.newest.time) && timeOf(series.newest.time),
        ],
      }))}
    />`
}

/** @param {string} id @param {Record<string, string>} filter @param {import('../points.js').Store} store */
function useStream(id, filter, store) {
  const [state, setState] = useState({ isOpen: false, openedAt: Infinity, error: /** @type {unknown} */ (undefined) })
  useEffect(() => {
    const stop = new AbortController()
    const lost = () => setState(state => ({ ...state, openedAt: Date.now() / 1000 }))
    follow(`${messagesOf(id)}/stream`, {
      query: filter,
      signal: stop.signal,
      onState: (now, error) =>
        setState(({ openedAt }) => ({
          isOpen: now === 'open',
          error,
          openedAt: now === 'open' ? Math.min(openedAt, Date.now() / 1000) : openedAt,
        })),
      onEvent({ event, data }) {
        if (event === 'lost') lost()
        else if (event === undefined) store.add(JSON.parse(data))
      },
    }).catch(error => setState(state => ({ ...state, isOpen: false, error })))
    return () => stop.abort()
  }, [])
  return state
}

/**
 * Loads what is stored of the shown range, where the rings do not reach.
 *
 * @param {string} id @param {Record<string, string>} filter @param {import('../points.js').Store} store @param {() => Range} range
 * @param {number} openedAt since when the rings have everything
 */
function useHistory(id, filter, store, range, openedAt) {
  const [state, setState] = useState({
    history: /** @type {import('../history.js').History | undefined} */ (undefined),
    isLoading: false,
    problem: /** @type {unknown} */ (undefined),
  })
  const [, setTick] = useState(0)
  const asked = useRef({ range: { from: 0, to: 0 }, at: -Infinity, stop: new AbortController() })
  const look = useRef(() => {})
  look.current = () => {
    setTick(tick => tick + 1)
    const { history } = state
    const shown = range()
    const end = Math.min(shown.to, Math.max(openedAt, store.completeSince()))
    const isMissing =
      shown.from < end &&
      (history === undefined ||
        shown.from < history.range.from ||
        end > history.range.to ||
        (history.interval ?? 0) > 2 * intervalFor(shown))
    const { current: last } = asked
    const isOther = shown.from < last.range.from || shown.to - shown.from < (last.range.to - last.range.from) / 2
    if (!isMissing || performance.now() - last.at < (isOther ? tickMs : reloadMs)) return
    last.stop.abort()
    const stop = new AbortController()
    asked.current = { range: shown, at: performance.now(), stop }
    setState(state => ({ ...state, isLoading: true }))
    loadHistory(messagesOf(id), given(filter), shown, store, stop.signal).then(
      history => stop.signal.aborted || setState({ history, isLoading: false, problem: undefined }),
      problem => stop.signal.aborted || setState(state => ({ ...state, isLoading: false, problem })),
    )
  }
  useEffect(() => {
    const timer = setInterval(() => look.current(), tickMs)
    return () => (clearInterval(timer), asked.current.stop.abort())
  }, [])
  return state
}

/**
 * @param {{
 *   unit: string, series: readonly Series[], home: import('../session.js').Home,
 *   state: { current: { range: () => Range, history: import('../history.js').History | undefined } },
 *   draws: Set<() => void>, onZoom: (window: Window) => void,
 * }} props
 */
function UnitChart({ unit, series, home, state, draws, onZoom }) {
  const place = useRef(/** @type {HTMLDivElement | null} */ (null))
  useEffect(() => {
    const { current: target } = place
    if (target === null) return undefined
    /** @type {Range} */
    let shown
    let marked = 0
    const dataOf = () => {
      const { range, history } = state.current
      const { from, to } = range()
      // Columns that stay where they are while the range moves do not flicker.
      const width = (to - from) / columns
      const start = Math.floor(from / width) * width
      shown = { from, to }
      const x = Array.from({ length: columns + 1 }, (_, at) => start + (at + 0.5) * width)
      const lines = series.map(({ key, ring }) => {
        const past = history?.of.get(key)
        return columnsOf([...(past ? [past] : []), ring.points()], { from: start, to: start + (columns + 1) * width }, columns + 1)
      })
      marked = Math.max(...lines.map(({ mid }) => mid.filter(value => value !== null).length))
      target.parentElement?.toggleAttribute('hidden', marked === 0)
      return /** @type {import('uplot').AlignedData} */ ([x, ...lines.flatMap(({ low, mid, high }) => [low, mid, high])])
    }
    const plot = openPlot(
      target,
      height,
      color => ({
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, setScale: false } },
        scales: { x: { range: () => [shown.from, shown.to] }, y: { range: (_, low, high) => paddedRange(low, high) } },
        series: [
          {},
          ...series.flatMap(one => {
            const edge = { spanGaps: true, points: { show: false } }
            const line = {
              stroke: color(colorOf(one)),
              width: 1.5,
              spanGaps: true,
              points: { show: () => marked < markedMax },
              ...(one.place % 2 && { dash: [8, 3] }),
            }
            return [edge, line, edge]
          }),
        ],
        bands: series.map((one, at) => ({ series: [3 * at + 3, 3 * at + 1], fill: color(colorOf(one, 0.35)) })),
        hooks: {
          setSelect: [
            plot => {
              const { left, width } = plot.select
              if (width < 2) return
              const [from, to] = [plot.posToVal(left, 'x'), plot.posToVal(left + width, 'x')]
              plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false)
              onZoom({ span: Math.max(spanMin, to - from), to })
            },
          ],
        },
      }),
      dataOf,
    )
    draws.add(plot.draw)
    return () => (draws.delete(plot.draw), plot.close())
  }, [])
  const names = series.map(({ name }) => name).join(', ')
  return html`<section class="card">
    <h2>${unit || 'Without a unit'}</h2>
    <ul class="legend plain">
      ${series.map(
        one => html`<li><span class=${`key ${one.place % 2 ? 'dashed' : ''}`} style=${{ '--key': colorOf(one) }}>${[one.name, one.subtopic].filter(text => text !== '').join(', ')}</span> of${' '}
          <${Publisher} id=${one.publisher} home=${home} /></li>`,
      )}
    </ul>
    <div ref=${place} role="img" aria-label=${`Chart of ${names}. The table below has the newest values.`}></div>
  </section>`
}

/** Wide enough that ticks differ from each other as doubles. @param {number | null} low @param {number | null} high @returns {[number, number]} */
function paddedRange(low, high) {
  if (low === null || high === null) return [0, 1]
  const pad = Math.max((high - low) * 0.05, Math.abs(low) * 1e-6, Math.abs(high) * 1e-6, 1e-9)
  return [low - pad, high + pad]
}

/** @param {Series} series */
function colorOf({ place }, alpha = 1) {
  const hue = Math.round((place * 137.5 + 190) % 360)
  return `light-dark(hsl(${hue} 80% 30% / ${alpha}), hsl(${hue} 70% 70% / ${alpha}))`
}

/** @param {Record<string, string>} filter */
function given(filter) {
  return Object.fromEntries(Object.entries(filter).filter(([, text]) => text !== ''))
}

/** @param {number} seconds */
function lengthOf(seconds) {
  const [unit, name] = units.find(([unit]) => seconds >= unit) ?? second
  const number = Number((seconds / unit).toPrecision(3))
  return `${number} ${name}${number === 1 ? '' : 's'}`
}

/** @param {import('../history.js').History} history */
function pastOf({ interval, of, isCut }) {
  if (interval === undefined) return `${count([...of.values()].reduce((sum, { size }) => sum + size, 0))} stored points`
  return `Stored points in buckets of ${lengthOf(interval)}: mean, smallest and largest${isCut ? '; the oldest are left out, as there are too many series' : ''}`
}
