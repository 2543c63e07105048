// What each answer of InfluxDB, and each way in which there is none, means for the pipeline.

import { named } from '../../config/option-variable.ts'
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

const url = named('store.url', 'SVC_TIMESERIES_URL')
const token = named('store.token', 'SVC_TIMESERIES_TOKEN')

/** By status. One that is not listed is transient from 500 on, else systemic. */
export const statusMeanings: ReadonlyMap<number, StatusMeaning> = new Map<number, StatusMeaning>([
  [400, { meaning: 'data', what: 'a line that cannot be read' }],
  [401, { meaning: 'systemic', what: 'the token is not known', advice: `correct ${token}` }],
  [
    403,
    {
      meaning: 'systemic',
      what: 'the token may not do this',
      advice: `give the token of ${token} read on the bucket and on the one whose name ends in _sluice, and a writer's also write on both`,
    },
  ],
  [404, { meaning: 'systemic', what: 'the organisation or the bucket is missing', advice: `correct ${url}` }],
  [408, { meaning: 'transient', what: 'the request took too long' }],
  [413, { meaning: 'data', what: 'the body is too large: it is sent in halves, and a single line that is too large is refused' }],
  [422, { meaning: 'data', what: 'some points were dropped: a field has another type, or the time is beyond the retention' }],
  [429, { meaning: 'transient', what: 'the quota is used up; Retry-After is kept to' }],
  [501, { meaning: 'systemic', what: 'the server cannot do this', advice: 'use InfluxDB 2' }],
])

/** What a request was for. */
interface Addressed {
  readonly org: string
  readonly bucket?: string
}

/** An answer that is not a success. */
export class ResponseError extends Error {
  override readonly name = 'ResponseError'
  readonly status: number
  /** What the server said, cut to a length that fits a log. */
  readonly said: string
  /** The `code` of its JSON: `unprocessable entity`. Empty where the answer is none of InfluxDB's own: of a proxy, say. */
  readonly code: string

  constructor(request: string, status: number, body: string, addressed: Addressed = { org: '' }) {
    const { code, message } = spoken(body)
    super(sentenceOf(`${status} to ${request}: ${excerpt(message)}`, { status, code, said: message }, addressed))
    this.status = status
    this.said = message
    this.code = code
  }
}

function sentenceOf(answer: string, { status, code, said }: Pick<ResponseError, 'status' | 'code' | 'said'>, addressed: Addressed): string {
  if (status === 401) return `InfluxDB does not know the token (${answer}): ${statusMeanings.get(401)!.advice!}`
  const missing = missingOf(status, said)
  if (missing === 'organisation') {
    return `InfluxDB has no organisation "${addressed.org}" that the token may see (${answer}): correct org in ${url}`
  }
  if (missing === 'bucket') {
    const named = /bucket "((?:[^"\\]|\\.)*)"/.exec(said)?.[1] ?? addressed.bucket ?? ''
    return `InfluxDB has no bucket "${named}" that the token may see (${answer}): correct bucket in ${url}; one that is missing is made when a writer starts, where its token may`
  }
  if (meaningOf(status).meaning === 'data' && code === '') {
    const advice = saysHttps(said) ? `give ${url} with https` : 'look at the proxy, or whatever stands before it'
    return `InfluxDB does not answer, but something else does (${answer}): ${advice}`
  }
  const advice = meaningOf(status).advice
  return `InfluxDB answers ${answer}${advice === undefined ? '' : `; ${advice}`}`
}

/** A question for an organisation that is not there is answered 400, and everything else about it 404. */
function missingOf(status: number, said: string): 'organisation' | 'bucket' | undefined {
  if (status !== 404 && !(status === 400 && /organization .*not found/.test(said))) return undefined
  if (/organization/.test(said)) return 'organisation'
  return /bucket/.test(said) ? 'bucket' : undefined
}

/** In the words of Go's servers, and of nginx. */
function saysHttps(said: string): boolean {
  return /HTTP request (was sent )?to (an )?HTTPS/i.test(said)
}

export function meaningOf(status: number): StatusMeaning {
  const unlisted: StatusMeaning =
    status >= 500 ? { meaning: 'transient', what: 'the server fails' } : { meaning: 'systemic', what: 'unknown' }
  return statusMeanings.get(status) ?? unlisted
}

/**
 * True for an answer that is about the lines of a write: in InfluxDB's own words, since a proxy answers with the same statuses what has nothing to do
 * with them. Only 413 may be anybody's: whoever says it takes less than was sent.
 */
export function isAboutData(error: unknown): error is ResponseError {
  if (!(error instanceof ResponseError)) return false
  const { status, code } = error
  return status === 413 || (status === 422 && code === 'unprocessable entity') || (status === 400 && namesReason(error))
}

/** Whether the answer to a write says what is wrong with a line. Where it does not, a point that is good may be refused with the same words. */
export function namesReason({ status, code, said }: ResponseError): boolean {
  if (status === 422) return code === 'unprocessable entity' && /\bpartial write\b/.test(said)
  return status === 400 && code === 'invalid' && /\bunable to parse '|\bpartial write\b/.test(said)
}

/** Whether lines were refused for their age: they lie before what the bucket keeps, or in a shard that is being deleted for that. */
export function isBeyondRetention(error: ResponseError): boolean {
  return (
    namesReason(error) && /\bpartial write: (dropped \d+ points outside retention policy|shard \d+ is pending deletion)\b/.test(error.said)
  )
}

/** What an error of `openSink` and of `write` means. */
export function classify(error: unknown): ErrorClass {
  if (error instanceof SinkError) return error.errorClass
  if (error instanceof ResponseError) return classOf(error)
  // Ended by the caller's signal: nothing is wrong with the store.
  if (error instanceof Error && error.name === 'AbortError') return 'transient'
  return 'systemic'
}

function classOf({ status, code, said }: ResponseError): ErrorClass {
  const { meaning } = meaningOf(status)
  // Of a proxy, which may be in order again soon; no server learns HTTPS or forgets it.
  if (meaning === 'data' && code === '') return saysHttps(said) ? 'systemic' : 'transient'
  return meaning === 'transient' ? 'transient' : 'systemic'
}

/** What no retry mends, though no answer came: the certificate is wrong, or what answers speaks no HTTP. */
const systemicCodes =
  /^(CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER_CERT|VERIFY_LEAF_SIGNATURE)|ERR_TLS_CERT_ALTNAME_INVALID|ERR_SSL_|EPROTO|UND_ERR_(INVALID_ARG|NOT_SUPPORTED))/

/** An error of the network or of the HTTP client, as the pipeline's. */
export function connectionFailure(server: string, cause: unknown): SinkError {
  const { code = '', message = String(cause) } = cause as { code?: string; message?: string }
  if (systemicCodes.test(code) || message.includes('Expected HTTP/')) {
    const advice = `see whether ${url} says http or https as the server does, and ${named('store.ca_file')} names the authority of its certificate`
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
