// Requests to one InfluxDB server over bounded connections: each with a time-out, and none before the instant that Retry-After names.

import { setTimeout as wait } from 'node:timers/promises'
import type { Dispatcher } from 'undici'
import { unlessAborted } from '../../config/aborting.ts'
import { named } from '../../config/option-variable.ts'
import { SinkError } from '../sink-error.ts'
import { type Answer, answerOf } from './annotated-csv.ts'
import { connectionFailure, ResponseError } from './errors.ts'
import { addressOf, type ConnectionOptions, registryBucketOf, type StoreAddress, urlFaults } from './options.ts'

/** A server that asks for more patience is asked again after this. */
const retryAfterMsMax = 300_000
const connectTimeoutMsMax = 5_000
/** A delete looks through all that the server has not yet put into files; given up, it would only be asked for again. */
const deletePatience = 10

export interface Connection extends StoreAddress {
  readonly registryBucket: string
  /**
   * Line protocol, compressed by gzip, with times in nanoseconds. What is acknowledged is durable.
   *
   * @throws ResponseError, SinkError
   */
  write(bucket: string, gzipped: Uint8Array, signal?: AbortSignal): Promise<void>
  /** Deletes the points of a bucket between two instants (RFC 3339, both inclusive) whose tags the predicate names. */
  remove(bucket: string, start: string, stop: string, predicate: string, signal?: AbortSignal): Promise<void>
  /** The answer to a query in Flux, as it arrives. Whoever stops reading ends the query. */
  query(flux: string, signal?: AbortSignal): Answer
  /** The JSON of any other answer. */
  ask<Result>(
    method: 'GET' | 'POST' | 'PATCH',
    path: string,
    query: Readonly<Record<string, string>>,
    body?: object,
    signal?: AbortSignal,
  ): Promise<Result>
  /** Whether the server says anything at all until the signal aborts: over a connection of its own, and however busy the others are. */
  isAlive(signal: AbortSignal): Promise<boolean>
  /** Ends what is under way. A second call does nothing. */
  close(): Promise<void>
}

interface Asked {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: Uint8Array | string
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
  readonly timeoutMs?: number
}

/**
 * Loads the HTTP client; the server need not be there.
 *
 * @throws SinkError (systemic) where the URL cannot be used
 */
