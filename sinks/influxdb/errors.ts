// What InfluxDB's answers and failed connections mean for the pipeline, and why a message is refused before anything of it is sent.

import { named } from '../../config/options/variable.ts'
import { classOf, type ErrorRow, errorTable } from '../error-table.ts'
import type { ErrorClass, Rejection } from '../sink.ts'
import { SinkError } from '../sink-error.ts'

const url = named('store.url', 'SVC_TIMESERIES_URL')
const token = named('store.token', 'SVC_TIMESERIES_TOKEN')

/**
 * By status. A status that is not listed is transient from 500 on, otherwise systemic. `data`, in the answer to a write: some of the lines can never
 * be stored.
 */
export const errorRows: readonly ErrorRow[] = [
  { key: 400, name: 'a line is invalid', meaning: 'data' },
  { key: 401, name: 'the token is unknown', meaning: 'systemic', advice: `correct ${token}` },
  {
    key: 403,
    name: 'the token lacks a permission',
    meaning: 'systemic',
    advice: `give the token in ${token} read permission on the bucket and on the one whose name ends in _sluice, and for a writer also write permission on both`,
  },
  { key: 404, name: 'the organisation or the bucket is missing', meaning: 'systemic', advice: `correct ${url}` },
  { key: 408, name: 'the request took too long', meaning: 'transient' },
  { key: 413, name: 'the body is too large: it is sent in halves, and a single line that is too large is refused', meaning: 'data' },
  {
    key: 422,
    name: 'some points were dropped: the time is beyond the retention, or another program gave a field another type',
    meaning: 'data',
  },
  { key: 429, name: 'the quota is used up; Retry-After is respected', meaning: 'transient' },
  { key: 501, name: 'the server does not support this', meaning: 'systemic', advice: 'use InfluxDB 2' },
]
const rowOf = errorTable(errorRows)

/** The organisation and bucket of a request. */
interface Addressed {
  readonly org: string
  readonly bucket?: string
}

/** An answer that is not a success. */
export class ResponseError extends Error {
  override readonly name = 'ResponseError'
  readonly status: number
  /** The server's message. */
  readonly said: string
  /** The `code` of its JSON: `unprocessable entity`. Empty if the answer is not InfluxDB's own, but a proxy's for example. */
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
  if (status === 401) return `InfluxDB does not know the token (${answer}): ${rowOf(401)!.advice!}`
  const missing = missingOf(status, said)
  if (missing === 'organisation') {
    return `InfluxDB has no organisation "${addressed.org}" that the token may read (${answer}): correct org in ${url}`
  }
  if (missing === 'bucket') {
    const named = /bucket "((?:[^"\\]|\\.)*)"/.exec(said)?.[1] ?? addressed.bucket ?? ''
    return `InfluxDB has no bucket "${named}" that the token may read (${answer}): correct bucket in ${url}; a missing bucket is created when a writer starts, if its token may`
  }
  if (rowOf(status)?.meaning === 'data' && code === '') {
    const advice = saysHttps(said) ? `use https in ${url}` : 'check the proxy or load balancer'
    return `the answer comes from a server in front of InfluxDB (${answer}): ${advice}`
  }
  const advice = rowOf(status)?.advice
  return `InfluxDB answered ${answer}${advice === undefined ? '' : `; ${advice}`}`
}

/** A query for a missing organisation is answered with 400, every other request with 404. */
function missingOf(status: number, said: string): 'organisation' | 'bucket' | undefined {
  if (status !== 404 && !(status === 400 && /organization .*not found/.test(said))) return undefined
  if (/organization/.test(said)) return 'organisation'
  return /bucket/.test(said) ? 'bucket' : undefined
}

/** In the words of Go's servers and of nginx. */
function saysHttps(said: string): boolean {
  return /HTTP request (was sent )?to (an )?HTTPS/i.test(said)
}

/**
 * True if an answer is about the lines of a write. It must be in InfluxDB's own words, since a proxy uses the same statuses for other reasons. Only
 * 413 may come from anything on the way, and then it means the same: the body is too large.
 */
export function isAboutData(error: unknown): error is ResponseError {
  if (!(error instanceof ResponseError)) return false
  const { status, code } = error
  return status === 413 || (status === 422 && code === 'unprocessable entity') || (status === 400 && namesReason(error))
}

/** True if the answer to a write says what is wrong with a line. If it does not, even a valid point may be refused with the same words. */
export function namesReason({ status, code, said }: ResponseError): boolean {
  if (status === 422) return code === 'unprocessable entity' && /\bpartial write\b/.test(said)
  return status === 400 && code === 'invalid' && /\bunable to parse '|\bpartial write\b/.test(said)
}

