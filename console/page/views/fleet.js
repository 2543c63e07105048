// Fleet: a board of series of several channels, each with its newest value, its last hour and whether it is quiet. Its address has the whole board.

import { ApiError, getPages } from '../api.js'
import { ago, Choice, Copy, Field, Icon, Named, Problem, rough, Spark, State } from '../elements.js'
import { html, onText, useEvery, useLoaded, useState } from '../hooks.js'
import { textOf } from '../points.js'
import { session } from '../session.js'
import { lineOf } from './list.js'

/** By these fields. @typedef {[channel: string, publisher: string, subtopic: string, name: string]} Series */
/** @typedef {{ title: string, quiet: number, series: Series[] }} Shown */
/** `refused`: channels that the user may not read. @typedef {{ records: import('../points.js').SenmlRecord[], refused: readonly string[] }} Newest */

const fields = /** @type {const} */ (['Channel', 'Publisher', 'Subtopic', 'Name'])
/** The last: records that are read. */
const [seriesMax, titleMax, foundMax] = [50, 200, 5000]
const [newestMs, lineMs] = [5000, 60_000]
const quiets = { 60: 'a minute', 300: '5 minutes', 3600: 'an hour', 86400: 'a day' }
/** @type {Shown} */
const empty = { title: '', quiet: 300, series: [] }
const purpose =
  'A board shows series of several channels beside each other. This browser keeps it for you, and its link shows it to others, as far as they may read the channels. Series are added in Live, below the charts of a channel.'

/** The board of an address or of this browser, whatever somebody wrote there. @param {string | null | undefined} text */
function boardIn(text) {
  try {
    const { title, quiet, series } = JSON.parse(text ?? '')
    const isSeries = (/** @type {any} */ one) => one.length === 4 && one.every((/** @type {unknown} */ part) => typeof part === 'string')
    const unique = new Map(series.filter(isSeries).map((/** @type {Series} */ one) => [JSON.stringify(one), one]))
    const few = [...unique.values()].slice(0, seriesMax)
    return { title: String(title ?? '').slice(0, titleMax), quiet: Number(quiet) || empty.quiet, series: few }
  } catch {
    return empty
  }
}

/** The board that this browser keeps for the user. */
const keptKey = () => `sluice.board ${session.value.user?.id ?? ''}`
const keptBoard = () => boardIn(localStorage.getItem(keptKey()))
const keep = (/** @type {Shown} */ board) => localStorage.setItem(keptKey(), JSON.stringify(board))

/** A button that puts a series on the user's board, in the rows of other views. @param {{ one: Series }} props */
export function ToBoard({ one }) {
  const isOn = (/** @type {Shown} */ { series }) => series.some(other => JSON.stringify(other) === JSON.stringify(one))
  const [state, setState] = useState(() => (isOn(keptBoard()) ? 'on it' : ''))
  const add = () => {
    keep({ ...keptBoard(), series: [...keptBoard().series, one] })
    setState(isOn(keptBoard()) ? 'on it' : 'it is full')
  }
  return state
    ? html`<a href="#/fleet">${state}</a>`
    : html`<button type="button" aria-label=${`Add ${one[3]} to Fleet`} onClick=${add}>Add</button>`
}

/** @param {import('../session.js').ViewProps} props */
export function Fleet({ query: { board } }) {
  return html`<${Board} key=${board} linked=${board} />`
}

/** @param {{ linked: string | undefined }} props `linked`: the board of a link, if not the user's own */
function Board({ linked }) {
  const [board, setBoard] = useState(linked === undefined ? keptBoard : () => boardIn(linked))
  const { title, quiet, series } = board
  const change = (/** @type {Partial<Shown>} */ some) => {
    setBoard({ ...board, ...some })
    if (linked === undefined) keep({ ...board, ...some })
  }
  const newest = useLoaded(signal => newestOf(series, signal), [series.map(([channel]) => channel).join(' ')])
  useEvery(newestMs, newest.reload)
  const remove = (/** @type {number} */ at) => {
    change({ series: series.toSpliced(at, 1) })
    document.getElementById('content')?.focus()
  }
  const url = new URL(`#/fleet?${new URLSearchParams({ board: JSON.stringify(board) })}`, document.baseURI).href
  const add = html`<a class="button main" href="#/live">Add series</a>`
  const tile = (/** @type {Series} */ one, /** @type {number} */ at) =>
    html`<${Tile} key=${JSON.stringify(one)} one=${one} newest=${newest.value} quiet=${quiet} onRemove=${() => remove(at)}
      onEarlier=${at > 0 && (() => change({ series: series.toSpliced(at - 1, 2, one, /** @type {Series} */ (series[at - 1])) }))} />`
  return html`${linked !== undefined && html`<p class="notice row">This board came by a link. <button type="button" onClick=${() => (keep(board), location.assign('#/fleet'))}>Keep it in place of mine</button></p>`}
    <div class="row end">
      <${Field} label="Name of the board"><input value=${title} maxlength=${titleMax} onInput=${onText(title => change({ title }))} /><//>
      <${Choice} label="Quiet without a value for" value=${quiet} options=${Object.keys(quiets)} titles=${Object.values(quiets)}
        onChange=${(/** @type {string} */ text) => change({ quiet: Number(text) })} />
      ${series.length > 0 && html`<div class="actions">${add} <${Copy} text=${url} label="Copy the link" /></div>`}
    </div>
    <${Problem} error=${newest.error} />
    ${series.length === 0 && html`<div class="table"><div class="empty stack quiet"><p>${purpose}</p>${add}</div></div>`}
    <ul class="plain fields">${series.map(tile)}</ul>`
}

