// What views are written with: elements and hooks of Preact, and those that wait for answers, events, actions, and what is entered.

import { useEffect, useState } from 'preact/hooks'
import { follow } from './api.js'

export { html } from 'htm/preact'
export * from 'preact/hooks'

/**
 * Loads something when its inputs change, and again by `reload`. @template T @param {(signal: AbortSignal) => Promise<T>} load
 * @param {readonly unknown[]} inputs @returns {{ value?: T, error?: unknown, isLoading: boolean, reload: () => void }}
 */
export function useLoaded(load, inputs) {
  const [state, setState] = useState(/** @type {{ value?: T, error?: unknown, isLoading: boolean }} */ ({ isLoading: true }))
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
  return { ...state, reload: () => setTurn(turn => turn + 1) }
}

/** Does something at once, and again and again while its tab is shown. @param {number} ms @param {() => void} work that of the first call */
export function useEvery(ms, work) {
  useEffect(() => {
    const timer = setInterval(() => document.hidden || work(), ms)
    work()
    return () => clearInterval(timer)
  }, [])
}

/**
 * Follows the server-sent events of an address, if there is one, as long as the element and its tab are shown.
 * @param {string | undefined} path @param {import('./api.js').Listener} onEvent that of the first call
 */
export function useFollowed(path, onEvent) {
  const [state, setState] = useState(/** @type {{ isOpen: boolean, error?: unknown }} */ ({ isOpen: false }))
  const [isHidden, setHidden] = useState(document.hidden)
  useEffect(() => {
    const look = () => setHidden(document.hidden)
    document.addEventListener('visibilitychange', look)
    return () => document.removeEventListener('visibilitychange', look)
  }, [])
  useEffect(() => {
    // Browsers have six connections to an address, for all tabs.
    if (path === undefined || isHidden) return undefined
    const stop = new AbortController()
    const onState = (/** @type {boolean} */ isOpen, /** @type {unknown} */ error) => setState({ isOpen, error })
    follow(path, { signal: stop.signal, onEvent, onState }).catch(error => onState(false, error))
    return () => stop.abort()
  }, [path, isHidden])
  return state
}

/** Runs what a button or a form does: whether it is under way, and why it failed. @template {unknown[]} Input @param {(...input: Input) => Promise<unknown>} action */
export function useAction(action) {
  const [state, setState] = useState(/** @type {{ isBusy: boolean, error?: unknown }} */ ({ isBusy: false }))
  const run = async (/** @type {Input} */ ...input) => {
    setState({ isBusy: true })
    const error = await action(...input).then(
      () => undefined,
      error => error,
    )
    setState({ isBusy: false, error })
  }
  return { ...state, run }
}

/** Calls `take` with what was entered. @param {(text: string) => void} take */
export function onText(take) {
  return (/** @type {any} */ { target }) => take(target.value)
}

/** Calls `take` with the fields of the form. @param {(entered: Record<string, string>) => unknown} take */
export function onSubmit(take) {
  return (/** @type {any} */ event) => {
    event.preventDefault()
    take(enteredIn(event.currentTarget, event.submitter))
  }
}

/** The fields of a form that are not empty. @param {HTMLFormElement} form @param {HTMLElement | null} [button] that was pressed @returns {Record<string, string>} */
export function enteredIn(form, button) {
  const fields = /** @type {[string, string][]} */ ([...new FormData(form, button)])
  return Object.fromEntries(fields.filter(([, text]) => text !== ''))
}
