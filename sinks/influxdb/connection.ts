// Sends requests to one InfluxDB server over a bounded number of connections: each with a time-out, and none before the time that Retry-After names.
// Queries are in Flux, from fixed text and escaped literals, and the client library parses their answers.
//
// In a quoted CSV field, the server's encoder writes each line end as CRLF and drops every other CR: `exactText` preserves them.

import { setTimeout as wait } from 'node:timers/promises'
import { type ChunkCombiner, chunksToLines, type FluxTableMetaData, linesToTables, type Row } from '@influxdata/influxdb-client'
import type { Dispatcher } from 'undici'
import { unlessAborted } from '../../config/aborting.ts'
import { named } from '../../config/options/variable.ts'
import { SinkError } from '../sink-error.ts'
import { connectionFailure, ResponseError } from './errors.ts'
import { addressOf, type ConnectionOptions, registryBucketOf, type StoreAddress, urlFaults } from './options.ts'

/** If the server asks to wait longer, it is asked again after this time. */
const retryAfterMsMax = 300_000
const connectTimeoutMsMax = 5_000

export interface Connection extends StoreAddress {
  readonly registryBucket: string
  /**
   * Writes line protocol, compressed by gzip, with times in nanoseconds. What is acknowledged is durable.
   *
   * @throws ResponseError, SinkError
   */
  write(bucket: string, gzipped: Uint8Array, signal?: AbortSignal): Promise<void>
  /** Returns the rows of a Flux query as they arrive. The query ends when the caller stops reading. */
  query(flux: string, signal?: AbortSignal): Answer
  /** Returns the JSON of any other answer. */
  ask<Result>(
    method: 'GET' | 'POST' | 'PATCH',
    path: string,
    query: Readonly<Record<string, string>>,
    body?: object,
    signal?: AbortSignal,
  ): Promise<Result>
  /** Deletes the points of a range of times (RFC 3339, both included). The predicate names their measurement and tags. */
  remove(bucket: string, times: { readonly start: string; readonly stop: string }, predicate: string, signal?: AbortSignal): Promise<void>
  /** True if the server answers anything before the signal aborts. Uses a connection of its own, so it works while the others are busy. */
  isAlive(signal: AbortSignal): Promise<boolean>
  /** Aborts all requests. A second call does nothing. */
  close(): Promise<void>
}

interface Asked {
  readonly method: 'GET' | 'POST' | 'PATCH'
  readonly path: string
  readonly query?: Readonly<Record<string, string>>
  readonly body?: Uint8Array | string
  readonly headers?: Readonly<Record<string, string>>
  readonly signal?: AbortSignal | undefined
}

