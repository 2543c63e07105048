// A channel's series as charts that follow its stream, and further back what is stored; and choosing the channel, as in other views.

import { get, getPage, getPages, send } from '../api.js'
import { Bands, Chart, swatch } from '../chart.js'
import { Action, Card, Choice, count, Field, named, Problem, rough, State, Table, timeOf } from '../elements.js'
import { enteredIn, html, onSubmit, useEffect, useEvery, useFollowed, useLoaded, useMemo, useState } from '../hooks.js'
import { columnsOf, openStore, push, seriesMax, spansOf } from '../points.js'
import { ToBoard } from './fleet.js'
import { List } from './list.js'

/** @import { Series } from '../points.js' */
/** In seconds; `to`: undefined while it follows. @typedef {{ span: number, to: number | undefined }} Window */

/** Of buckets of so many seconds, else of records. @typedef {{ interval: number | undefined, isCut: boolean, of: ReadonlyMap<string, import('../points.js').Points> }} History */

/** Of what is stored in a range: records, beyond which it is buckets, and those of one series. */
const [recordsMax, bucketsMax] = [10_000, 200]
/** Lengths of ranges in seconds, and what they are called. */
const spans = [10, 60, 600, 3600, 21_600, 86_400, 604_800, 2_592_000]
const spanNames = ['10 s', '1 min', '10 min', '1 hour', '6 hours', '1 day', '7 days', '30 days']
const [spanMin, columns, drawMs] = [0.1, 500, 100]
const tableColumns = ['Name', 'Newest value', 'Unit', 'Subtopic', 'Thing', 'Time', 'Fleet']
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
  const change = (/** @type {any} */ event) => setFilter(enteredIn(event.currentTarget))
  return html`<${ChannelLine} path="live" id=${id} />
    <details open=${Object.keys(query).some(name => name in filters)}><summary>Only some series</summary>
      <form class="fields" onChange=${change}>
        ${Object.entries(filters).map(([name, label]) => html`<${Field} label=${label}><input name=${name} defaultValue=${query[name]} /><//>`)}
      </form>
    </details>
    <${Charts} key=${JSON.stringify(filter)} id=${id} filter=${filter} isAddressed />`
}

/** @param {{ id: string, filter: Record<string, string>, first?: number, height?: number, isAddressed?: boolean }} props `first`: the length of the range at first; `isAddressed`: the page has the address of this view */
export function Charts({ id, filter, first = 60, height = 260, isAddressed = false }) {
  const messages = messagesOf(id)
  const store = useMemo(openStore, [])
  const [window, setWindow] = useState(() => {
    const asked = new URLSearchParams(location.hash.split('?')[1])
    return { span: Number(asked.get('span')) || first, to: Number(asked.get('to')) || undefined }
  })
  useEffect(() => {
    const asked = { ...filter, ...(window.span !== first && { span: String(window.span) }), ...(window.to && { to: window.to.toFixed(3) }) }
    if (isAddressed) history.replaceState(null, '', `#/live/${id}?${new URLSearchParams(asked)}`.replace(/\?$/, ''))
  }, [window])
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
  const stored = useLoaded(signal => loadHistory(messages, query, span, store, signal), [window, isOpen, store.gaps])
  const past = stored.value
  // Also of those that are not in the range.
  const newest = useLoaded(async signal => {
    const { messages: records } = await getPage(messages, { ...filter, latest: true, limit: 1000 }, signal)
    for (const record of records) store.seriesOf(record)
    return records
  }, [])

  const all = [...store.series.values()]
  const drawn = all.filter(({ key, live }) => live.times.length > 0 || past?.of.has(key))
  // Columns that stay where they are while the range moves do not flicker.
  const width = span / columns
  const start = Math.floor(range.from / width) * width
  const times = Array.from({ length: columns + 1 }, (_, at) => start + (at + 0.5) * width)
  const sourcesOf = (/** @type {Series} */ { key, live }) => [live, past?.of.get(key) ?? { times: [], values: [] }]
  const valuesOf = (/** @type {Series} */ series) =>
    columnsOf(sourcesOf(series), { from: start, to: start + (columns + 1) * width }, columns + 1)
  const [states, numbers] = [drawn.filter(({ isState }) => isState), drawn.filter(({ isState }) => !isState)]
  const move = (/** @type {number} */ by) => setWindow({ span, to: Math.min(edge, to + by * span) })
  const zoom = (/** @type {import('../chart.js').Range} */ { from, to }) => setWindow({ span: Math.max(spanMin, to - from), to })
  const csv = new URLSearchParams({ ...query, limit: 'all', dir: 'asc', csv_safe: 'true' })
  const chartOf = (
    /** @type {[string, Series[]]} */ [unit, series],
  ) => html`<${Card} key=${JSON.stringify([unit, series.map(({ key }) => key)])} title=${unit || 'Without a unit'}>
    <${Chart} label=${`Chart of ${series.map(({ name }) => name).join(', ')}. The table below has the newest values.`} height=${height} range=${range} unit=${unit} onZoom=${zoom}
      data=${[times, ...series.flatMap(valuesOf)]} series=${series.map(lineOf).flatMap(line => [line, { ...line, label: undefined }])} />
  <//>`
  const stateOf = (/** @type {Series} */ one) =>
    html`<li>${nameOf(one)} <${Bands} label=${`States of ${one.name}: now ${one.newest.text}`} range=${range} spans=${spansOf(sourcesOf(one), range)} /></li>`
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
      <span class="quiet" role="status">${stored.isLoading ? 'Loading what is stored…' : past && pastOf(past)}</span>
    </p>
    <${Problem} error=${error ?? stored.error} />
    ${store.leftOut > 0 && html`<p class="notice">More than ${seriesMax} series: ${count(store.leftOut)} records of others are left out. Choose some above.</p>`}
    <section class="charts stack" aria-label="Charts" data-points=${store.points} data-frames=${frames}>
      ${[...Map.groupBy(numbers, ({ unit }) => unit)].map(chartOf)} ${states.length > 0 && html`<${Card} title="States"><ul class="plain stack">${states.map(stateOf)}</ul><//>`}
    </section>
    ${drawn.length === 0 && past && newest.value && html`<${Nothing} id=${id} time=${newest.value[0]?.Time} onShow=${(/** @type {number} */ at) => setWindow({ span, to: at + span / 10 })} />`}
    ${all.length > 0 && html`<${Table} caption="Series and their newest values" columns=${tableColumns} empty="" rows=${all.map(series => rowOf(id, series))} />`}`
}

/** @param {string} id of the channel, percent-encoded @param {Series} series */
function rowOf(id, series) {
  const { key, name, newest, unit, subtopic, publisher } = series
  const board = html`<${ToBoard} one=${[decodeURIComponent(id), publisher, subtopic, name]} />`
  return {
    key,
    cells: [
      html`${swatch(lineOf(series))} ${name}`,
      html`<code>${newest.text}</code>`,
      unit,
      subtopic,
      named('things', publisher),
      timeOf(newest.time),
      board,
    ],
  }
}

/** What to say where no series is in the range: what the channel has before it. @param {{ id: string, time: number | undefined, onShow: (at: number) => void }} props */
function Nothing({ id, time, onShow }) {
  const formats = useLoaded(signal => get(messagesOf(id).replace(/messages$/, 'formats'), { signal }), [])
  const others = (formats.value?.formats ?? []).filter((/** @type {{ format: string }} */ { format }) => format !== 'messages')
  const before = html`<p>No record is in this range: the newest one is of ${time && timeOf(time)}.</p>
    <button type="button" class="main" onClick=${() => onShow(time ?? 0)}>Show it</button>`
  return html`<div class="table"><div class="empty">
    ${time === undefined ? html`<p>No series yet. SenML records appear here as soon as they come.</p>` : before}
    ${others.length > 0 && html`<p class="quiet">JSON documents are no series: they are in the <a href=${`#/explorer/${id}`}>explorer</a>.</p>`}
  </div></div>`
}

/** @param {Pick<Series, 'name' | 'subtopic' | 'publisher'>} series */
const nameOf = ({ name, subtopic, publisher }) =>
  html`${[name, subtopic].filter(text => text !== '').join(', ')} of ${named('things', publisher)}`

/** @param {Series} series */
function lineOf({ place, name, subtopic, publisher }) {
  const hue = Math.round((place * 137.5 + 190) % 360)
  return {
    label: nameOf({ name, subtopic, publisher }),
    color: `light-dark(hsl(${hue} 80% 30%), hsl(${hue} 70% 70%))`,
    isDashed: place % 2 === 1,
  }
}

/** @param {History} history */
function pastOf({ interval, of, isCut }) {
  const stored = interval === undefined ? [...of.values()].reduce((sum, { times }) => sum + times.length, 0) : undefined
  const what = stored === undefined ? `Stored: smallest and largest of each ${interval} seconds` : `${count(stored)} stored points`
  return isCut ? `${what}; some are left out, as there are too many series` : what
}

/** @param {import('../session.js').ViewProps} props */
export function ChannelChoice({ path, home }) {
  const open = onSubmit(({ id = '' }) => location.assign(`#/${path}/${encodeURIComponent(id.trim())}`))
  const empty = html`<p>Messages are read by channel, and you have none yet.</p><a class="button main" href="#/channels">Create channels</a>`
  const other = html`<form class="row end" onSubmit=${open}>
    <${Field} label="Channel id, of one that is not listed"><input name="id" size="36" required /><//>
    <button>Open</button>
  </form>`
  return html`${other} ${home.services.includes('control plane') && html`<${List} kind="channels" home=${home} view=${path} empty=${empty} />`}`
}

