// A channel's series as charts that follow its stream, and further back what is stored.

import { html } from 'htm/preact'
import { useMemo, useState } from 'preact/hooks'
import { get, getPage } from '../api.js'
import { ChannelChoice, ChannelLine, messagesOf, saveCsv } from '../channel-choice.js'
import { Chart, swatch } from '../chart.js'
import { Action, Choice, count, Field, Named, Problem, rough, State, Table, timeOf } from '../elements.js'
import { loadHistory } from '../history.js'
import { enteredIn, useEvery, useFollowed, useLoaded } from '../hooks.js'
import { columnsOf, openStore, seriesMax } from '../points.js'

/** In seconds; `to`: undefined while it follows. @typedef {{ span: number, to: number | undefined }} Window */

/** Lengths of ranges in seconds, and what they are called. */
const spans = [10, 60, 600, 3600, 21_600, 86_400, 604_800, 2_592_000]
const spanNames = ['10 s', '1 min', '10 min', '1 hour', '6 hours', '1 day', '7 days', '30 days']
const spanMin = 0.1
const columns = 500
const drawMs = 100
/** Clocks of devices that are further ahead do not move the range. */
const aheadMax = 300
const filters = { publisher: 'Thing id', subtopic: 'Subtopic', name: 'Name', unit: 'Unit' }

/** @param {import('../session.js').ViewProps} props */
export function Live(props) {
  const [id] = props.route
  return id === undefined ? html`<${ChannelChoice} ...${props} />` : html`<${Channel} key=${id} id=${id} query=${props.query} />`
}

