// A channel's series as charts that follow its stream, and further back what is stored.

import { html } from 'htm/preact'
import { useEffect, useMemo, useState } from 'preact/hooks'
import { ChannelChoice, ChannelLine, messagesOf, saveCsv } from '../channel-choice.js'
import { Chart } from '../chart.js'
import { Action, Choice, count, Field, Named, Problem, rough, State, Table, timeOf } from '../elements.js'
import { loadHistory } from '../history.js'
import { enteredIn, useFollowed, useLoaded } from '../hooks.js'
import { columnsOf, openStore, seriesMax } from '../points.js'

/** In seconds; `to`: undefined while it follows. @typedef {{ span: number, to: number | undefined }} Window */

/** Lengths of ranges in seconds, and what they are called. */
const spans = [10, 60, 600, 3600, 21_600, 86_400, 604_800, 2_592_000]
const spanNames = ['10 s', '1 min', '10 min', '1 hour', '6 hours', '1 day', '7 days', '30 days']
const spanMin = 0.1
const columns = 500
const height = 260
const drawMs = 100
/** Clocks of devices that are further ahead do not move the range. */
const aheadMax = 300
const filters = { publisher: 'Thing id', subtopic: 'Subtopic', name: 'Name', unit: 'Unit' }

/** @param {import('../session.js').ViewProps} props */
export function Live(props) {
  const [id] = props.route
  return id === undefined ? html`<${ChannelChoice} ...${props} />` : html`<${Channel} key=${id} id=${id} />`
}

/** @param {{ id: string }} props */
function Channel({ id }) {
  const [filter, setFilter] = useState(/** @type {Record<string, string>} */ ({}))
  return html`<${ChannelLine} path="live" id=${id} />
    <details><summary>Only some series</summary>
      <form class="cards" onChange=${(/** @type {any} */ event) => setFilter(enteredIn(event.currentTarget))}>
        ${Object.entries(filters).map(([name, label]) => html`<${Field} label=${label}><input name=${name} /><//>`)}
      </form>
    </details>
    <${Charts} key=${JSON.stringify(filter)} messages=${messagesOf(id)} filter=${filter} />`
}

/** @param {{ messages: string, filter: Record<string, string> }} props */
function Charts({ messages, filter }) {
  const store = useMemo(openStore, [])
  const [window, setWindow] = useState(/** @type {Window} */ ({ span: 60, to: undefined }))
  const [frames, draw] = useState(0)
  useEffect(() => {
    const timer = setInterval(() => draw(frames => frames + 1), drawMs)
    return () => clearInterval(timer)
  }, [])
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
  return html`<div class="row">
      <button type="button" class="main" onClick=${() => setWindow({ span, to: window.to === undefined ? edge : undefined })}>
        ${window.to === undefined ? 'Pause' : 'Continue'}
      </button>
      <button type="button" onClick=${() => move(-0.5)}>Earlier</button>
      <button type="button" disabled=${window.to === undefined} onClick=${() => move(0.5)}>Later</button>
      <${Choice} label="Length of the range" value=${span} options=${[...new Set([...spans, span])]} titles=${[...spanNames, `${rough(span)} s`]}
        onChange=${(/** @type {string} */ text) => setWindow({ ...window, span: Number(text) })} />
      <${Action} action=${() => saveCsv(`${messages}?${csv}`)}>Save as CSV<//>
    </div>
    <p class="row">
      <${State} state=${isOpen ? 'good' : 'waiting'}>${!isOpen ? 'connecting…' : window.to === undefined ? 'following' : 'paused: new points wait'}<//>
      <span class="quiet">${timeOf(range.from)} to ${timeOf(to)}</span>
      <span class="quiet">${count(store.points)} points since it was opened</span>
      <span class="quiet" role="status">${history.isLoading ? 'Loading what is stored…' : past && pastOf(past)}</span>
    </p>
    <${Problem} error=${error ?? history.error} />
    ${store.leftOut > 0 && html`<p class="notice">More than ${seriesMax} series: ${count(store.leftOut)} records of others are left out. Choose some above.</p>`}
    <section class="charts" aria-label="Charts" data-points=${store.points} data-frames=${frames}>
      ${[...Map.groupBy(drawn, ({ unit }) => unit)].map(
        ([unit, series]) => html`<section class="card" key=${JSON.stringify([unit, series.map(({ key }) => key)])}>
          <h2>${unit || 'Without a unit'}</h2>
          <${Chart} label=${`Chart of ${series.map(({ name }) => name).join(', ')}. The table below has the newest values.`}
            height=${height} range=${range} data=${[times, ...series.map(valuesOf)]} series=${series.map(lineOf)} onZoom=${zoom} />
        </section>`,
      )}
    </section>
    <${Table}
      caption="Series and their newest values"
      columns=${['Thing', 'Subtopic', 'Name', 'Unit', 'Newest value', 'Time']}
      empty="No series yet. SenML records appear here as soon as they come; JSON documents are in the explorer."
      rows=${all.map(({ key, publisher, subtopic, name, unit, newest }) => ({
        key,
        cells: [
          html`<${Named} kind="things" id=${publisher} />`,
          subtopic,
          name,
          unit,
          html`<code>${newest.text}</code>`,
          timeOf(newest.time),
        ],
      }))}
    />`
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
