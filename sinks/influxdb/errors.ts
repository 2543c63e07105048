// What each answer of InfluxDB, and each way in which there is none, means for the pipeline.

import type { ErrorClass } from '../sink.ts'
import { SinkError } from '../sink-error.ts'

/** `data`, in the answer to a write: of the lines that were sent, some can never be stored. */
export type Meaning = 'transient' | 'systemic' | 'data'

export interface StatusMeaning {
  readonly meaning: Meaning
  /** What it is, as the README says it. */
  readonly what: string
  /** What an operator does about it. */
  readonly advice?: string
}

/** By status. One that is not listed is transient from 500 on, else systemic. */
export const statusMeanings: ReadonlyMap<number, StatusMeaning> = new Map<number, StatusMeaning>([
  [400, { meaning: 'data', what: 'a line that cannot be read' }],
  [401, { meaning: 'systemic', what: 'the token is not known', advice: 'give one that is in store.token' }],
  [
    403,
    {
      meaning: 'systemic',
      what: 'the token may not do this',
      advice: 'give it the rights that sinks/influxdb/README.md lists, on both buckets',
    },
  ],
  [
    404,
    {
      meaning: 'systemic',
      what: 'the organisation or the bucket is missing',
      advice: 'see the org and the bucket in store.url; a bucket that is missing is made when a writer starts, where its token may',
    },
  ],
  [408, { meaning: 'transient', what: 'the request took too long' }],
  [413, { meaning: 'data', what: 'the body is too large: it is sent in halves, and a single line that is too large is refused' }],
  [422, { meaning: 'data', what: 'some points were dropped: a field has another type, or the time is beyond the retention' }],
  [429, { meaning: 'transient', what: 'the quota is used up; Retry-After is kept to' }],
  [501, { meaning: 'systemic', what: 'the server cannot do this', advice: 'use InfluxDB 2' }],
])

/** An answer that is not a success. */
export class ResponseError extends Error {
  override readonly name = 'ResponseError'
  readonly status: number
  /** What the server said, cut to a length that fits a log. */
  readonly said: string
  /** The `code` of its JSON: `unprocessable entity`. Empty without one. */
  readonly code: string

  constructor(request: string, status: number, body: string) {
    const { code, message } = spoken(body)
    const advice = meaningOf(status).advice
    super(`InfluxDB answers ${status} to ${request}: ${excerpt(message)}${advice === undefined ? '' : `; ${advice}`}`)
    this.status = status
    this.said = message
    this.code = code
  }
}

export function meaningOf(status: number): StatusMeaning {
  const unlisted: StatusMeaning =
    status >= 500 ? { meaning: 'transient', what: 'the server fails' } : { meaning: 'systemic', what: 'unknown' }
  return statusMeanings.get(status) ?? unlisted
}

/** True for an answer that is about the lines of a write. */
export function isAboutData(error: unknown): error is ResponseError {
  return error instanceof ResponseError && meaningOf(error.status).meaning === 'data'
}

/** What an error of `openSink` and of `write` means. */
export function classify(error: unknown): ErrorClass {
  if (error instanceof SinkError) return error.errorClass
  if (error instanceof ResponseError) return meaningOf(error.status).meaning === 'transient' ? 'transient' : 'systemic'
  // Ended by the caller's signal: nothing is wrong with the store.
  if (error instanceof Error && error.name === 'AbortError') return 'transient'
  return 'systemic'
}

/** What no retry mends, though no answer came: the certificate is wrong, or what answers speaks no HTTP. */
const systemicCodes =
  /^(CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER_CERT|VERIFY_LEAF_SIGNATURE)|ERR_TLS_CERT_ALTNAME_INVALID|ERR_SSL_|EPROTO|UND_ERR_(INVALID_ARG|NOT_SUPPORTED))/

/** An error of the network or of the HTTP client, as the pipeline's. */
export function connectionFailure(server: string, cause: unknown): SinkError {
  const { code = '', message = String(cause) } = cause as { code?: string; message?: string }
  if (systemicCodes.test(code) || message.includes('Expected HTTP/')) {
    const advice = 'see whether store.url says http or https as the server does, and store.ca_file names the authority of its certificate'
    return new SinkError(
      'systemic',
      `InfluxDB at ${server} cannot be spoken to (${code === '' ? message : `${code}: ${message}`}); ${advice}`,
      { cause },
    )
  }
  return new SinkError('transient', `InfluxDB at ${server} cannot be reached (${code === '' ? message : `${code}: ${message}`})`, { cause })
}

function spoken(body: string): { code: string; message: string } {
  try {
    const { code, message } = JSON.parse(body) as { code?: unknown; message?: unknown }
    if (typeof message === 'string') return { code: typeof code === 'string' ? code : '', message }
  } catch {
    // A proxy's page, say.
  }
  return { code: '', message: body.trim() || 'nothing' }
}

function excerpt(text: string): string {
  return text.length <= 500 ? text : `${text.slice(0, 500)}…`
}