/** @param {{ id: string, query: Record<string, string> }} props `query`: a filter of the address */
function Channel({ id, query }) {
  const [filter, setFilter] = useState(Object.fromEntries(Object.entries(query).filter(([name]) => name in filters)))
  const change = (/** @type {any} */ event) => {
    const entered = enteredIn(event.currentTarget)
    setFilter(entered)
    history.replaceState(null, '', `#/live/${id}?${new URLSearchParams(entered)}`)
  }
  return html`<${ChannelLine} path="live" id=${id} />
    <details open=${Object.keys(query).length > 0}><summary>Only some series</summary>
      <form class="fields" onChange=${change}>
        ${Object.entries(filters).map(([name, label]) => html`<${Field} label=${label}><input name=${name} defaultValue=${query[name]} /><//>`)}
      </form>
    </details>
    <${Charts} key=${JSON.stringify(filter)} id=${id} filter=${filter} />`
}

/** @param {{ id: string, filter: Record<string, string>, first?: number, height?: number }} props `first`: the length of the range at first */
export function Charts({ id, filter, first = 60, height = 260 }) {
  const messages = messagesOf(id)
  const store = useMemo(openStore, [])
  const [window, setWindow] = useState(/** @type {Window} */ ({ span: first, to: undefined }))
  const [frames, draw] = useState(0)
  useEvery(drawMs, () => draw(frames => frames + 1))
  const { isOpen, error } = useFollowed(`${messages}/stream?${new URLSearchParams(filter)}`, ({ event, data }) => {
    if (event === 'lost') store.gaps++
    else if (event === undefined) store.add(JSON.parse(data))
  })

  const { span } = window
  const now = Date.now() / 1000
  const edge = store.newestTime < now + aheadMax ? Math.max(now, store.newestTime) : now
  const to = window.to ?? edge
  const range = { from: to - span, to }
  const query = { ...filter, from: range.from.toFixed(3), to: to.toFixed(3) }
  const history = useLoaded(signal => loadHistory(messages, query, span, store, signal), [window, isOpen, store.gaps])
  const past = history.value

  const all = [...store.series.values()]
  const drawn = all.filter(({ key, live }) => live.times.length > 0 || past?.of.has(key))
  // Columns that stay where they are while the range moves do not flicker.
  const width = span / columns
  const start = Math.floor(range.from / width) * width
  const times = Array.from({ length: 2 * (columns + 1) }, (_, at) => start + ((at + 0.5) * width) / 2)
  const valuesOf = (/** @type {import('../points.js').Series} */ { key, live }) =>
    columnsOf([live, past?.of.get(key) ?? { times: [], values: [] }], { from: start, to: start + (columns + 1) * width }, columns + 1)
  const move = (/** @type {number} */ by) => setWindow({ span, to: Math.min(edge, to + by * span) })
  const zoom = (/** @type {import('../chart.js').Range} */ { from, to }) => setWindow({ span: Math.max(spanMin, to - from), to })
  const csv = new URLSearchParams({ ...query, limit: 'all', dir: 'asc', csv_safe: 'true' })
  return html`<div class="row end">
      <div class="actions">
        <button type="button" class="main" onClick=${() => setWindow({ span, to: window.to === undefined ? edge : undefined })}>
          ${window.to === undefined ? 'Pause' : 'Continue'}
        </button>
        <button type="button" onClick=${() => move(-0.5)}>Earlier</button>
        <button type="button" disabled=${window.to === undefined} onClick=${() => move(0.5)}>Later</button>
        <${Action} action=${() => saveCsv(`${messages}?${csv}`)}>Save as CSV<//>
      </div>
      <${Choice} label="Length of the range" value=${span} options=${[...new Set([...spans, span])]} titles=${[...spanNames, `${rough(span)} s`]}
        onChange=${(/** @type {string} */ text) => setWindow({ ...window, span: Number(text) })} />
    </div>
    <p class="row small">
      <${State} state=${isOpen ? 'good' : 'waiting'}>${!isOpen ? 'connecting…' : window.to === undefined ? 'following' : 'paused: new points wait'}<//>
      <span class="quiet">${timeOf(range.from)} to ${timeOf(to)}</span>
      <span class="quiet">${count(store.points)} points since it was opened</span>
      <span class="quiet" role="status">${history.isLoading ? 'Loading what is stored…' : past && pastOf(past)}</span>
    </p>
    <${Problem} error=${error ?? history.error} />
    ${store.leftOut > 0 && html`<p class="notice">More than ${seriesMax} series: ${count(store.leftOut)} records of others are left out. Choose some above.</p>`}
    <section class="charts stack" aria-label="Charts" data-points=${store.points} data-frames=${frames}>
      ${[...Map.groupBy(drawn, ({ unit }) => unit)].map(
        ([unit, series]) => html`<section class="card" key=${JSON.stringify([unit, series.map(({ key }) => key)])}>
          <h2>${unit || 'Without a unit'}</h2>
          <${Chart} label=${`Chart of ${series.map(({ name }) => name).join(', ')}. The table below has the newest values.`}
            height=${height} range=${range} data=${[times, ...series.map(valuesOf)]} series=${series.map(lineOf)} onZoom=${zoom} />
        </section>`,
      )}
    </section>
    ${all.length === 0 && past && html`<${Nothing} id=${id} filter=${filter} onShow=${(/** @type {number} */ at) => setWindow({ span, to: at + span / 10 })} />`}
    ${
      all.length > 0 &&
      html`<${Table}
        caption="Series and their newest values"
        columns=${['Name', 'Newest value', 'Unit', 'Subtopic', 'Thing', 'Time']}
        empty=""
        rows=${all.map(series => ({
          key: series.key,
          cells: [
            html`${swatch(lineOf(series))} ${series.name}`,
            html`<code>${series.newest.text}</code>`,
            series.unit,
            series.subtopic,
            html`<${Named} kind="things" id=${series.publisher} />`,
            timeOf(series.newest.time),
          ],
        }))}
      />`
    }`
}

/** What to say where no series is in the range: what the channel has before it. @param {{ id: string, filter: Record<string, string>, onShow: (at: number) => void }} props */
function Nothing({ id, filter, onShow }) {
  const newest = useLoaded(async signal => (await getPage(messagesOf(id), { ...filter, limit: '1' }, signal)).messages[0], [])
  const formats = useLoaded(signal => get(messagesOf(id).replace(/messages$/, 'formats'), { signal }), [])
  const time = newest.value?.Time
  const others = (formats.value?.formats ?? []).filter((/** @type {{ format: string }} */ { format }) => format !== 'messages')
  return html`<div class="table"><div class="empty">
    ${
      time === undefined
        ? html`<p>No series yet. SenML records appear here as soon as they come.</p>`
        : html`<p>No record is in this range: the newest one is of ${timeOf(time)}.</p>
            <button type="button" class="main" onClick=${() => onShow(time)}>Show it</button>`
    }
    ${others.length > 0 && html`<p class="quiet">JSON documents are no series: they are in the <a href=${`#/explorer/${id}`}>explorer</a>.</p>`}
  </div></div>`
}

/** @param {import('../points.js').Series} series */
function lineOf({ place, name, subtopic, publisher }) {
  const hue = Math.round((place * 137.5 + 190) % 360)
  const label = html`${[name, subtopic].filter(text => text !== '').join(', ')} of <${Named} kind="things" id=${publisher} />`
  return { label, color: `light-dark(hsl(${hue} 80% 30%), hsl(${hue} 70% 70%))`, isDashed: place % 2 === 1 }
}

/** @param {import('../history.js').History} history */
function pastOf({ interval, of, isCut }) {
  const stored = interval === undefined ? [...of.values()].reduce((sum, { times }) => sum + times.length, 0) : undefined
  const what = stored === undefined ? `Stored: smallest and largest of each ${interval} seconds` : `${count(stored)} stored points`
  return isCut ? `${what}; some are left out, as there are too many series` : what
}