/** @param {{ path: string, id: string }} props */
export function ChannelLine({ path, id }) {
  const [other, title] = path === 'live' ? ['explorer', 'Explorer'] : ['live', 'Live']
  return html`<p class="row trail">
    <span>Channel ${named('channels', id)}</span>
    <a href=${`#/${other}/${id}`}>${title}</a> <a href=${`#/${path}`}>Another channel</a>
  </p>`
}

/** The address of a channel's messages. @param {string} id as it is in the page's own address, percent-encoded */
export const messagesOf = id => `channels/${id.replaceAll("'", '%27')}/messages`

/** Saves an answer in CSV as a file. The token is in the header, so not in an address. @param {string} path with its query */
export async function saveCsv(path) {
  const response = await send('GET', path, { headers: { accept: 'text/csv' } })
  const link = document.createElement('a')
  link.href = URL.createObjectURL(await response.blob())
  link.download = `${path.split('/')[1]}.csv`
  link.click()
  // The browser has taken it over by then; without this the file would stay in memory as long as the page.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

/**
 * What is stored in a range: its records if they are few, else the smallest and the largest value of buckets.
 * @param {string} path of the messages @param {Record<string, string>} filter with the range @param {number} span of the range in seconds
 * @param {import('../points.js').Store} store gets the series that it did not know @param {AbortSignal} signal @returns {Promise<History>}
 */
async function loadHistory(path, filter, span, store, signal) {
  /** @type {Map<string, import('../points.js').Points>} */
  const of = new Map()
  /** @param {Record<string, string>} query @param {number} shift of the times */
  const load = async (query, shift) => {
    const { messages, isCut } = await getPages(path, { ...filter, ...query }, recordsMax, signal)
    for (const record of messages) {
      const { key = '', isState = false } = store.seriesOf(record) ?? {}
      const points = of.get(key) ?? { times: [], values: [] }
      if (key && push(points, { ...record, Time: record.Time + shift }, isState)) of.set(key, points)
    }
    return isCut
  }

  const { total = Infinity, total_is_lower_bound: isMore = false } = await getPage(path, { ...filter, limit: '1' }, signal)
  if (!isMore && total <= recordsMax) return { interval: undefined, isCut: await load({}, 0), of }
  const interval = Math.max(1, Math.ceil(span / bucketsMax))
  const cut = await Promise.all([
    load({ aggregation: 'min', interval: `${interval}s` }, interval / 2),
    load({ aggregation: 'max', interval: `${interval}s` }, interval / 2),
  ])
  return { interval, isCut: cut.includes(true), of }
}
