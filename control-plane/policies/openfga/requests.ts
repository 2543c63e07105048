// Requests to an OpenFGA server: all of them may be repeated.

import type { Readable } from 'node:stream'
import { openOutsideRequests } from '../../outside/requests.ts'

export interface OpenFgaAddress {
  /** `http://openfga:8080`; without user and password. */
  readonly url: string
  /** Its preshared key; never in a log or an error. */
  readonly key?: string | undefined
  /** Milliseconds that one answer may take. */
  readonly timeoutMs: number
}

export interface OpenFgaRequests {
  /**
   * @param path without the address: `/stores/<id>/check`
   * @returns the answer's JSON
   * @throws HttpError `unavailable` for everything but a 2xx within the time
   */
  post(path: string, body: object): Promise<unknown>
  /**
   * @returns the first `max` results of an answer that comes as a stream
   * @throws as `post`
   */
  stream(path: string, body: object, max: number): Promise<unknown[]>
  close(): Promise<void>
}

/** Connects when first used. */
export function openRequests({ url, key, timeoutMs }: OpenFgaAddress): OpenFgaRequests {
  const headers = key === undefined ? {} : { authorization: `Bearer ${key}` }
  const sentence = 'the policy store is unavailable: retry'
  const requests = openOutsideRequests({ name: 'OpenFGA', sentence, url, headers, timeoutMs })
  return {
    post: async (path, body) => requests.jsonOf(await requests.send('POST', path, body)),
    stream: (path, body, max) => requests.stream(path, body, answer => resultsOf(answer, max)),
    close: () => requests.close(),
  }
}

/** Each line is JSON: `{"result": …}`, or `{"error": {"message": …}}` if the answer breaks off. Does not wait for results after `max`. */
async function resultsOf(answer: Readable, max: number): Promise<unknown[]> {
  const results: unknown[] = []
  let rest = ''
  for await (const chunk of answer.setEncoding('utf8')) {
    const lines = (rest + String(chunk)).split('\n')
    rest = lines.pop()!
    for (const line of lines) {
      const { result, error } = JSON.parse(line) as { result?: unknown; error?: { message?: string } }
      if (error !== undefined) throw new Error(`its answer broke off: ${error.message}`)
      if (results.push(result) >= max) return results
    }
  }
  return results
}
