// A list of things or of channels of any length: only rows in sight are made, loaded, and asked what they did lately, with few and bounded requests.

import { get, getPage } from '../api.js'
import { ago, Choice, count, Field, Problem, rough, Spark } from '../elements.js'
import { html, onText, useEvery, useLayoutEffect, useLoaded, useRef, useState } from '../hooks.js'
import { session } from '../session.js'

/** @typedef {'things' | 'channels'} Kind */
/** @import { Home } from '../session.js' */
/** @typedef {{ id: string, name: string, key?: string, metadata?: Record<string, unknown> }} Entity */
/** By id. @typedef {ReadonlyMap<string, Entity>} Entities */

/** The height of a row, as in style.css, and how many are made above and below those in sight. */
const [rowPixels, spareRows] = [44, 4]
const pageSize = 100
/** A list of few in a card needs no search. */
const fewMax = 10
/** What is only scrolled past, or typed in passing, is not asked for. */
const rest = () => new Promise(resolve => setTimeout(resolve, 200))
const refreshMs = 30_000
/** @type {Record<string, Record<string, string>>} */
const orders = { 'oldest first': {}, 'newest first': { dir: 'desc' }, 'A–Z': { order: 'name' }, 'Z–A': { order: 'name', dir: 'desc' } }
/** By how many rows keys move. @type {Record<string, number>} */
const moves = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -Infinity, End: Infinity }
/** @type {Entities} */
export const none = new Map()

export const titleOf = (/** @type {Entity} */ { id, name }) => (name === '' ? `unnamed, ${id.slice(0, 8)}…` : name)

/** A number of them: `1 thing`, `20 channels`. @param {number} number @param {Kind} kind */
export const counted = (number, kind) => `${count(number)} ${number === 1 ? kind.slice(0, -1) : kind}`

/**
 * Rows can be selected, also by the space bar, and lead to a view, also by Enter; arrow keys move between them.
 * @param {{
 *   kind: Kind, path?: string, query?: Record<string, boolean>, view?: string, ticked?: Entities, onTick?: (ticked: Entities) => void,
 *   home?: Home, tools?: import('../elements.js').Children, empty?: import('../elements.js').Children,
 * }} props `home`: to show what they did lately; `tools`: beside the search, which an empty list has not; `empty`: what the list is for
 */