/** @param {{ one: Series, newest: Newest | undefined, quiet: number, onRemove: () => void, onEarlier: false | (() => void) }} props */
function Tile({ one, newest, quiet, onRemove, onEarlier }) {
  const [channel, publisher, subtopic, name] = one
  const record = newest?.records.find(record => fields.every((field, at) => record[field] === one[at]))
  const line = useLoaded(async signal => record && lineOf({ channel, publisher, subtopic, name }, signal, 'avg'), [record === undefined])
  useEvery(lineMs, line.reload)
  const title = [name, subtopic].filter(text => text !== '').join(', ')
  const button = (/** @type {string} */ icon, /** @type {string} */ verb, /** @type {() => void} */ act) =>
    html`<button type="button" class="bare" aria-label=${`${verb} ${title}`} title=${verb} onClick=${act}><${Icon} name=${icon} /></button>`
  const known = line.value?.filter(value => value !== undefined) ?? []
  return html`<li class="card">
    <h2><a href=${`#/live/${encodeURIComponent(channel)}?${new URLSearchParams({ publisher, name, subtopic })}`}>${title}</a></h2>
    <p class="figure">${record === undefined ? '–' : record.Value === undefined ? textOf(record) : rough(record.Value, 6)} <small>${record?.Unit}</small></p>
    ${known.length > 0 && html`<${Spark} label=${`The last hour: ${rough(Math.min(...known))} to ${rough(Math.max(...known))}`} values=${line.value} />`}
    <p class="small"><${Named} kind="channels" id=${channel} /> · <${Named} kind="things" id=${publisher} /></p>
    <div class="row spread small">${stateOf(channel, newest, record, quiet)} <span>${onEarlier && button('back', 'Move earlier', onEarlier)} ${button('close', 'Remove', onRemove)}</span></div>
  </li>`
}

/** @param {string} channel @param {Newest | undefined} newest @param {import('../points.js').SenmlRecord | undefined} record @param {number} quiet */
function stateOf(channel, newest, record, quiet) {
  if (newest?.refused.includes(channel)) return html`<${State} state="bad">you may not read its channel<//>`
  if (record === undefined) return html`<${State} state="waiting">${newest ? 'no value' : 'reading…'}<//>`
  const isQuiet = Date.now() / 1000 - record.Time > quiet
  return html`<${State} state=${isQuiet ? 'bad' : 'good'}>${isQuiet && 'quiet: '}${ago(record.Time)}<//>`
}

/** The newest records of these series, which few filters narrow down. @param {readonly Series[]} series @param {AbortSignal} signal */
function newestOf(series, signal) {
  const filter = fields.flatMap((field, at) => {
    const texts = new Set(series.map(one => one[at]))
    return field !== 'Channel' && texts.size === 1 ? [[field.toLowerCase(), ...texts]] : []
  })
  return readNewest([...new Set(series.map(([channel]) => channel))], Object.fromEntries(filter), signal)
}

/** Of several channels at once, or of each alone: the refusal does not say which one it is about. @param {string[]} channels @param {Record<string, string>} filter @param {AbortSignal} signal @returns {Promise<Newest>} */
async function readNewest(channels, filter, signal) {
  if (channels.length === 0) return { records: [], refused: [] }
  try {
    const { messages } = await getPages('messages', { ...filter, channel: channels, latest: true, count: 'none' }, foundMax, signal)
    return { records: messages, refused: [] }
  } catch (error) {
    if (!(error instanceof ApiError && error.status === 403)) throw error
    if (channels.length === 1) return { records: [], refused: channels }
    const each = await Promise.all(channels.map(id => readNewest([id], filter, signal)))
    return { records: each.flatMap(({ records }) => records), refused: each.flatMap(({ refused }) => refused) }
  }
}
