// What views are built of. Texts are children of elements, so that nothing that a device or a user wrote is ever read as HTML.

import { html } from 'htm/preact'
import { useCallback, useEffect, useRef, useState } from 'preact/hooks'
import { ApiError } from './api.js'

/** @typedef {import('preact').ComponentChildren} Children */

/**
 * Loads something when its inputs change, and again by `reload`.
 *
 * @template T
 * @param {(signal: AbortSignal) => Promise<T>} load
 * @param {readonly unknown[]} inputs
 * @returns {{ value: T | undefined, error: Error | undefined, isLoading: boolean, reload: () => void }}
 */
export function useLoaded(load, inputs) {
  const [state, setState] = useState(/** @type {{ value?: T, error?: Error, isLoading: boolean }} */ ({ isLoading: true }))
  const [turn, setTurn] = useState(0)
  useEffect(() => {
    const stop = new AbortController()
    setState(state => ({ ...state, isLoading: true }))
    load(stop.signal).then(
      value => stop.signal.aborted || setState({ value, isLoading: false }),
      error => stop.signal.aborted || setState({ error, isLoading: false }),
    )
    return () => stop.abort()
  }, [...inputs, turn])
  return { value: state.value, error: state.error, isLoading: state.isLoading, reload: useCallback(() => setTurn(turn => turn + 1), []) }
}

/** @param {{ error: unknown }} props `error`: an Error, or undefined for none */
export function Problem({ error }) {
  if (!(error instanceof Error)) return null
  const code = error instanceof ApiError && error.status !== 0 ? `${error.status} ${error.code}` : ''
  return html`<p class="notice problem" role="alert">${error.message} ${code && html`<small>${code}</small>`}</p>`
}

/** @param {{ label: string, hint?: string, problem?: string | undefined, children: Children }} props */
export function Field({ label, hint, problem, children }) {
  return html`<label class="field">
    <span>${label}</span>
    ${children} ${hint && html`<small>${hint}</small>`} ${problem && html`<small class="wrong" role="alert">${problem}</small>`}
  </label>`
}

/**
 * A button that is busy while its action runs, and shows beside it why the action failed.
 *
 * @param {{ action: () => Promise<unknown>, kind?: 'plain' | 'main' | 'danger', disabled?: boolean, children: Children }} props
 */
export function Action({ action, kind = 'plain', disabled = false, children }) {
  const [isBusy, setBusy] = useState(false)
  const [error, setError] = useState(/** @type {unknown} */ (undefined))
  const run = async () => {
    setBusy(true)
    setError(undefined)
    try {
      await action()
    } catch (error) {
      setError(error)
    } finally {
      setBusy(false)
    }
  }
  return html`<span class="action"
    ><button type="button" class=${kind} disabled=${disabled || isBusy} aria-busy=${isBusy} onClick=${run}>${children}</button
    ><${Problem} error=${error}
  /></span>`
}

/** @param {{ text: string, label?: string }} props */
export function Copy({ text, label = 'Copy' }) {
  const [outcome, setOutcome] = useState('')
  const copy = async () => {
    // Browsers have no clipboard for pages over HTTP, other than those of the machine itself.
    const isCopied = await navigator.clipboard?.writeText(text).then(
      () => true,
      () => false,
    )
    setOutcome(isCopied ? 'Copied' : 'Not allowed here: select it and copy')
  }
  return html`<span class="action"
    ><button type="button" class="plain" onClick=${copy} onBlur=${() => setOutcome('')}>${label}</button> <span role="status">${outcome}</span></span
  >`
}

/**
 * A modal dialog; Escape and the backdrop's button close it, and the focus returns to where it was.
 *
 * @param {{ title: string, onClose: () => void, children: Children }} props
 */
export function Dialog({ title, onClose, children }) {
  const dialog = useRef(/** @type {HTMLDialogElement | null} */ (null))
  useEffect(() => {
    const before = document.activeElement
    dialog.current?.showModal()
    // Browsers return the focus of a dialog that is closed, not of one that is removed.
    return () => before instanceof HTMLElement && before.focus()
  }, [])
  return html`<dialog ref=${dialog} aria-label=${title} onClose=${onClose}>
    <header><h2>${title}</h2><button type="button" class="plain" aria-label="Close" onClick=${() => dialog.current?.close()}>✕</button></header>
    ${children}
  </dialog>`
}

/**
 * @param {{ caption: string, columns: readonly string[], rows: readonly { key: string, cells: readonly Children[] }[], empty: Children }} props
 */
export function Table({ caption, columns, rows, empty }) {
  if (rows.length === 0) return html`<p class="empty">${empty}</p>`
  return html`<div class="table" tabindex="0" role="region" aria-label=${caption}>
    <table>
      <caption class="hidden">${caption}</caption>
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

const whole = new Intl.NumberFormat('en', { maximumFractionDigits: 0 })
const short = new Intl.NumberFormat('en', { maximumSignificantDigits: 3 })

/** @param {number} value */
export function count(value) {
  return whole.format(value)
}

/** @param {number} value */
export function rough(value) {
  return short.format(value)
}

/** @param {number} seconds since 1970 */
export function timeOf(seconds) {
  const date = new Date(seconds * 1000)
  return html`<time datetime=${date.toISOString()} title=${date.toISOString()}>${date.toLocaleString()}</time>`
}