export function List({ kind, path = kind, query = {}, view = kind, ticked = none, onTick, home, tools, empty }) {
  const [{ name, order, first, current }, setState] = useState({ name: '', order: 'oldest first', first: 0, current: 0 })
  const place = useRef(/** @type {HTMLDivElement | null} */ (null))
  const isMoved = useRef(false)
  const beyond = first + Math.ceil(innerHeight / rowPixels) + spareRows
  const [page, lastPage] = [Math.floor(Math.max(0, first - spareRows) / pageSize), Math.floor(beyond / pageSize)]
  const { value: list, error } = useLoaded(
    async signal => {
      if (page > 0 || name !== '') await rest()
      const filter = { ...query, ...orders[order], name: name || undefined, limit: pageSize }
      const ask = (/** @type {number} */ at) => get(path, { query: { ...filter, offset: at * pageSize }, signal })
      const answers = await Promise.all([...new Set([page, lastPage])].map(ask))
      return { name, total: answers[0].total, offset: page * pageSize, items: /** @type {Entity[]} */ (answers.flatMap(one => one[kind])) }
    },
    [name, order, page, lastPage],
  )
  const letters = useLoaded(async signal => home && openLetters(home, signal), []).value
  useLayoutEffect(() => {
    if (isMoved.current)
      /** @type {HTMLElement | null} */ (place.current?.querySelector(`[data-at="${current}"]`))?.focus({ preventScroll: true })
    isMoved.current = false
  })
  if (list === undefined) return html`<${Problem} error=${error} />`
  const { total, offset, items } = list
  if (total === 0 && list.name === '')
    return html`<div class="table"><div class="empty quiet">${empty ?? `There are no ${kind} yet.`}</div></div>`

  const change = (/** @type {object} */ some) => setState(state => ({ ...state, ...some }))
  const look = () => {
    const now = Math.floor((place.current?.scrollTop ?? 0) / rowPixels)
    if (now !== first) change({ first: now })
  }
  const ask = (/** @type {object} */ some) => {
    place.current?.scrollTo(0, 0)
    change({ ...some, first: 0, current: 0 })
  }
  const move = (/** @type {number} */ by) => {
    const at = Math.max(0, Math.min(total - 1, current + by))
    const { current: seen } = place
    if (seen !== null) seen.scrollTop = Math.min(at * rowPixels, Math.max(seen.scrollTop, (at + 2) * rowPixels - seen.clientHeight))
    isMoved.current = true
    change({ current: at })
    look()
  }
  const toggle = (/** @type {readonly Entity[]} */ entities) => {
    const others = [...ticked].filter(([id]) => entities.every(entity => entity.id !== id))
    const given = entities.map(entity => /** @type {const} */ ([entity.id, entity]))
    onTick?.(new Map(entities.every(({ id }) => ticked.has(id)) ? others : [...others, ...given]))
  }
  const box = (/** @type {string} */ label, /** @type {readonly Entity[]} */ entities) =>
    onTick &&
    html`<input type="checkbox" aria-label=${label} checked=${entities.every(({ id }) => ticked.has(id))} onChange=${() => toggle(entities)} />`
  const press = (/** @type {any} */ event) => {
    const entity = items[current - offset]
    if (event.key in moves) move(moves[event.key] ?? 0)
    else if (event.target.tagName !== 'TR' || entity === undefined) return
    else if (event.key === ' ') toggle([entity])
    else if (event.key === 'Enter') location.assign(`#/${view}/${entity.id}`)
    else return
    event.preventDefault()
  }

  const [start, end] = [Math.max(0, first - spareRows), Math.min(total, beyond)]
  const columns = home ? ['Last message', 'Last hour', kind === 'things' ? 'Channels' : 'Things', ...(letters ? ['Dead letters'] : [])] : []
  const rowOf = (/** @type {number} */ at) => {
    const entity = items[at - offset]
    const isStop = at === Math.max(start, Math.min(end - 1, current))
    const row = (/** @type {unknown} */ cells) =>
      html`<tr key=${at} data-at=${at} aria-rowindex=${at + 2} tabindex=${isStop ? 0 : -1}>${cells}</tr>`
    if (entity === undefined) return row(html`<td colspan=${columns.length + 1}></td>`)
    const { id } = entity
    return row(html`<td>${box(`Select ${titleOf(entity)}`, [entity])} <a href=${`#/${view}/${id}`} title=${id}>${titleOf(entity)}</a></td>
      ${home && html`<${Lately} key=${id} kind=${kind} id=${id} home=${home} letters=${letters} />`}`)
  }
  const search = html`<div class="row">
    <${Field} label="Search by name"><input type="search" size="30" value=${name} onInput=${onText(name => ask({ name }))}
      onKeyDown=${(/** @type {KeyboardEvent} */ event) => event.key === 'ArrowDown' && ((event.preventDefault(), move(0)))} /><//>
    <${Choice} label="Order" value=${order} options=${Object.keys(orders)} onChange=${(/** @type {string} */ order) => ask({ order })} />
  </div>`
  return html`<div class="row spread end">
      ${(home || total > fewMax || name !== '') && search}
      <div class="actions">${tools}</div>
    </div>
    <div ref=${place} class="table list" tabindex="0" role="region" aria-label=${kind} onScroll=${look} onKeyDown=${press}
      onFocusIn=${(/** @type {any} */ { target }) => change({ current: Number(target.closest('[data-at]')?.dataset.at ?? current) })}>
      <div style=${{ height: `${(total + 1) * rowPixels}px`, paddingTop: `${start * rowPixels}px` }}>
        <table aria-rowcount=${total + 1}>
          <thead><tr>${[html`${box('Select all that are loaded', items)} Name`, ...columns].map(column => html`<th scope="col">${column}</th>`)}</tr></thead>
          <tbody>${Array.from({ length: Math.max(0, end - start) }, (_, at) => rowOf(start + at))}</tbody>
        </table>
      </div>
    </div>
    <p class="quiet small" role="status">${total === 0 ? `No name contains “${list.name}”.` : counted(total, kind)}</p>`
}

/** The cells of what one did lately. @param {{ kind: Kind, id: string, home: Home, letters: Awaited<ReturnType<typeof openLetters>> }} props */
function Lately({ kind, id, home, letters }) {
  const { value, reload } = useLoaded(async signal => {
    await rest()
    return signal.aborted ? undefined : activityOf(kind, id, home, signal)
  }, [])
  useEvery(refreshMs, reload)
  const { newest, line, connected } = value ?? {}
  const sum = rough(line?.reduce((sum = 0, value = 0) => sum + value, 0) ?? 0)
  const open = letters?.letters.filter(({ publisher, channel }) => id === (kind === 'things' ? publisher : channel)).length
  return html`<td>${newest && ago(newest)}</td>
    <td>${line && html`<${Spark} label=${`${sum} numbers in the last hour`} isCount values=${line} /> ${sum}`}</td>
    <td>${connected !== undefined && count(connected)}</td>
    ${letters && html`<td class="danger">${open ? `${count(open)}${letters.total > letters.letters.length ? '+' : ''}` : ''}</td>`}`
}

/** `newest`: seconds since 1970; `line`: numbers in each step of the last hour, undefined if there are too many series. */
/** @typedef {{ connected: number, newest?: number | undefined, line?: (number | undefined)[] | undefined }} Activity */

/** A thing is rarely connected to more channels. */
const [channelsMax, formatsMax, bucketsMax, pageMax] = [10, 5, 5000, 1000]

/** Whether messages are read here. @param {Home} home */
export const isReader = ({ services }) => services.some(service => service.startsWith('reader'))
export const otherKind = { things: /** @type {const} */ ('channels'), channels: /** @type {const} */ ('things') }

/** @param {Kind} kind @param {string} id @param {Home} home @param {AbortSignal} signal @returns {Promise<Activity>} */
export async function activityOf(kind, id, home, signal) {
  const other = await get(`${kind}/${id}/${otherKind[kind]}`, { query: { limit: kind === 'things' ? channelsMax : 1 }, signal })
  /** @type {string[]} */
  const channels = kind === 'channels' ? [id] : other.channels.map((/** @type {{ id: string }} */ { id }) => id)
  const connected = other.total
  if (!isReader(home) || channels.length === 0) return { connected }
  const query = { channel: channels, ...(kind === 'things' && { publisher: id }) }
  const [newest, line] = await Promise.all([newestOf(query, signal), lineOf(query, signal)])
  return { connected, newest, line }
}

/** @param {{ channel: string[] }} query @param {AbortSignal} signal */
async function newestOf(query, signal) {
  const formats = (await Promise.all(query.channel.map(formatsOf))).flat()
  const newest = [...new Set(['messages', ...formats])].slice(0, formatsMax).map(async format => {
    const [record] = (await getPage('messages', { ...query, format, limit: '1', count: 'none' }, signal)).messages
    return record === undefined ? -Infinity : (record.Time ?? record.Created / 1e9)
  })
  const time = Math.max(...(await Promise.all(newest)))
  return time === -Infinity ? undefined : time
}

/** Once a minute, for all who ask. @param {string} channel @returns {Promise<string[]>} */
async function formatsOf(channel) {
  const key = `${channel} ${Math.floor(Date.now() / 60_000)}`
  const formats = await session.remember(key, () => get(`channels/${channel}/formats`).then(answer => JSON.stringify(answer.formats)))
  return JSON.parse(formats).map((/** @type {{ format: string }} */ { format }) => format)
}

/**
 * The last hour in steps: how many numbers of all series, or the mean of one; undefined if there are too many buckets.
 * @param {import('../api.js').Query} query @param {AbortSignal} signal @param {'count' | 'avg'} [aggregation]
 */
export async function lineOf(query, signal, aggregation = 'count') {
  const [steps, stepSeconds] = aggregation === 'count' ? [12, 300] : [60, 60]
  const from = (Math.floor(Date.now() / 1000 / stepSeconds) - steps + 1) * stepSeconds
  const asked = { ...query, aggregation, interval: `${stepSeconds}s`, from, limit: pageMax }
  const line = Array.from({ length: steps }, () => (aggregation === 'count' ? 0 : /** @type {number | undefined} */ (undefined)))
  for (let offset = 0; ; offset += pageMax) {
    const { messages, total = 0 } = await getPage('messages', { ...asked, offset }, signal)
    if (total > bucketsMax) return undefined
    for (const { Time, Count, Value } of messages) {
      const at = (Time - from) / stepSeconds
      if (at in line) line[at] = aggregation === 'count' ? (line[at] ?? 0) + Count : Value
    }
    if (offset + pageMax >= total) return line
  }
}

/** The newest open dead letters, for administrators where they are served. @param {Home} home @param {AbortSignal} signal */
export async function openLetters({ services }, signal) {
  if (!session.value.isAdministrator || !services.includes('writer')) return undefined
  /** @type {{ total: number, letters: import('./dead-letters.js').Letter[] }} */
  const found = await get('admin/dead-letters', { query: { limit: pageMax }, signal })
  return found
}
