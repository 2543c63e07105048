// What views are built of. Texts are children of elements, so that nothing that a device or a user wrote is ever read as HTML.

import { ApiError, get } from './api.js'
import { html, onText, useAction, useLayoutEffect, useLoaded, useRef, useState } from './hooks.js'
import { session } from './session.js'

/** @typedef {import('preact').ComponentChildren} Children */

/** Of icons, on a grid of 20 by 20. */
const shapes = {
  overview: 'M3 3h6v8H3zM12 3h5v4h-5zM12 10h5v7h-5zM3 14h6v3H3z',
  things: 'M6 6h8v8H6zM8.5 3v3M11.5 3v3M8.5 14v3M11.5 14v3M3 8.5h3M3 11.5h3M14 8.5h3M14 11.5h3',
  channels: 'M10 3l7 3.5-7 3.5-7-3.5zM3 10l7 3.5 7-3.5M3 13.5L10 17l7-3.5',
  live: 'M2 10h3l2.5-6 4.5 12 2.5-6H18',
  fleet: 'M3 3h6v6H3zM11 3h6v6h-6zM3 11h6v6H3zM11 14h2l1.5-3 2 6h.5',
  explorer: 'M9 15a6 6 0 1 0 0-12a6 6 0 0 0 0 12zM13.5 13.5L17 17',
  'dead-letters': 'M17 9V4H3v11h7M3 5l7 5 7-5M13 13l4 4M17 13l-4 4',
  break: 'M11 2L4 11.5h5L8.5 18 16 8.5h-5z',
  open: 'M3 5h14M3 10h14M3 15h14',
  fold: 'M3 4h14v12H3zM8 4v12',
  account: 'M10 9.5a3 3 0 1 0 0-6a3 3 0 0 0 0 6zM4 17c.5-3 3-4.5 6-4.5s5.5 1.5 6 4.5',
  done: 'M4 10.5l4 4 8-9',
  back: 'M12 4l-6 6 6 6',
  close: 'M5 5l10 10M15 5L5 15',
}

/** @param {{ error: unknown }} props undefined for none */
export function Problem({ error }) {
  if (!(error instanceof Error)) return null
  const code = error instanceof ApiError && error.status !== 0 ? `${error.status} ${error.code}` : ''
  return html`<p class="notice problem" role="alert">${error.message} <small>${code}</small></p>`
}

/** @param {{ title: string, children: Children }} props */
export const Card = ({ title, children }) => html`<section class="card"><h2>${title}</h2>${children}</section>`

/** @param {{ label: string, hint?: string, problem?: string | undefined, children: Children }} props */
export function Field({ label, hint, problem, children }) {
  return html`<label class="field">
    <span>${label}</span>
    ${children} ${hint && html`<small>${hint}</small>`} ${problem && html`<small class="wrong" role="alert">${problem}</small>`}
  </label>`
}

/** @param {{ label: string, value: unknown, options: readonly unknown[], titles?: readonly string[], onChange: (text: any) => void }} props */
export function Choice({ label, value, options, titles = [], onChange }) {
  return html`<${Field} label=${label}>
    <select value=${value} onChange=${onText(onChange)}>
      ${options.map((option, at) => html`<option value=${option}>${titles[at] ?? option}</option>`)}
    </select>
  <//>`
}

/** Busy while its action runs, with why it failed. @param {{ action: () => Promise<unknown>, kind?: '' | 'main' | 'danger', disabled?: boolean, children: Children }} props */
export function Action({ action, kind = '', disabled = false, children }) {
  const { run, isBusy, error } = useAction(action)
  return html`<span class="actions">
    <button type="button" class=${kind} disabled=${disabled || isBusy} aria-busy=${isBusy} onClick=${() => run()}>${children}</button>
    <${Problem} error=${error} />
  </span>`
}

/** @param {{ text: string, label?: string }} props */
export function Copy({ text, label = 'Copy' }) {
  const [outcome, setOutcome] = useState('')
  // Browsers have no clipboard for pages over HTTP, other than those of the machine itself.
  const write = async () => navigator.clipboard.writeText(text)
  const copy = () =>
    write().then(
      () => setOutcome('Copied'),
      () => setOutcome('Not allowed here: select it and copy'),
    )
  return html`<span class="actions">
    <button type="button" onClick=${copy} onBlur=${() => setOutcome('')}>${label}</button> <small class="quiet" role="status">${outcome}</small>
  </span>`
}

