// Requests to this address, with the token of the session.

import { createParser } from 'eventsource-parser'
import { session } from './session.js'

/** An answer other than success: `code` and `message` are the API's, `answer` is its JSON. */
export class ApiError extends Error {
  /** @param {number} status 0 if there was no answer @param {string} code @param {string} message @param {any} [answer] */
  constructor(status, code, message, answer) {
    super(message)
    this.status = status
    this.code = code
    this.answer = answer
  }
}

/** Of an array each. @typedef {Readonly<Record<string, string | number | boolean | readonly string[] | undefined>>} Query */
/** `body` is sent as JSON, a text as it is; with `checksPassword` a 401 may be about a password in it. */
/** @typedef {{ body?: unknown, query?: Query, headers?: Record<string, string>, signal?: AbortSignal | undefined, withoutToken?: boolean, checksPassword?: boolean }} RequestOptions */

/**
 * Sends one request, to a path without a slash at the start, so that the page works below a prefix: `things/bulk`.
 * @param {string} method @param {string} path @param {RequestOptions} [options] @returns {Promise<Response>} a success @throws {ApiError}
 */
export async function send(method, path, { body, query = {}, headers = {}, signal, withoutToken = false, checksPassword = false } = {}) {
  const token = withoutToken ? undefined : session.value.token
  const search = new URLSearchParams()
  for (const [name, value] of Object.entries(query))
    for (const one of [value].flat()) if (one !== undefined) search.append(name, String(one))
  const all = new Headers(headers)
  if (token !== undefined) all.set('authorization', `Bearer ${token}`)
  if (body !== undefined && !all.has('content-type')) all.set('content-type', 'application/json')
  const response = await fetch(search.size === 0 ? path : `${path}?${search}`, {
    method,
    headers: all,
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
    signal: signal ?? null,
    cache: 'no-store',
    credentials: 'omit',
  }).catch(error => {
    throw signal?.aborted ? error : new ApiError(0, 'unreachable', 'The server does not answer. Is it running?')
  })
  if (response.ok) return response
  const problem = await response.json().catch(() => undefined)
  const isOfPassword = checksPassword && !response.headers.get('www-authenticate')?.includes('invalid_token')
  // The token ended or was revoked: the next view is the sign-in, which says so.
  if (response.status === 401 && !isOfPassword && token !== undefined && token === session.value.token)
    session.end('Your session ended: sign in again.')
  const message = problem?.detail ?? problem?.error ?? `The server answered ${response.status}.`
  throw new ApiError(response.status, problem?.code ?? 'unknown', message, problem)
}

/** The JSON of the answer. @param {string} path @param {RequestOptions} [options] @returns {Promise<any>} */
export async function get(path, options) {
  return (await send('GET', path, { headers: { accept: 'application/json' }, ...options })).json()
}

/** `next`: the query of the next page. @typedef {{ messages: any[], total?: number, total_is_lower_bound?: boolean, next?: Record<string, string> }} Page */

/** A page of a reader. @param {string} path @param {Query} query @param {AbortSignal} [signal] @returns {Promise<Page>} */
export async function getPage(path, query, signal) {
  const response = await send('GET', path, { query, signal, headers: { accept: 'application/json' } })
  const next = /<\?([^>]*)>; rel="next"/.exec(response.headers.get('link') ?? '')?.[1]
  return { ...(await response.json()), ...(next && { next: Object.fromEntries(new URLSearchParams(next)) }) }
}

/** All pages, until there are `max` records. Several channels are not in the texts of `next`. @param {string} path @param {Query} query @param {number} max @param {AbortSignal} signal */
export async function getPages(path, query, max, signal) {
  const messages = []
  /** @type {Query | undefined} */
  let next = { ...query, limit: 1000 }
  while (next !== undefined && messages.length < max) {
    const page = await getPage(path, next, signal)
    messages.push(...page.messages)
    next = page.next && { ...page.next, ...(query['channel'] && { channel: query['channel'] }) }
  }
  return { messages, isCut: next !== undefined }
}

/** @typedef {(event: { event?: string | undefined, data: string }) => void} Listener */

/**
 * Follows server-sent events until `signal` aborts, and reconnects after an interruption, from the last event on. @throws {ApiError} of 4xx other than 429
 * @param {string} path @param {{ signal: AbortSignal, onEvent: Listener, onState: (isOpen: boolean, error?: ApiError) => void }} options
 */
export async function follow(path, { signal, onEvent, onState }) {
  let lastId = ''
  let waitMs = 1000
  const parser = createParser({
    onEvent,
    // Also of those without data, which say how far a quiet stream is.
    onId: id => (lastId = id),
    onRetry: ms => (waitMs = ms),
  })
  while (!signal.aborted) {
    try {
      const response = await send('GET', path, { headers: { accept: 'text/event-stream', 'last-event-id': lastId }, signal })
      onState(true)
      parser.reset()
      const text = new TextDecoder()
      // Not `for await`: Safari cannot iterate over a body.
      const body = response.body?.getReader()
      for (let part = await body?.read(); part?.value !== undefined; part = await body?.read()) {
        parser.feed(text.decode(part.value, { stream: true }))
      }
      onState(false)
    } catch (error) {
      if (signal.aborted) return
      const refusal = error instanceof ApiError ? error : new ApiError(0, 'unreachable', 'The connection was interrupted.')
      if (refusal.status >= 400 && refusal.status < 500 && refusal.status !== 429) throw refusal
      onState(false, refusal)
    }
    await new Promise(resolve => setTimeout(resolve, waitMs))
  }
}
