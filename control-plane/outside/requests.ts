// Requests to a server that the control plane depends on, each bounded in time: a policy store, a certificate authority.

import type { Readable } from 'node:stream'
import type { Dispatcher, Pool } from 'undici'
import { HttpError } from '../../http/errors.ts'

export interface OutsideServer {
  /** For the log: `OpenFGA`. */
  readonly name: string
  /** What a client gets while it does not answer: `the policy store is unavailable: try again`. */
  readonly sentence: string
  /** `http://openfga:8080`; without user and password. */
  readonly url: string
  /** Of every request; never in a log or an error. */
  readonly headers?: Readonly<Record<string, string>>
  /** Root of its certificate, as PEM; by default the system's roots. */
  readonly ca?: string | undefined
  /** Milliseconds that one answer may take. */
  readonly timeoutMs: number
  /** By default 16 MiB. A larger answer is an error. */
  readonly answerBytesMax?: number
}

/** Why a request failed, or what is wrong with its answer: the cause of the error that is thrown, for the log. */
export class OutsideError extends Error {
  override readonly name = 'OutsideError'
  /** The status of its answer; undefined without an answer. */
  readonly status: number | undefined

  constructor(message: string, status: number | undefined, cause: unknown) {
    super(message, { cause })
    this.status = status
  }
}

export interface OutsideAnswer {
  /** The request that it answers, for the log: `POST /stores/<id>/check`. */
  readonly request: string
  readonly status: number
  readonly body: Buffer
}

export interface OutsideRequests {
  /**
   * @param path without the address: `/stores/<id>/check`
   * @param body sent as JSON
   * @param more headers in addition to those of every request
   * @returns any answer that arrives in time
   * @throws HttpError `unavailable` without an answer; its cause is an OutsideError, as for the methods below
   */
  send(method: 'GET' | 'POST', path: string, body?: object, more?: Readonly<Record<string, string>>): Promise<OutsideAnswer>
  /**
   * @param statuses that are accepted beside 2xx
   * @throws HttpError `unavailable` for an answer of another status, or without JSON; its text goes to the log, because it says what is wrong there
   */
  jsonOf(answer: OutsideAnswer, statuses?: readonly number[]): unknown
  /**
   * A POST whose answer is read while it arrives.
   *
   * @throws HttpError `unavailable` without an answer, for a status other than 2xx, and for whatever `read` throws
   */
  stream<Result>(path: string, body: object, read: (answer: Readable) => Promise<Result>): Promise<Result>
  /** The same error, for an answer that is not usable. @param advice for the operator: what to correct */
  unusable(answer: OutsideAnswer, advice?: string): HttpError
  close(): Promise<void>
}

const connectionsMax = 32
const answerBytesMax = 16 * 1024 * 1024
const loggedCharactersMax = 300
/** Errors of a connection that the other side had already closed: nothing is known to be wrong, and a request may be sent twice. */
export const staleCodes: ReadonlySet<string> = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** Connects when first used. Resends a request once if its connection was stale: no request does harm when it is sent twice. */
export function openOutsideRequests({
  name,
  sentence,
  url,
  headers = {},
  ca,
  timeoutMs,
  answerBytesMax: maxResponseSize = answerBytesMax,
}: OutsideServer): OutsideRequests {
  const { origin, pathname } = new URL(url)
  const base = pathname.replace(/\/$/, '')
  const connect = { timeout: timeoutMs, ...(ca === undefined ? {} : { ca }) }
  let pool: Promise<Pool> | undefined
  /** Loaded with the first request: most control planes depend on no such server. */
  function opened(): Promise<Pool> {
    pool ??= import('undici').then(undici => new undici.Pool(origin, { connections: connectionsMax, connect, maxResponseSize }))
    return pool
  }

  const unavailable = (reason: string, status?: number, cause?: unknown): HttpError =>
    new HttpError('unavailable', sentence, { cause: new OutsideError(`${name} at ${origin}: ${reason}`, status, cause) })

  const unusable = ({ request, status, body }: OutsideAnswer, advice?: string): HttpError => {
    const reason = `it answered ${status} to ${request}: ${body.toString('utf8', 0, loggedCharactersMax)}`
    return unavailable(advice === undefined ? reason : `${reason}; ${advice}`, status)
  }

  async function request(options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData> {
    const connections = await opened()
    try {
      return await connections.request(options)
    } catch (error) {
      if (!staleCodes.has((error as { code?: string }).code ?? '')) throw error
      return connections.request(options)
    }
  }

  async function ask<Result>(
    method: 'GET' | 'POST',
    path: string,
    body: object | undefined,
    read: (answer: Dispatcher.ResponseData) => Promise<Result>,
    more?: Readonly<Record<string, string>>,
  ): Promise<Result> {
    try {
      const json = body === undefined ? {} : { body: JSON.stringify(body) }
      const all = { ...headers, ...more, ...(body === undefined ? {} : { 'content-type': 'application/json' }) }
      return await read(await request({ method, path: base + path, headers: all, signal: AbortSignal.timeout(timeoutMs), ...json }))
    } catch (error) {
      throw error instanceof HttpError ? error : unavailable(reasonOf(error), undefined, error)
    }
  }

  const answerTo =
    (request: string) =>
    async ({ statusCode, body }: Dispatcher.ResponseData): Promise<OutsideAnswer> => ({
      request,
      status: statusCode,
      body: Buffer.from(await body.arrayBuffer()),
    })
  const isSuccess = (status: number): boolean => status >= 200 && status <= 299

  return {
    send: (method, path, body, more) => ask(method, path, body, answerTo(`${method} ${path}`), more),
    stream: (path, body, read) =>
      ask('POST', path, body, async answer => {
        if (isSuccess(answer.statusCode)) return read(answer.body)
        throw unusable(await answerTo(`POST ${path}`)(answer))
      }),
    jsonOf(answer, statuses = []) {
      if (!isSuccess(answer.status) && !statuses.includes(answer.status)) throw unusable(answer)
      try {
        return JSON.parse(answer.body.toString()) as unknown
      } catch (error) {
        throw unavailable('its answer is not JSON', answer.status, error)
      }
    },
    unusable,
    async close() {
      await (await pool)?.destroy()
    },
  }
}

/** The messages of the system and of undici; they contain addresses, and nothing of a request. */
export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.map(reasonOf).join('; ')
  if (!(error instanceof Error)) return 'unknown reason'
  return error.name === 'TimeoutError' ? 'no answer came in time' : error.message
}