/** A modal dialog; Escape and its button close it, and the focus returns to where it was before the next key counts. @param {{ title: string, onClose: () => void, children: Children }} props */
export function Dialog({ title, onClose, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null))
  // Not after the next frame, as an effect would: the user may have moved the focus by then.
  useLayoutEffect(() => {
    const { current: opened } = dialog
    opened?.showModal()
    // Browsers return the focus of a dialog that is closed, not of one that is removed.
    return () => opened?.close()
  }, [])
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${() => dialog.current && onClose()}>
    <header class="row spread">
      <h2>${title}</h2>
      <button type="button" class="bare" aria-label="Close" onClick=${() => dialog.current?.close()}><${Icon} name="close" /></button>
    </header>
    ${children}
  </dialog>`
}

/** @param {{ caption: string, columns: readonly Children[], rows: readonly { key: string, cells: readonly Children[] }[], empty: Children }} props */
export function Table({ caption, columns, rows, empty }) {
  if (rows.length === 0) return html`<div class="table"><div class="empty quiet">${empty}</div></div>`
  return html`<div class="table" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <thead><tr>${columns.map(column => html`<th scope="col">${column}</th>`)}</tr></thead>
      <tbody>${rows.map(({ key, cells }) => html`<tr key=${key}>${cells.map(cell => html`<td>${cell}</td>`)}</tr>`)}</tbody>
    </table>
  </div>`
}

/** @param {{ state: 'good' | 'bad' | 'waiting', children: Children }} props */
export function State({ state, children }) {
  const signs = { good: '●', bad: '▲', waiting: '○' }
  return html`<span class=${`state ${state}`}><span aria-hidden="true">${signs[state]}</span> ${children}</span>`
}

/** The name of a thing or a channel whose id is known, as a link to its page. @param {{ kind: 'things' | 'channels', id: string }} props */
export function Named({ kind, id }) {
  const { user } = session.value
  const path = `${kind}/${encodeURIComponent(id)}`
  const { value: name } = useLoaded(async () => {
    if (user === undefined) return ''
    const unknown = (/** @type {unknown} */ error) => {
      // Otherwise it is asked for again.
      if (!(error instanceof ApiError && (error.status === 403 || error.status === 404))) session.value.remembered.delete(path)
      return ''
    }
    return session.remember(path, () => get(path).then(({ name }) => String(name), unknown))
  }, [path])
  if (user === undefined) return html`<code title=${id}>${id.slice(0, 8)}…</code>`
  return html`<a href=${`#/${path}`} title=${id}>${name || `${id.slice(0, 8)}…`}</a>`
}

export const named = (/** @type {'things' | 'channels'} */ kind, /** @type {string} */ id) => html`<${Named} kind=${kind} id=${id} />`

/** Numbers, whole and with few digits. */
export const count = (/** @type {number} */ value) => value.toLocaleString('en-GB', { maximumFractionDigits: 0 })
export const rough = (/** @type {number} */ value, digits = 3) => value.toLocaleString('en-GB', { maximumSignificantDigits: digits })
const dated = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' })
const timed = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' })

/** In which times are shown: the browser's. */
export const { timeZone } = dated.resolvedOptions()

/** The day only if it is another one than today. @param {number} seconds since 1970 */
export function timeOf(seconds) {
  const date = new Date(seconds * 1000)
  const format = date.toDateString() === new Date().toDateString() ? timed : dated
  return html`<time datetime=${date.toISOString()} title=${date.toISOString()}>${format.format(date)}</time>`
}

const since = new Intl.RelativeTimeFormat('en-GB', { style: 'short' })
const lengths = /** @type {[Intl.RelativeTimeFormatUnit, number][]} */ (Object.entries({ day: 86_400, hour: 3600, minute: 60, second: 1 }))

/** How long ago, in the largest unit. @param {number} seconds since 1970 */
export function ago(seconds) {
  const passed = Math.max(1, Date.now() / 1000 - seconds)
  const [unit, length] = lengths.find(([, length]) => passed >= length) ?? /** @type {const} */ (['second', 1])
  const date = new Date(seconds * 1000)
  return html`<time datetime=${date.toISOString()} title=${dated.format(date)}>${since.format(-Math.floor(passed / length), unit)}</time>`
}

/** Values as a small line, which has gaps where there is none; counts begin at zero. @param {{ label: string, values: readonly (number | undefined)[], isCount?: boolean }} props */
export function Spark({ label, values, isCount = false }) {
  const known = values.filter(value => value !== undefined)
  const low = isCount ? 0 : Math.min(...known)
  const [across, up] = [100 / (values.length - 1), 20 / (Math.max(...known) - low || 1)]
  const at = (/** @type {number} */ x, /** @type {number} */ y) =>
    `${values[x - 1] === undefined ? 'M' : 'L'}${x * across} ${20 - (y - low) * up}h0`
  const line = values.map((value, x) => (value === undefined ? '' : at(x, value))).join('')
  return html`<svg class="spark" viewBox="-2 -2 104 24" preserveAspectRatio="none" role="img" aria-label=${label}><path vector-effect="non-scaling-stroke" d=${line} /></svg>`
}

/** @param {{ name: string }} props */
export function Icon({ name }) {
  return html`<svg class="icon" viewBox="0 0 20 20" aria-hidden="true"><path d=${shapes[/** @type {keyof typeof shapes} */ (name)]} /></svg>`
}
