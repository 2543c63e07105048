// The table of all HTTP errors: status, stable code and title.

/** The documentation's table of errors is generated from this. */
export const errors = {
  malformed_request: { status: 400, title: 'the request is malformed' },
  undecodable: { status: 400, title: 'the message cannot be decoded' },
  unauthenticated: { status: 401, title: 'missing or invalid credentials' },
  forbidden: { status: 403, title: 'failed to perform authorization over the entity' },
  not_found: { status: 404, title: 'not found' },
  method_not_allowed: { status: 405, title: 'this path does not support this method' },
  not_acceptable: { status: 406, title: 'none of the accepted media types is available' },
  request_timeout: { status: 408, title: 'the request did not arrive in time' },
  conflict: { status: 409, title: 'the request conflicts with what exists' },
  precondition_failed: { status: 412, title: 'the entity has changed since it was read' },
  too_large: { status: 413, title: 'the body is too large' },
  unsupported_media_type: { status: 415, title: 'unsupported content type' },
  misdirected: { status: 421, title: 'this address does not answer for this host' },
  query_too_large: { status: 422, title: 'the query is too expensive' },
  too_many_requests: { status: 429, title: 'too many requests' },
  headers_too_large: { status: 431, title: 'the headers are too large' },
  internal: { status: 500, title: 'internal error: search the log for this request id' },
  unavailable: { status: 503, title: 'a dependency is unavailable: retry later' },
} as const

export type ErrorCode = keyof typeof errors

/** The `detail` of a 401 without a token. */
export const tokenRequired = 'a token is required: get one with POST /tokens and send it as Authorization: Bearer <token>'

/** A fault at one place of a request. `pointer`: `/body/0/name`, `/query/limit`, `/path/id`. */
export interface Fault {
  readonly pointer: string
  readonly detail: string
}

/** Thrown by routes and stores; the server's error handler converts it into the response. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly code: ErrorCode
  readonly detail: string | undefined
  readonly faults: readonly Fault[]
  /** For 429 and 503: value of the header Retry-After; default 1. */
  readonly retryAfterSeconds: number

  /** @param detail what is wrong with this request and what to do; must never reveal whether another user's entity exists */
  constructor(code: ErrorCode, detail?: string, options: { faults?: readonly Fault[]; cause?: unknown; retryAfterSeconds?: number } = {}) {
    super(detail ?? errors[code].title, options.cause === undefined ? undefined : { cause: options.cause })
    this.code = code
    this.detail = detail
    this.faults = options.faults ?? []
    this.retryAfterSeconds = options.retryAfterSeconds ?? 1
  }

  get status(): number {
    return errors[this.code].status
  }
}
