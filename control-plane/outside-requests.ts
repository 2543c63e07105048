// Requests to a server that the control plane depends on, each bounded in time: a policy store, a certificate authority.

import type { Readable } from 'node:stream'
import { type Dispatcher, Pool } from 'undici'
import { HttpError } from '../config/http/errors.ts'

export interface OutsideServer {
  /** For the log: `OpenFGA`. */
  readonly name: string
  /** What a client is answered when it cannot be asked: `the policy store cannot be asked: try again`. */
  readonly sentence: string
  /** `http://openfga:8080`; without user and password. */
  readonly url: string
  /** Of every request; never in a log or an error. */
  readonly headers?: Readonly<Record<string, string>>
  /** Root of its certificate, as PEM; the system's where it is left out. */
  readonly ca?: string | undefined
  /** Milliseconds that one answer may take. */
  readonly timeoutMs: number
}

/** Why it could not be asked, or what is wrong with its answer: the cause of what is thrown, for the log. */
export class OutsideError extends Error {
  override readonly name = 'OutsideError'
  /** Of its answer; undefined where none came. */
  readonly status: number | undefined

  constructor(message: string, status: number | undefined, cause: unknown) {
    super(message, { cause })
    this.status = status
  }
}

export interface OutsideAnswer {
  readonly status: number
  readonly body: Buffer
}

export interface OutsideRequests {
  /**
   * @param path without the address: `/stores/<id>/check`
   * @param body sent as JSON
   * @returns whatever it answers in time
   * @throws HttpError `unavailable` without an answer; its cause, as that of the others, is an OutsideError
   */
  send(method: 'GET' | 'POST', path: string, body?: object): Promise<OutsideAnswer>
  /**
   * @param statuses that are of use beside 2xx
   * @throws HttpError `unavailable` for an answer of another status, or without JSON; its own words go to the log: they name what is wrong there
   */
  jsonOf(answer: OutsideAnswer, statuses?: readonly number[]): unknown
  /**
   * A POST whose answer is read while it arrives.
   *
   * @throws HttpError `unavailable` without an answer, for another than a 2xx, and for what `read` throws
   */
  stream<Result>(path: string, body: object, read: (answer: Readable) => Promise<Result>): Promise<Result>
  /** That error, for an answer of no use. */
  unusable(answer: OutsideAnswer): HttpError
  close(): Promise<void>
}

const connectionsMax = 32
/** A CRL of some 300,000 certificates. */
const answerBytesMax = 16 * 1024 * 1024
const wordsMax = 300
const staleCodes = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** Connects when first used. A request is sent again once where its connection was stale: nothing that is asked does harm twice. */
export function openOutsideRequests({ name, sentence, url, headers = {}, ca, timeoutMs }: OutsideServer): OutsideRequests {
  const { origin, pathname } = new URL(url)
  const base = pathname.replace(/\/$/, '')
  const connect = { timeout: timeoutMs, ...(ca === undefined ? {} : { ca }) }
  const pool = new Pool(origin, { connections: connectionsMax, connect, maxResponseSize: answerBytesMax })

  const unavailable = (reason: string, status?: number, cause?: unknown): HttpError =>
    new HttpError('unavailable', sentence, { cause: new OutsideError(`${name} at ${origin}: ${reason}`, status, cause) })

  const unusable = ({ status, body }: OutsideAnswer): HttpError =>
    unavailable(`it answers ${status}: ${body.toString('utf8', 0, wordsMax)}`, status)

  async function request(options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData> {
    try {
      return await pool.request(options)
    } catch (error) {
      if (!staleCodes.has((error as { code?: string }).code ?? '')) throw error
      return pool.request(options)
    }
  }

  async function ask<Result>(
    method: 'GET' | 'POST',
    path: string,
    body: object | undefined,
    read: (answer: Dispatcher.ResponseData) => Promise<Result>,
  ): Promise<Result> {
    try {
      const json = body === undefined ? {} : { body: JSON.stringify(body) }
      const type = body === undefined ? headers : { ...headers, 'content-type': 'application/json' }
      return await read(await request({ method, path: base + path, headers: type, signal: AbortSignal.timeout(timeoutMs), ...json }))
    } catch (error) {
      throw error instanceof HttpError ? error : unavailable(reasonOf(error), undefined, error)
    }
  }

  const answerOf = async ({ statusCode, body }: Dispatcher.ResponseData): Promise<OutsideAnswer> => ({
    status: statusCode,
    body: Buffer.from(await body.arrayBuffer()),
  })
  const isSuccess = (status: number): boolean => status >= 200 && status <= 299

  return {
    send: (method, path, body) => ask(method, path, body, answerOf),
    stream: (path, body, read) =>
      ask('POST', path, body, async answer => {
        if (isSuccess(answer.statusCode)) return read(answer.body)
        throw unusable(await answerOf(answer))
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
    close: () => pool.destroy(),
  }
}

function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.map(reasonOf).join('; ')
  if (!(error instanceof Error)) return 'no reason is known'
  return error.name === 'TimeoutError' ? 'no answer came in time' : error.message
}
