// Every error that the HTTP interfaces answer, in one table: status, stable code, and the sentence a caller reads.

/** The README's table of errors is made from this one. */
export const errors = {
  malformed_request: { status: 400, title: 'the request is malformed' },
  undecodable: { status: 400, title: 'the message cannot be decoded' },
  unauthenticated: { status: 401, title: 'no credentials, or credentials that are not valid' },
  forbidden: { status: 403, title: 'failed to perform authorization over the entity' },
  not_found: { status: 404, title: 'there is nothing under this path' },
  method_not_allowed: { status: 405, title: 'this path does not take this method' },
  not_acceptable: { status: 406, title: 'there is no answer in a form that is accepted' },
  request_timeout: { status: 408, title: 'the request did not arrive in time' },
  conflict: { status: 409, title: 'the request conflicts with what exists' },
  precondition_failed: { status: 412, title: 'the entity has changed since it was read' },
  too_large: { status: 413, title: 'the body is too large' },
  unsupported_media_type: { status: 415, title: 'this content type is not taken here' },
  query_too_large: { status: 422, title: 'the question costs more than one answer may: ask for less' },
  too_many_requests: { status: 429, title: 'too many requests' },
  headers_too_large: { status: 431, title: 'the headers are too large' },
  internal: { status: 500, title: 'something went wrong here; the log holds the cause under this request id' },
  unavailable: { status: 503, title: 'a dependency is away: try again' },
} as const

export type ErrorCode = keyof typeof errors

/** A fault in one place of a request. `pointer`: `/body/0/name`, `/query/limit`, `/path/id`. */
export interface Fault {
  readonly pointer: string
  readonly detail: string
}

/** Thrown by routes and stores; the server's error handler turns it into the answer. */
export class HttpError extends Error {
  override readonly name = 'HttpError'
  readonly code: ErrorCode
  readonly detail: string | undefined
  readonly faults: readonly Fault[]
  /** For 429 and 503: what the header Retry-After says; 1 where it is left out. */
  readonly retryAfterSeconds: number

  /** @param detail what is wrong with this request and what to do; never tells whether something foreign exists */
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