export async function openConnection(
  options: ConnectionOptions,
  applicationName: string,
  tls: { ca?: string; cert?: string; key?: string } = {},
): Promise<Connection> {
  const [fault] = urlFaults(options.url)
  if (fault !== undefined)
    throw new SinkError('systemic', `the URL of InfluxDB, ${named('store.url', 'SVC_TIMESERIES_URL')}, ${fault.problem}`)
  const { Client, Pool } = await import('undici')
  const address = addressOf(options.url)
  const { org, bucket } = address
  const requestTimeoutMs = 'requestTimeoutMs' in options ? options.requestTimeoutMs : options.queryTimeoutMs
  const server = new URL(address.origin).host
  const asEach = {
    pipelining: 1,
    allowH2: false,
    connect: { ...tls, timeout: Math.min(requestTimeoutMs, connectTimeoutMsMax) },
    // Each request has a time-out of its own.
    headersTimeout: 0,
    bodyTimeout: 0,
  }
  // One more, so that a question of another worker's need not wait behind a batch.
  const pool = new Pool(address.origin, { ...asEach, connections: options.requestsInFlight + 1 })
  const ownHeaders = { authorization: `Token ${options.token}`, 'user-agent': applicationName }
  let notBeforeMs = 0

  /** Ends an exchange that takes longer, and when the signal aborts. */
  async function timed<Result>(
    signal: AbortSignal | undefined,
    timeoutMs: number,
    exchange: (ended: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const ending = new AbortController()
    const giveUp = (): void => ending.abort(new SinkError('transient', 'the request was given up by its caller'))
    if (signal?.aborted === true) giveUp()
    signal?.addEventListener('abort', giveUp)
    const timeOut = (): void => ending.abort(new SinkError('transient', `InfluxDB at ${server} has not answered for ${timeoutMs} ms`))
    const timer = setTimeout(timeOut, timeoutMs)
    try {
      // One that still waits for a connection heeds no signal.
      return await unlessAborted(exchange(ending.signal), ending.signal)
    } catch (error) {
      if (ending.signal.aborted) throw ending.signal.reason
      throw error instanceof ResponseError || error instanceof SinkError ? error : connectionFailure(server, error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', giveUp)
    }
  }

  async function send({ method, path, query = {}, body, headers = {} }: Asked, ended: AbortSignal): Promise<Dispatcher.ResponseData> {
    const response = await pool.request({
      method,
      path: address.path + path,
      query,
      headers: { ...ownHeaders, ...headers },
      body: body ?? null,
      signal: ended,
    })
    if (response.statusCode >= 200 && response.statusCode < 300) return response
    const text = await response.body.text()
    heed(response)
    const named = query['bucket'] ?? query['name']
    throw new ResponseError(`${method} ${path}`, response.statusCode, text, { org, ...(named === undefined ? {} : { bucket: named }) })
  }

  function heed({ statusCode, headers }: Dispatcher.ResponseData): void {
    if (statusCode !== 429 && statusCode !== 503) return
    const afterMs = retryAfterMs(headers['retry-after'])
    if (afterMs !== undefined) notBeforeMs = performance.now() + Math.min(afterMs, retryAfterMsMax)
  }

  /** Resolves when the server wants to be asked again. */
  async function patience(signal: AbortSignal | undefined): Promise<void> {
    for (let waitMs = notBeforeMs - performance.now(); waitMs > 0; waitMs = notBeforeMs - performance.now()) {
      await wait(Math.ceil(waitMs), undefined, signal === undefined ? {} : { signal })
    }
  }

  async function exchange(asked: Asked): Promise<string> {
    await patience(asked.signal)
    return await timed(asked.signal, asked.timeoutMs ?? requestTimeoutMs, async ended => {
      const response = await send(asked, ended)
      return await response.body.text()
    })
  }

  async function* stream(asked: Asked): AsyncGenerator<Uint8Array> {
    await patience(asked.signal)
    const stopped = new AbortController()
    const stop = (): void => stopped.abort()
    asked.signal?.addEventListener('abort', stop)
    try {
      const response = await timed(stopped.signal, requestTimeoutMs, ended => send(asked, AbortSignal.any([ended, stopped.signal])))
      const chunks = response.body[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>
      for (;;) {
        const { done, value } = await timed(stopped.signal, requestTimeoutMs, () => chunks.next())
        if (done === true) return
        yield value
      }
    } finally {
      asked.signal?.removeEventListener('abort', stop)
      stopped.abort()
    }
  }

  return {
    ...address,
    registryBucket: registryBucketOf(bucket),
    async write(bucket, gzipped, signal) {
      const headers = { 'content-type': 'text/plain; charset=utf-8', 'content-encoding': 'gzip' }
      await exchange({ method: 'POST', path: '/api/v2/write', query: { org, bucket, precision: 'ns' }, body: gzipped, headers, signal })
    },
    async remove(bucket, start, stop, predicate, signal) {
      const body = JSON.stringify({ start, stop, predicate })
      const timeoutMs = requestTimeoutMs * deletePatience
      await exchange({ method: 'POST', path: '/api/v2/delete', query: { org, bucket }, body, headers: ofJson, signal, timeoutMs })
    },
    query(flux, signal) {
      const body = JSON.stringify({ query: flux, dialect: { annotations: ['datatype'], header: true } })
      return answerOf(stream({ method: 'POST', path: '/api/v2/query', query: { org }, body, headers: ofJson, signal }))
    },
    async ask<Result>(method: Asked['method'], path: string, query: Readonly<Record<string, string>>, body?: object, signal?: AbortSignal) {
      const sent = body === undefined ? {} : { body: JSON.stringify(body), headers: ofJson }
      const text = await exchange({ method, path, query, ...sent, signal })
      return JSON.parse(text) as Result
    },
    async isAlive(signal) {
      const client = new Client(address.origin, asEach)
      try {
        await client.request({ method: 'GET', path: `${address.path}/health`, headers: ownHeaders, signal })
        return true
      } catch {
        // Refused, cut off or given up: whatever it is, nothing was said.
        return false
      } finally {
        await client.destroy()
      }
    },
    close: () => pool.destroy(),
  }
}

const ofJson = { 'content-type': 'application/json' }

/** Seconds or an instant (RFC 9110 §10.2.3), as milliseconds from now. */
function retryAfterMs(header: string | readonly string[] | undefined): number | undefined {
  if (typeof header !== 'string') return undefined
  if (/^\d+$/.test(header.trim())) return Number(header) * 1000
  const instantMs = Date.parse(header)
  return Number.isNaN(instantMs) ? undefined : Math.max(0, instantMs - Date.now())
}
