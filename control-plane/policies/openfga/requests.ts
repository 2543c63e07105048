// Requests to an OpenFGA server, each bounded in time, and asked again once where its connection was stale: all of them may be.

import type { Readable } from 'node:stream'
import { type Dispatcher, Pool } from 'undici'
import { HttpError } from '../../../config/http/errors.ts'

export interface OpenFgaAddress {
  /** `http://openfga:8080`; without user and password. */
  readonly url: string
  /** Its preshared key; never in a log or an error. */
  readonly key?: string | undefined
  /** Milliseconds that one answer may take. */
  readonly timeoutMs: number
}

/** It was asked, and says no (400): asking again is of no use. */
export class RefusedError extends Error {
  override readonly name = 'RefusedError'
}

export interface OpenFgaRequests {
  /**
   * @param path without the address: `/stores/<id>/check`
   * @returns the answer's JSON
   * @throws HttpError `unavailable` for everything but a 2xx within the time, whose cause is a RefusedError for a 400
   */
  post(path: string, body: object): Promise<unknown>
  /**
   * @returns the first `max` results of an answer that comes as a stream
   * @throws as `post`
   */
  stream(path: string, body: object, max: number): Promise<unknown[]>
  close(): Promise<void>
}

const connectionsMax = 32
const answerBytesMax = 4 * 1024 * 1024
const staleCodes = new Set(['UND_ERR_SOCKET', 'ECONNRESET', 'EPIPE'])

/** Connects when first used. */
export function openRequests({ url, key, timeoutMs }: OpenFgaAddress): OpenFgaRequests {
  const { origin, pathname } = new URL(url)
  const base = pathname.replace(/\/$/, '')
  const pool = new Pool(origin, { connections: connectionsMax, connect: { timeout: timeoutMs }, maxResponseSize: answerBytesMax })
  const headers = { 'content-type': 'application/json', ...(key === undefined ? {} : { authorization: `Bearer ${key}` }) }

  async function send(path: string, body: string): Promise<Dispatcher.ResponseData> {
    const request = { method: 'POST', path: base + path, headers, body, signal: AbortSignal.timeout(timeoutMs) } as const
    try {
      return await pool.request(request)
    } catch (error) {
      if (!staleCodes.has((error as { code?: string }).code ?? '')) throw error
      return pool.request(request)
    }
  }

  /** @throws HttpError `unavailable` for everything but a 2xx that is read within the time */
  async function ask<Answer>(
    path: string,
    body: object,
    read: (answer: Dispatcher.ResponseData['body']) => Promise<Answer>,
  ): Promise<Answer> {
    try {
      const answer = await send(path, JSON.stringify(body))
      if (answer.statusCode >= 200 && answer.statusCode < 300) return await read(answer.body)
      // Its own words name what is wrong with the store, the model or the key.
      const words = `it answers ${answer.statusCode}: ${(await answer.body.text()).slice(0, 300)}`
      throw answer.statusCode === 400 ? new RefusedError(words) : new Error(words)
    } catch (cause) {
      const [Kind, words] = [cause instanceof RefusedError ? RefusedError : Error, `OpenFGA at ${origin}: ${reasonOf(cause)}`]
      throw new HttpError('unavailable', 'the policy store cannot be asked: try again', { cause: new Kind(words, { cause }) })
    }
  }

  return {
    post: (path, body) => ask(path, body, answer => answer.json()),
    stream: (path, body, max) => ask(path, body, answer => resultsOf(answer, max)),
    close: () => pool.destroy(),
  }
}

/** A line of JSON each, `{"result": …}`, or `{"error": {"message": …}}` where it breaks off. What comes after `max` is not waited for. */
async function resultsOf(answer: Readable, max: number): Promise<unknown[]> {
  const results: unknown[] = []
  let rest = ''
  for await (const chunk of answer.setEncoding('utf8')) {
    const lines = (rest + String(chunk)).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      const { result, error } = JSON.parse(line) as { result?: unknown; error?: { message?: string } }
      if (error !== undefined) throw new Error(`it broke off its answer: ${error.message}`)
      if (results.push(result) >= max) return results
    }
  }
  return results
}

function reasonOf(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return error.errors.map(reasonOf).join('; ')
  if (!(error instanceof Error)) return 'no reason is known'
  return error.name === 'TimeoutError' ? 'no answer came in time' : error.message
}
