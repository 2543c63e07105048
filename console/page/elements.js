// What views are built of. Texts are children of elements, so that nothing that a device or a user wrote is ever read as HTML.

import { html } from 'htm/preact'
import { useLayoutEffect, useRef, useState } from 'preact/hooks'
import { ApiError, get } from './api.js'
import { onText, useAction, useLoaded } from './hooks.js'
import { session } from './session.js'

/** @typedef {import('preact').ComponentChildren} Children */

const namesMax = 2000

/** @param {{ error: unknown }} props undefined for none */
export function Problem({ error }) {
  if (!(error instanceof Error)) return null
  const code = error instanceof ApiError && error.status !== 0 ? `${error.status} ${error.code}` : ''
  return html`<p class="notice problem" role="alert">${error.message} <small>${code}</small></p>`
}

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

/**
 * A button that is busy while its action runs, and shows beside it why the action failed.
 *
 * @param {{ action: () => Promise<unknown>, kind?: 'plain' | 'main' | 'danger', disabled?: boolean, children: Children }} props
 */
export function Action({ action, kind = 'plain', disabled = false, children }) {
  const { run, isBusy, error } = useAction(action)
  return html`<span>
    <button type="button" class=${kind} disabled=${disabled || isBusy} aria-busy=${isBusy} onClick=${() => run()}>${children}</button>
    <${Problem} error=${error} />
  </span>`
}

/** @param {{ text: string, label?: string }} props */
export function Copy({ text, label = 'Copy' }) {
  const [outcome, setOutcome] = useState('')
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text)
      setOutcome('Copied')
    } catch {
      // Browsers have no clipboard for pages over HTTP, other than those of the machine itself.
      setOutcome('Not allowed here: select it and copy')
    }
  }
  return html`<span><button type="button" onClick=${copy} onBlur=${() => setOutcome('')}>${label}</button> <span role="status">${outcome}</span></span>`
}

/**
 * A modal dialog; Escape and its button close it, and the focus returns to where it was before the next key counts.
 *
 * @param {{ title: string, onClose: () => void, children: Children }} props
 */
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
    <header class="row"><h2>${title}</h2><button type="button" aria-label="Close" onClick=${() => dialog.current?.close()}>✕</button></header>
    ${children}
  </dialog>`
}

/** @param {{ caption: string, columns: readonly Children[], rows: readonly { key: string, cells: readonly Children[] }[], empty: Children }} props */
export function Table({ caption, columns, rows, empty }) {
  if (rows.length === 0) return html`<p class="quiet">${empty}</p>`
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
  const { names, user } = session.value
  const path = `${kind}/${encodeURIComponent(id)}`
  const { value: name } = useLoaded(async () => {
    if (user === undefined) return ''
    const unknown = (/** @type {unknown} */ error) => {
      // Otherwise it is asked for again.
      if (!(error instanceof ApiError && (error.status === 403 || error.status === 404))) names.delete(path)
      return ''
    }
    const asked = names.get(path) ?? get(path).then(({ name }) => String(name), unknown)
    if (names.size > namesMax) names.clear()
    names.set(path, asked)
    return asked
  }, [path])
  if (user === undefined) return html`<code title=${id}>${id.slice(0, 8)}…</code>`
  return html`<a href=${`#/${path}`} title=${id}>${name || `${id.slice(0, 8)}…`}</a>`
}

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })

/** @param {number} value */
export const count = value => whole.format(value)

/** @param {number} value */
export const rough = value => short.format(value)

/** @param {number} seconds since 1970 */
export function timeOf(seconds) {
  const date = new Date(seconds * 1000)
  return html`<time datetime=${date.toISOString()} title=${date.toISOString()}>${date.toLocaleString()}</time>`
}
