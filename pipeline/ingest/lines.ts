// Many messages in one publish (application/x-ndjson): each line is an object with the message's subtopic and payload.

import { HttpError } from '../../http/errors.ts'
import { syntaxReason } from '../../transformers/excerpt.ts'
import { memberOf } from '../../transformers/root.ts'
import { skipSpace } from '../../transformers/senml/json-tokens.ts'
import { type MediaType, mediaTypeOfPayload } from './content-type.ts'
import { SubtopicError, subtopicOf } from './subtopic.ts'

export const linesType = 'application/x-ndjson'

/** The message of one line. */
export interface Line {
  /** Counted from 1, also blank ones. */
  readonly line: number
  readonly subtopic: string
  readonly contentType: MediaType
  /** The bytes of the body, not a copy. */
  readonly payload: Uint8Array
}

export interface LinesOptions {
  /** Of the request, before the subtopic of each line. */
  readonly path: string
  readonly linesMax: number
  readonly payloadBytesMax: number
}

const lineFeed = 0x0a
const utf8 = new TextDecoder('utf-8', { fatal: true })
const form = 'send {"subtopic": "<subtopic>", "payload": <a SenML pack or a JSON document>}'

/**
 * The messages of a body, read as they are taken. Blank lines are skipped.
 *
 * @throws HttpError `malformed_request` for a line that is no such object, `too_large` for a payload or for more lines than allowed; it names the line
 */
export function* readLines(body: Uint8Array, options: LinesOptions): Generator<Line, void> {
  for (let start = 0, line = 1; start < body.length; line++) {
    if (line > options.linesMax)
      throw new HttpError('too_large', `the body has more than ${options.linesMax} lines: send fewer in one request`)
    const feed = body.indexOf(lineFeed, start)
    const end = feed === -1 ? body.length : feed
    const bytes = body.subarray(start, end)
    start = end + 1
    if (skipSpace(bytes, 0) === bytes.length) continue
    let message: Omit<Line, 'line'>
    try {
      message = readLine(bytes, options)
    } catch (error) {
      throw inLine(error, line)
    }
    yield { line, ...message }
  }
}

/** The error of a request for that of the message in one of its lines. */
export function inLine(error: unknown, line: number): unknown {
  if (error instanceof SubtopicError) return inLine(fault(error.message, '/subtopic'), line)
  if (!(error instanceof HttpError)) return error
  const faults = error.faults.map(({ pointer, detail }) => ({
    pointer: `/body/${line - 1}${pointer.replace(/^\/body/, '/payload').replace(/^\/path/, '')}`,
    detail,
  }))
  return new HttpError(error.code, `line ${line}: ${error.detail ?? error.message}`, { faults, cause: error })
}

/** @throws HttpError, SubtopicError */
function readLine(bytes: Uint8Array, { path, payloadBytesMax }: LinesOptions): Omit<Line, 'line'> {
  const { subtopic = '', payload, ...others } = parse(bytes)
  const [unknown] = Object.keys(others)
  if (unknown !== undefined) throw fault(`${JSON.stringify(unknown.slice(0, 100))} is not a member of a line: ${form}`)
  if (typeof subtopic !== 'string') throw fault(`the subtopic is not a text: ${form}`, '/subtopic')
  const span = memberOf(bytes, 'payload')
  if (span === undefined || typeof payload !== 'object' || payload === null) {
    throw fault(`the payload is missing, or is neither an object nor an array: ${form}`, '/payload')
  }
  if (span.length > payloadBytesMax) {
    throw new HttpError('too_large', `the payload is larger than ${payloadBytesMax} bytes: split it into several messages`)
  }
  return { subtopic: subtopicOf(`${path}/${subtopic}`), contentType: mediaTypeOfPayload(span), payload: span }
}

/** @throws HttpError */
function parse(bytes: Uint8Array): Record<string, unknown> {
  let value: unknown
  try {
    value = JSON.parse(utf8.decode(bytes))
  } catch (cause) {
    throw fault(cause instanceof SyntaxError ? `this is not JSON: ${syntaxReason(cause)}` : 'this is not UTF-8')
  }
  if (typeof value === 'object' && value !== null && !Array.isArray(value)) return value as Record<string, unknown>
  throw fault(`this is not an object: ${form}`)
}

function fault(detail: string, pointer = ''): HttpError {
  return new HttpError('malformed_request', detail, { faults: [{ pointer: `/path${pointer}`, detail }] })
}
