// Requests to a server that the control plane depends on, each bounded in time: a policy store, a certificate authority.

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

export interface OutsideAnswer {
  readonly status: number
  readonly body: Buffer
}

export interface OutsideRequests {
  /**
   * @param path without the address: `/stores/<id>/check`
   * @param body sent as JSON
   * @returns whatever it answers in time
   * @throws HttpError `unavailable` without an answer
   */
  send(method: 'GET' | 'POST', path: string, body?: object): Promise<OutsideAnswer>
  /**
   * @param statuses that are of use beside 2xx
   * @throws HttpError `unavailable` for an answer of another status, or without JSON; its own words go to the log: they name what is wrong there
   */
  jsonOf(answer: OutsideAnswer, statuses?: readonly number[]): unknown
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

  const unavailable = (reason: string, cause?: unknown): HttpError =>
    new HttpError('unavailable', sentence, { cause: new Error(`${name} at ${origin}: ${reason}`, { cause }) })

  const unusable = ({ status, body }: OutsideAnswer): HttpError =>
    unavailable(`it answers ${status}: ${body.toString('utf8', 0, wordsMax)}`)

  async function request(options: Dispatcher.RequestOptions): Promise<Dispatcher.ResponseData> {
    try {
      return await pool.request(options)
    } catch (error) {
      if (!staleCodes.has((error as { code?: string }).code ?? '')) throw error
      return pool.request(options)
    }
  }

  return {
    async send(method, path, body) {
      try {
        const json = body === undefined ? {} : { body: JSON.stringify(body) }
        const type = body === undefined ? headers : { ...headers, 'content-type': 'application/json' }
        const answer = await request({ method, path: base + path, headers: type, signal: AbortSignal.timeout(timeoutMs), ...json })
        return { status: answer.statusCode, body: Buffer.from(await answer.body.arrayBuffer()) }
      } catch (error) {
        throw unavailable(reasonOf(error), error)
      }
    },
    jsonOf(answer, statuses = []) {
      if ((answer.status < 200 || answer.status > 299) && !statuses.includes(answer.status)) throw unusable(answer)
      try {
        return JSON.parse(answer.body.toString()) as unknown
      } catch (error) {
        throw unavailable('its answer is not JSON', error)
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
