// Requests to this address, with the token of the session.

import { createParser } from 'eventsource-parser'
import { session } from './session.js'

/** An answer other than success: `code` and `message` are the API's, `answer` is its JSON. */
export class ApiError extends Error {
  /**
   * @param {number} status 0 if there was no answer
   * @param {string} code
   * @param {string} message
   * @param {any} [answer]
   */
  constructor(status, code, message, answer) {
    super(message)
    this.status = status
    this.code = code
    this.answer = answer
  }
}

/**
 * @typedef {{
 *   body?: unknown, query?: Readonly<Record<string, string | number | boolean | undefined>>, headers?: Record<string, string>, signal?: AbortSignal,
 *   withoutToken?: boolean,
 * }} RequestOptions
 */

/**
 * Sends one request.
 *
 * @param {string} method
 * @param {string} path without a slash at the start, so that the page works below a prefix: `things/bulk`
 * @param {RequestOptions} [options] `body` is sent as JSON
 * @returns {Promise<Response>} a success
 * @throws {ApiError}
 */
export async function send(method, path, { body, query = {}, headers = {}, signal, withoutToken = false } = {}) {
  const token = withoutToken ? undefined : session.value.token
  const given = Object.entries(query).filter(([, value]) => value !== undefined && value !== '')
  const search = new URLSearchParams(given.map(([name, value]) => [name, String(value)])).toString()
  /** @type {Response} */
  let response
  try {
    response = await fetch(search === '' ? path : `${path}?${search}`, {
      method,
      headers: {
        ...(token === undefined ? {} : { authorization: `Bearer ${token}` }),
        ...(body === undefined ? {} : { 'content-type': 'application/json' }),
        ...headers,
      },
      ...(body === undefined ? {} : { body: JSON.stringify(body) }),
      ...(signal === undefined ? {} : { signal }),
      cache: 'no-store',
      credentials: 'omit',
    })
  } catch (error) {
    if (signal?.aborted) throw error
    throw new ApiError(0, 'unreachable', 'The server does not answer. Is it running?')
  }
  if (response.ok) return response
  const problem = await response.json().catch(() => undefined)
  // The token ended or was revoked: the next view is the sign-in, which says so.
  if (response.status === 401 && token !== undefined && token === session.value.token) session.end('Your session ended: sign in again.')
  const message = problem?.detail ?? problem?.error ?? `The server answered ${response.status}.`
  throw new ApiError(response.status, problem?.code ?? 'unknown', message, problem)
}

/**
 * @param {string} path
 * @param {RequestOptions} [options]
 * @returns {Promise<any>} the JSON of the answer
 * @throws {ApiError}
 */
export async function get(path, options) {
  return (await send('GET', path, { ...options, headers: { accept: 'application/json', ...options?.headers } })).json()
}

/**
 * Follows server-sent events until `signal` aborts, and reconnects after an interruption, from the last event on.
 *
 * @param {string} path
 * @param {{
 *   query?: RequestOptions['query'], signal: AbortSignal,
 *   onEvent: (event: { event?: string | undefined, data: string }) => void,
 *   onState?: (state: 'open' | 'waiting', error?: ApiError) => void,
 * }} options `onState` tells whether it is connected
 * @throws {ApiError} if the server refuses: 4xx other than 429
 */
export async function follow(path, { query, signal, onEvent, onState = () => {} }) {
  /** @type {string | undefined} */
  let lastId
  let waitMs = 1000
  const parser = createParser({
    onEvent(event) {
      if (event.id !== undefined) lastId = event.id
      if (event.data !== '') onEvent(event)
    },
    onRetry: ms => (waitMs = ms),
  })
  while (!signal.aborted) {
    try {
      const headers = { accept: 'text/event-stream', ...(lastId === undefined ? {} : { 'last-event-id': lastId }) }
      const response = await send('GET', path, { ...(query === undefined ? {} : { query }), headers, signal })
      onState('open')
      parser.reset()
      const text = new TextDecoder()
      // Not `for await`: Safari cannot iterate over a body.
      const body = response.body?.getReader()
      for (let part = await body?.read(); part?.value !== undefined; part = await body?.read()) {
        parser.feed(text.decode(part.value, { stream: true }))
      }
      onState('waiting')
    } catch (error) {
      if (signal.aborted) return
      const refusal = error instanceof ApiError ? error : new ApiError(0, 'unreachable', 'The connection was interrupted.')
      if (refusal.status >= 400 && refusal.status < 500 && refusal.status !== 429) throw refusal
      onState('waiting', refusal)
    }
    await passed(waitMs, signal)
  }
}

/**
 * @param {number} ms
 * @param {AbortSignal} signal ends the wait
 */
function passed(ms, signal) {
  return new Promise(resolve => {
    const timer = setTimeout(resolve, ms)
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve(undefined)), { once: true })
  })
}
