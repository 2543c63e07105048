// Requests to the control plane's internal listener, and what became of one that was not answered as it should be.

import { Client, type Dispatcher, Pool } from 'undici'
import type { TlsTexts } from '../../config/tls-files.ts'
import { AccessUnavailableError } from '../client.ts'

export interface ControlAddress {
  /** `http://api:9080`; without user and password. */
  readonly url: string
  /** Shown with every request; never in a log or an error. */
  readonly token?: string | undefined
  readonly tls?: TlsTexts | undefined
}

export interface ControlRequests {
  /** @throws AccessUnavailableError for anything but a 200 */
  post(path: string, body: string, signal: AbortSignal): Promise<unknown>
  /** Opens a stream on a connection of its own. @throws AccessUnavailableError for anything but a 200 */
  follow(path: string, signal: AbortSignal): Promise<Dispatcher.ResponseData['body']>
  /** As errors and log lines name the control plane. */
  readonly name: string
  close(): Promise<void>
}

const connectMsMax = 2_000
/** More at once than a control plane of a few cores works on; the rest waits here. */
const connectionsMax = 16
const answerBytesMax = 16 * 1024
/** A connection that the other side had closed already: nothing is known to be wrong, and a question may be asked twice. */
const staleCodes = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** Connects when first used, and keeps connections open between requests. */
export function openControlRequests({ url, token, tls }: ControlAddress): ControlRequests {
  const { origin, pathname } = new URL(url)
  const base = pathname.replace(/\/$/, '')
  const name = `the control plane at ${origin}`
  const connection = { connect: { timeout: connectMsMax, ...tls }, allowH2: false, pipelining: 1 }
  const answers = { ...connection, connections: connectionsMax, maxResponseSize: answerBytesMax }
  const pool = new Pool(origin, answers)
  // Keeps no connection open: a second try on one that is kept could meet the next stale one.
  const fresh = new Pool(origin, { ...answers, pipelining: 0 })
  const stream = new Client(origin, { ...connection, headersTimeout: connectMsMax, bodyTimeout: 0 })
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }

  async function succeed(asked: Promise<Dispatcher.ResponseData>): Promise<Dispatcher.ResponseData['body']> {
    let answer: Dispatcher.ResponseData
    try {
      answer = await asked
    } catch (cause) {
      throw new AccessUnavailableError(`${name} cannot be asked: ${reasonOf(cause)}`, { cause })
    }
    if (answer.statusCode === 200) return answer.body
    await answer.body.dump().catch(() => undefined)
    throw new AccessUnavailableError(`${name} ${refusal(answer.statusCode)}`)
  }

  return {
    name,
    async post(path, body, signal) {
      const request = {
        method: 'POST',
        path: base + path,
        headers: { ...headers, 'content-type': 'application/json' },
        body,
        signal,
      } as const
      const asked = pool.request(request).catch((error: unknown) => {
        if (!staleCodes.has((error as { code?: string }).code ?? '')) throw error
        return fresh.request(request)
      })
      const answer = await succeed(asked)
      try {
        return await answer.json()
      } catch (cause) {
        throw new AccessUnavailableError(`${name} gave an answer that broke off: ${reasonOf(cause)}`, { cause })
      }
    },
    follow: (path, signal) => succeed(stream.request({ method: 'GET', path: base + path, headers, signal })),
    async close() {
      await Promise.all([pool.destroy(), fresh.destroy(), stream.destroy()])
    },
  }
}

function refusal(status: number): string {
  if (status === 401) return "does not take this process's token: set SVC_CONTROL_TOKEN to the same on both sides"
  if (status === 404) return 'does not know what was asked: give the address of its internal listener as control.url'
  if (status === 503) return 'cannot answer now (503)'
  return `answered with ${status}`
}

/** The system's and undici's own words; they hold addresses, and nothing of a request. */
function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.map(reasonOf).join('; ')
  if (!(error instanceof Error)) return 'no reason is known'
  if (error.name === 'TimeoutError') return 'no answer came in time'
  return error.message
}