/**
 * Loads the HTTP client; the server need not be reachable.
 *
 * @throws SinkError (systemic) if the URL cannot be used
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
    // Each request has its own time-out.
    headersTimeout: 0,
    bodyTimeout: 0,
  }
  // One more, so that a short request does not wait behind a batch.
  const pool = new Pool(address.origin, { ...asEach, connections: options.requestsInFlight + 1 })
  const ownHeaders = { authorization: `Token ${options.token}`, 'user-agent': applicationName }
  let notBeforeMs = 0

  /** Aborts an exchange that takes longer than the time-out, or when the signal aborts. */
  async function timed<Result>(
    signal: AbortSignal | undefined,
    timeoutMs: number,
    exchange: (ended: AbortSignal) => Promise<Result>,
  ): Promise<Result> {
    const controller = new AbortController()
    const abort = (): void => controller.abort(new SinkError('transient', 'the caller aborted the request'))
    if (signal?.aborted === true) abort()
    signal?.addEventListener('abort', abort)
    const timeOut = (): void => controller.abort(new SinkError('transient', `InfluxDB at ${server} has not answered for ${timeoutMs} ms`))
    const timer = setTimeout(timeOut, timeoutMs)
    try {
      // The client ignores the signal while the request waits for a connection.
      return await unlessAborted(exchange(controller.signal), controller.signal)
    } catch (error) {
      if (controller.signal.aborted) throw controller.signal.reason
      throw error instanceof ResponseError || error instanceof SinkError ? error : connectionFailure(server, error)
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', abort)
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

  /** Waits until the time of the last Retry-After. */
  async function patience(signal: AbortSignal | undefined): Promise<void> {
    for (let waitMs = notBeforeMs - performance.now(); waitMs > 0; waitMs = notBeforeMs - performance.now()) {
      await wait(Math.ceil(waitMs), undefined, signal === undefined ? {} : { signal })
    }
  }

  async function exchange(asked: Asked): Promise<string> {
    await patience(asked.signal)
    return await timed(asked.signal, requestTimeoutMs, async ended => {
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
    query(flux, signal) {
      const body = JSON.stringify({ query: flux, dialect: { annotations: ['datatype'], header: true } })
      return answerOf(stream({ method: 'POST', path: '/api/v2/query', query: { org }, body, headers: jsonHeaders, signal }))
    },
    async ask<Result>(method: Asked['method'], path: string, query: Readonly<Record<string, string>>, body?: object, signal?: AbortSignal) {
      const sent = body === undefined ? {} : { body: JSON.stringify(body), headers: jsonHeaders }
      const text = await exchange({ method, path, query, ...sent, signal })
      return JSON.parse(text) as Result
    },
    async remove(bucket, times, predicate, signal) {
      const body = JSON.stringify({ ...times, predicate })
      await exchange({ method: 'POST', path: '/api/v2/delete', query: { org, bucket }, body, headers: jsonHeaders, signal })
    },
    async isAlive(signal) {
      const client = new Client(address.origin, asEach)
      try {
        await client.request({ method: 'GET', path: `${address.path}/health`, headers: ownHeaders, signal })
        return true
      } catch {
        // Refused, closed or aborted: in each case there was no answer.
        return false
      } finally {
        await client.destroy()
      }
    },
    close: () => pool.destroy(),
  }
}

const jsonHeaders = { 'content-type': 'application/json' }

/** Parses seconds or a date (RFC 9110 §10.2.3); returns milliseconds from now. */
function retryAfterMs(header: string | readonly string[] | undefined): number | undefined {
  if (typeof header !== 'string') return undefined
  if (/^\d+$/.test(header.trim())) return Number(header) * 1000
  const retryAtMs = Date.parse(header)
  return Number.isNaN(retryAtMs) ? undefined : Math.max(0, retryAtMs - Date.now())
}

/** The range of InfluxDB's times, except the last one. */
const earliestNs = -9_223_372_036_854_775_806n
const latestNs = 9_223_372_036_854_775_806n

/**
 * A string literal, in which every byte that is not harmless is escaped. The library's own escaping is not used: it turns the text `$\` into `"$\\"`,
 * where Flux 0.196 takes the closing quote as part of the text, so that untrusted text could continue as part of the query.
 */
export function fluxText(text: string): string {
  return `"${text.replaceAll(/[^\w .:/-]+/g, escaped)}"`
}

function escaped(text: string): string {
  let bytes = ''
  for (const byte of Buffer.from(text, 'utf8')) bytes += `\\x${byte.toString(16).padStart(2, '0')}`
  return bytes
}

/** Nanoseconds since 1970, as a literal. */
function fluxTime(ns: bigint): string {
  return `time(v: ${ns})`
}

export interface Range {
  /** Inclusive; by default the earliest time. */
  readonly startNs?: bigint
  /** Exclusive; by default the latest time. */
  readonly stopNs?: bigint
}

/** `from |> range`, by default over all times. */
export function fluxFrom(bucket: string, { startNs = earliestNs, stopNs = latestNs }: Range = {}): string {
  return `from(bucket: ${fluxText(bucket)}) |> range(start: ${fluxTime(startNs)}, stop: ${fluxTime(stopNs)})`
}

/** A filter by equality of all these columns, which the storage engine executes itself. */
export function fluxWhere(columns: Readonly<Record<string, string>>): string {
  const terms = Object.entries(columns).map(([name, value]) => `r[${fluxText(name)}] == ${fluxText(value)}`)
  return ` |> filter(fn: (r) => ${terms.join(' and ')})`
}

/** A filter for any of these measurements. */
export function fluxOf(measurements: readonly string[]): string {
  return ` |> filter(fn: (r) => ${measurements.map(name => `r._measurement == ${fluxText(name)}`).join(' or ')})`
}

/**
 * Adds the column `exact`: the text of `_value`, escaped so that CSV, which changes line ends, preserves it. `unescaped` decodes it. Needs
 * `import "strings"`. Values of every type get a text, since a column must have the same type in all tables of a query.
 */
export const exactText = ` |> map(fn: (r) => ({r with exact: strings.replaceAll(v: strings.replaceAll(v: strings.replaceAll(
  v: string(v: r._value), t: "\\\\", u: "\\\\\\\\"), t: "\\r", u: "\\\\r"), t: "\\n", u: "\\\\n")}))`

export function unescaped(text: string): string {
  return text.replaceAll(/\\(.)/g, (_all, mark: string) => (mark === 'r' ? '\r' : mark === 'n' ? '\n' : mark))
}

/** Parses RFC 3339 with nanoseconds; returns nanoseconds since 1970. */
export function nsOf(timestamp: string): bigint {
  const [, seconds, fraction = ''] = /^(.*:\d\d)(?:\.(\d{1,9}))?Z$/.exec(timestamp) ?? []
  if (seconds === undefined) throw new RangeError(`${timestamp} is not a time in UTC`)
  return BigInt(Date.parse(`${seconds}Z`)) * 1_000_000n + BigInt(fraction.padEnd(9, '0'))
}

export type { FluxTableMetaData, Row }

/** Rows in pages, as they arrive. */
export type Answer = AsyncIterable<readonly Row[]>

/** The columns of every table in an answer, besides the measurement and the tags. */
export const ownColumns: ReadonlySet<string> = new Set(['result', 'table', '_start', '_stop', '_time', '_value', '_field'])

/** The position of a column in the rows of a table; undefined if the table has no column of that name. */
export function columnIndex(table: FluxTableMetaData, name: string): number | undefined {
  const { label, index } = table.column(name, false)
  return label === name ? index : undefined
}

/** The text of a column; undefined if the row's table has no column of that name. An empty text may also mean that there is no value. */
export function cell({ values, tableMeta }: Row, name: string): string | undefined {
  return values[tableMeta.column(name, false).index]
}

export function typeOf({ tableMeta }: Row, name: string): string {
  return tableMeta.column(name, false).dataType
}

/** Faster than the library's own, which uses a TextDecoder for each line. */
const combiner: ChunkCombiner = {
  concat: (first, second) => Buffer.concat([first, second]),
  copy: (chunk, start, end) => chunk.slice(start, end),
  toUtf8String: (chunk, start, end) => Buffer.from(chunk.buffer, chunk.byteOffset + start, end - start).toString(),
}

/** @throws SinkError if the answer contains an error */
export async function* answerOf(chunks: AsyncIterable<Uint8Array>): Answer {
  let rows: Row[] = []
  let table: FluxTableMetaData | undefined
  let failure: Error | undefined
  const tables = linesToTables({
    next(values, tableMeta) {
      if (tableMeta !== table) failure ??= errorIn({ values, tableMeta })
      table = tableMeta
      rows.push({ values, tableMeta })
    },
    error(error) {
      failure ??= error
    },
    complete: () => undefined,
  })
  const lines = chunksToLines(tables, combiner)
  function taken(): Row[] {
    if (failure !== undefined) throw failure
    const page = rows
    rows = []
    return page
  }
  for await (const chunk of chunks) {
    lines.next(chunk)
    const page = taken()
    if (page.length > 0) yield page
  }
  lines.complete()
  const rest = taken()
  if (rest.length > 0) yield rest
}

/**
 * An error that occurs while rows are being sent comes as a table of its own. The server accepted the query, and all queries are fixed, so the cause
 * is the server's state (memory, a time-out), which passes.
 */
function errorIn(row: Row): SinkError | undefined {
  const [error, reference, table] = ['error', 'reference', 'table'].map(name => cell(row, name))
  if (error === undefined || reference === undefined || table !== undefined) return undefined
  return new SinkError('transient', `InfluxDB aborted a query: ${error}`)
}
