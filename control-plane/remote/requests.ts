// Requests to the control plane's internal listener, and the errors for answers that are not as expected.

import { connect } from 'node:tls'
import { Client, type Dispatcher, Pool } from 'undici'
import { isTlsFault } from '../../config/tls-fault.ts'
import type { TlsTexts } from '../../http/tls-files.ts'
import { AccessUnavailableError } from '../client.ts'
import { streamType } from '../internal/wire.ts'
import { reasonOf, staleCodes } from '../outside/requests.ts'

export interface ControlAddress {
  /** `http://api:9080`; without user and password. */
  readonly url: string
  /** Sent with every request; never in a log or an error. */
  readonly token?: string | undefined
  readonly tls?: TlsTexts | undefined
}

export interface ControlRequests {
  /** @throws AccessUnavailableError for any answer but a 200 */
  post(path: string, body: string, signal: AbortSignal): Promise<unknown>
  /**
   * Opens a stream of lines on a separate connection.
   *
   * @throws ControlPlaneRefusalError if waiting does not help, AccessUnavailableError for any other answer but a 200
   */
  follow(path: string, signal: AbortSignal): Promise<Dispatcher.ResponseData['body']>
  /** The name of the control plane in errors and log lines. */
  readonly name: string
  close(): Promise<void>
}

/** An error that waiting cannot fix: the token is refused, or the server is not a control plane. The message names the option to change. */
export class ControlPlaneRefusalError extends AccessUnavailableError {
  override readonly name = 'ControlPlaneRefusalError'
}

const connectMsMax = 2_000
/** More than a control plane on a few cores works on at once; other requests wait here. */
const connectionsMax = 16
const answerBytesMax = 16 * 1024

/** Request Timeout, Too Early and Too Many Requests: worth a retry (RFC 9110 §15.5.9, RFC 8470 §5.2, RFC 6585 §4). */
const passingStatuses = new Set([408, 425, 429])

/** Connects when first used, and keeps connections open between requests. */
export function openControlRequests({ url, token, tls }: ControlAddress): ControlRequests {
  const { origin, pathname, protocol, hostname, port } = new URL(url)
  const base = pathname.replace(/\/$/, '')
  const name = `the control plane at ${origin}`
  const connection = { connect: { timeout: connectMsMax, ...tls }, allowH2: false, pipelining: 1 }
  const answers = { ...connection, connections: connectionsMax, maxResponseSize: answerBytesMax }
  const pool = new Pool(origin, answers)
  // Keeps no connection open: a second try on a kept one could hit the next stale connection.
  const fresh = new Pool(origin, { ...answers, pipelining: 0 })
  const stream = new Client(origin, { ...connection, headersTimeout: connectMsMax, bodyTimeout: 0 })
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` }

  async function succeed(asked: Promise<Dispatcher.ResponseData>, path: string): Promise<Dispatcher.ResponseData> {
    let answer: Dispatcher.ResponseData
    try {
      answer = await asked
    } catch (cause) {
      throw refusalBehind(cause) ?? new AccessUnavailableError(`${name} is unavailable: ${reasonOf(cause)}`, { cause })
    }
    const { statusCode } = answer
    if (statusCode === 200) return answer
    await answer.body.dump().catch(() => undefined)
    if (statusCode === 401 || statusCode === 403) throw new ControlPlaneRefusalError(`${name} ${tokenFault(token)}`)
    // Servers and proxies answer so while the service behind them starts or is overloaded.
    if (statusCode >= 500 || passingStatuses.has(statusCode)) throw new AccessUnavailableError(`${name} is unavailable (${statusCode})`)
    throw notControlPlane(`answers ${statusCode} to ${base}${path}`)
  }

  /** @throws `error`, or a refusal if the listener speaks TLS: such a listener closes a plain connection without an answer */
  async function refuseTls(error: AccessUnavailableError): Promise<never> {
    const { code = '' } = (error.cause ?? {}) as { code?: string }
    if (protocol !== 'http:' || !staleCodes.has(code) || !(await speaksTls(hostname, Number(port || 80)))) throw error
    throw new ControlPlaneRefusalError(`${name} speaks TLS: write control.url (SVC_CONTROL_URL) with https://`, { cause: error })
  }

  function notControlPlane(what: string, cause?: unknown): ControlPlaneRefusalError {
    return new ControlPlaneRefusalError(
      `the server at ${origin} is not a control plane: it ${what}; set control.url (SVC_CONTROL_URL) to the internal listener of \`./sluice api\` (its internal.listen), not to its public port`,
      { cause },
    )
  }

  /** The refusal if waiting cannot fix the failed connection; undefined if the server is away. */
  function refusalBehind(cause: unknown): ControlPlaneRefusalError | undefined {
    const { name: kind, code = '', message } = cause as Error & { code?: string }
    if (kind === 'HTTPParserError') return notControlPlane(`does not speak HTTP (${message})`, cause)
    if (code === 'ERR_SSL_WRONG_VERSION_NUMBER' || code === 'ERR_SSL_PACKET_LENGTH_TOO_LONG')
      return new ControlPlaneRefusalError(`${name} does not speak TLS: write control.url (SVC_CONTROL_URL) with http://`, { cause })
    if (isTlsFault(code)) {
      const sentence = `${name}: its certificate is not trusted (${code}): set control.ca_file (SVC_CONTROL_CA_FILE) to its certificate authority, and use in control.url (SVC_CONTROL_URL) the name in the certificate; or it refuses the certificate of control.cert_file (SVC_CONTROL_CERT_FILE)`
      return new ControlPlaneRefusalError(sentence, { cause })
    }
    return undefined
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
      const { body: answer } = await succeed(asked, path)
      try {
        return await answer.json()
      } catch (cause) {
        throw new AccessUnavailableError(`${name} sent an incomplete answer: ${reasonOf(cause)}`, { cause })
      }
    },
    async follow(path, signal) {
      const answer = await succeed(stream.request({ method: 'GET', path: base + path, headers, signal }), path).catch(refuseTls)
      const type = answer.headers['content-type']
      if (type === streamType) return answer.body
      await answer.body.dump().catch(() => undefined)
      throw notControlPlane(`answers 200 with ${type === undefined ? 'no content type' : String(type)} to ${base}${path}`)
    },
    async close() {
      await Promise.all([pool.destroy(), fresh.destroy(), stream.destroy()])
    },
  }
}

function tokenFault(token: string | undefined): string {
  const remedy = 'set control.token (SVC_CONTROL_TOKEN) to the internal.token of `./sluice api` (the same variable there)'
  return token === undefined ? `requires a token, and none is set: ${remedy}` : `refuses the token of this process: ${remedy}`
}

/** Whether a handshake succeeds there. */
function speaksTls(host: string, port: number): Promise<boolean> {
  return new Promise(resolve => {
    // Nothing is sent to it, so that its certificate does not matter.
    const socket = connect({ host: host.replaceAll(/[[\]]/g, ''), port, rejectUnauthorized: false, timeout: connectMsMax })
    const end = (spoken: boolean) => (): void => {
      resolve(spoken)
      socket.destroy()
    }
    socket.on('secureConnect', end(true)).on('error', end(false)).on('timeout', end(false)).on('close', end(false))
  })
}