/** True if lines were refused for their age: they are older than what the bucket keeps, or their shard is being deleted for that reason. */
export function isBeyondRetention(error: ResponseError): boolean {
  return (
    namesReason(error) && /\bpartial write: (dropped \d+ points outside retention policy|shard \d+ is pending deletion)\b/.test(error.said)
  )
}

export function classify(error: unknown): ErrorClass {
  return classOf(error, failure => {
    if (!(failure instanceof ResponseError)) return 'systemic'
    const { status, code, said } = failure
    const meaning = rowOf(status)?.meaning ?? (status >= 500 ? 'transient' : 'systemic')
    // From a proxy, which may soon work again. But a wrong protocol, HTTP for HTTPS, does not go away.
    if (meaning === 'data' && code === '') return saysHttps(said) ? 'systemic' : 'transient'
    return meaning
  })
}

/** Matches failures that no retry resolves: the certificate is wrong, or the other side does not speak HTTP. */
const systemicCodes =
  /^(CERT_|DEPTH_ZERO_SELF_SIGNED_CERT|SELF_SIGNED_CERT_IN_CHAIN|UNABLE_TO_(GET_ISSUER_CERT|VERIFY_LEAF_SIGNATURE)|ERR_TLS_CERT_ALTNAME_INVALID|ERR_SSL_|EPROTO|UND_ERR_(INVALID_ARG|NOT_SUPPORTED))/

/** Converts an error of the network or of the HTTP client. */
export function connectionFailure(server: string, cause: unknown): SinkError {
  const { code = '', message = String(cause) } = cause as { code?: string; message?: string }
  if (systemicCodes.test(code) || message.includes('Expected HTTP/')) {
    const advice = `check that ${url} has http or https like the server, and that ${named('store.ca_file')} is the CA of its certificate`
    return new SinkError(
      'systemic',
      `no connection to InfluxDB at ${server} is possible (${code === '' ? message : `${code}: ${message}`}): ${advice}`,
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
    // For example, a proxy's page.
  }
  return { code: '', message: body.trim() || 'nothing' }
}

function excerpt(text: string): string {
  return text.length <= 500 ? text : `${text.slice(0, 500)}…`
}

/** Most bytes of the measurement and tags as they are written, the longest field key, and four bytes between. */
export const seriesBytesMax = 65_535
/** Most bytes of a string value. */
export const stringBytesMax = 1_048_576

export type Fault = Pick<Rejection, 'rule' | 'reason' | 'hint'>

export const faults = {
  tag: (name: string): Fault => ({
    rule: 'store-refused',
    reason: `the ${name} ends in a backslash, or contains a line end, a NUL or half a surrogate pair, which a tag of InfluxDB cannot store`,
    hint: `use a ${name} without them`,
  }),
  text: (what: string, value: string): Fault =>
    value.length > stringBytesMax / 3
      ? faults.length(what)
      : {
          rule: 'store-refused',
          reason: `${what} contains a NUL or half a surrogate pair, which InfluxDB cannot store`,
          hint: 'send text without them',
        },
  length: (what: string): Fault => ({
    rule: 'store-refused',
    reason: `${what} has more than ${stringBytesMax} bytes, the most that a field of InfluxDB can hold`,
    hint: 'send it in several messages',
  }),
  time: (): Fault => ({
    rule: 'store-refused',
    reason: "its time does not fit into InfluxDB's range, which covers 1684 to 2255",
    hint: 'check the clock of the device',
  }),
  key: (key: string): Fault => ({
    rule: 'reserved-key',
    reason: `the key ${JSON.stringify(key.slice(0, 100))} cannot be a field of InfluxDB: it is reserved or the name of a tag, is empty, begins with "/", ends in a backslash, or contains a line end, a NUL, half a surrogate pair, or a backslash before a comma, an equals sign or a space`,
    hint: 'rename the key',
  }),
  taken: (other: string): Fault => ({
    rule: 'point-taken',
    reason: `the message ${other} has the point that it needs: of the same series and millisecond, and with the same six digits below, which come from the offset`,
    hint: 'if it is still needed, send it again with another time, name or subtopic; a replay is refused while the point is taken',
  }),
  series: (): Fault => ({
    rule: 'identifier-length',
    reason: `measurement, tags and the longest key have more than ${seriesBytesMax} bytes together, the most that a series of InfluxDB can have`,
    hint: 'use shorter ids, names, units and keys',
  }),
}

/** Most bytes of channel, publisher and format together, as in PostgreSQL. The server keeps all of them in memory for each series. */
export const identifiersBytesMax = 2048
