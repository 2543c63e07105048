// Reads what `send` sends: whole files, lines, or rows of CSV. An error names the input and the line.

import { extname } from 'node:path'
import { inputChunks, inputName, ToolError } from '../../../bin/streams.ts'
import { SubtopicError, subtopicOf } from '../../../pipeline/ingest/subtopic.ts'
import { senmlFormat } from '../../../transformers/record-batch.ts'
import { canonicalId } from '../../../transformers/uuid.ts'
import { type CsvRow, parseCsv } from '../provision/csv.ts'
import { plain } from '../text.ts'

/** What a message has beside its payload, from the command line or from columns; empty if it is not given. */
export interface Address {
  readonly channel: string
  readonly subtopic: string
  readonly publisher: string
  readonly contentType: string
}

export interface InputMessage extends Address {
  readonly payload: Uint8Array
}

/** Messages that were read together, and how many bytes of the input they took. */
export interface InputBatch {
  readonly messages: readonly InputMessage[]
  readonly bytes: number
}

export interface InputOptions {
  readonly kind: 'whole' | 'lines' | 'csv'
  readonly address: Address
  readonly payloadBytesMax: number
  /** Ends the input. */
  readonly signal: AbortSignal
}

const json = 'application/json'
/** `.senml` and `.senmlc` are registered by RFC 8428 §12.3. */
const typesOfExtensions: Readonly<Record<string, string>> = {
  '.senmlc': 'application/senml+cbor',
  '.cbor': 'application/senml+cbor',
  '.json': json,
  '.jsonl': json,
  '.ndjson': json,
}
const defaultType = 'application/senml+json'

const lineFeed = 0x0a
const carriageReturn = 0x0d
const quote = 0x22
/** Of a row beside its payload. */
const cellsBytesMax = 64 * 1024

/**
 * The messages of one input, no faster than they are taken, and with at most a chunk and a message in memory. Messages before an invalid one
 * are returned before its error is thrown.
 *
 * @param file undefined or `-` is standard input
 * @throws ToolError that names the input and the line
 */
export async function* readMessages(file: string | undefined, options: InputOptions): AsyncGenerator<InputBatch> {
  const { kind, payloadBytesMax, signal } = options
  const name = inputName(file)
  const chunks = inputChunks(file, 'send', signal)
  const contentType = options.address.contentType || (typesOfExtensions[extname(file ?? '').toLowerCase()] ?? defaultType)
  const address = { ...options.address, contentType }
  if (kind === 'whole') yield* wholeMessage(chunks, name, address, options)
  else if (kind === 'lines') {
    for await (const { bytes, line } of completeLines(chunks, name, { bytesMax: payloadBytesMax + 2, isQuoted: false, signal })) {
      yield* beforeFault(lineMessages(bytes, line, name, address, payloadBytesMax), bytes.length)
    }
  } else {
    let columns: readonly string[] | undefined
    const limits = { bytesMax: 2 * payloadBytesMax + cellsBytesMax, isQuoted: true, signal }
    for await (const { bytes, line } of completeLines(chunks, name, limits)) {
      const rows = parseCsv(name, textOf(bytes, `${name}:${line}`), line)
      columns ??= checkedColumns(rows.shift(), name)
      yield* beforeFault(rowMessages(rows, columns, name, options), bytes.length)
    }
    if (columns === undefined && !signal.aborted) throw new ToolError(`${name} is empty: begin it with a row of column names`)
  }
}

async function* wholeMessage(
  chunks: AsyncIterable<Buffer>,
  name: string,
  address: Address,
  { payloadBytesMax, signal }: InputOptions,
): AsyncGenerator<InputBatch> {
  const parts: Buffer[] = []
  let bytes = 0
  for await (const chunk of chunks) {
    parts.push(chunk)
    bytes += chunk.length
    checkSize(bytes, payloadBytesMax, name)
  }
  // A part of a message is not sent.
  if (signal.aborted) return
  yield { messages: [messageOf(Buffer.concat(parts, bytes), address, name, payloadBytesMax)], bytes }
}

/** Returns the messages before an invalid one, and only then throws its error. */
function* beforeFault(messages: Iterable<InputMessage>, bytes: number): Generator<InputBatch> {
  const valid: InputMessage[] = []
  let fault: { readonly error: unknown } | undefined
  try {
    for (const message of messages) valid.push(message)
  } catch (error) {
    fault = { error }
  }
  yield { messages: valid, bytes }
  if (fault !== undefined) throw fault.error
}

interface LineOptions {
  /** Of a line; a longer one is an error. */
  readonly bytesMax: number
  /** A line end between quotes belongs to its row. Quotes in a cell are doubled, so after an odd number of them one is open. */
  readonly isQuoted: boolean
  /** An input that it ends may end within a line, which is left out. */
  readonly signal: AbortSignal
}

/**
 * Joins chunks so that each block ends where a line ends, or with the input.
 *
 * @throws ToolError for a line that is too long
 */
async function* completeLines(
  chunks: AsyncIterable<Buffer>,
  name: string,
  { bytesMax, isQuoted, signal }: LineOptions,
): AsyncGenerator<{ readonly bytes: Buffer; readonly line: number }> {
  let begun: Buffer[] = []
  let begunBytes = 0
  let [line, lines] = [1, 0]
  let isInside = false
  for await (const chunk of chunks) {
    let end = 0
    let nextLine = line
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]!
      if (byte === quote && isQuoted) isInside = !isInside
      if (byte !== lineFeed) continue
      lines++
      if (isInside) continue
      end = at + 1
      nextLine = line + lines
    }
    if (end > 0) {
      yield { bytes: Buffer.concat([...begun, chunk.subarray(0, end)]), line }
      lines -= nextLine - line
      line = nextLine
      begun = []
      begunBytes = 0
    }
    begun.push(chunk.subarray(end))
    begunBytes += chunk.length - end
    if (begunBytes > bytesMax) throw new ToolError(`${name}:${line}: the line is longer than ${bytesMax} bytes: send smaller messages`)
  }
  if (begunBytes > 0 && !signal.aborted) yield { bytes: Buffer.concat(begun), line }
}

function* lineMessages(bytes: Buffer, first: number, name: string, address: Address, bytesMax: number): Generator<InputMessage> {
  let line = first
  for (let start = 0; start < bytes.length; line++) {
    const found = bytes.indexOf(lineFeed, start)
    const next = found === -1 ? bytes.length : found + 1
    let end = found === -1 ? bytes.length : found
    if (end > start && bytes[end - 1] === carriageReturn) end--
    if (end > start) yield messageOf(bytes.subarray(start, end), address, `${name}:${line}`, bytesMax)
    start = next
  }
}

const addressColumns = ['channel', 'subtopic', 'publisher', 'content_type', 'payload']

/** @throws ToolError for columns that contradict each other */
function checkedColumns(header: CsvRow | undefined, name: string): readonly string[] {
  const columns = header?.cells.map(cell => cell.trim()) ?? []
  const twice = columns.find((column, at) => column === '' || columns.indexOf(column) !== at)
  if (twice !== undefined) throw new ToolError(`${name}:1: two columns are called "${plain(twice)}", or one has no name: give each its own`)
  const fields = columns.filter(column => !addressColumns.includes(column))
  if (columns.includes('payload') && fields.length > 0) {
    throw new ToolError(`${name}:1: the column payload is the whole payload: remove the column ${plain(fields[0]!)}, or the column payload`)
  }
  if (!columns.includes('payload') && fields.length === 0) {
    throw new ToolError(`${name}:1: no column has data: add a column payload, or a column for each field of a JSON document`)
  }
  return columns
}

function* rowMessages(
  rows: readonly CsvRow[],
  columns: readonly string[],
  name: string,
  { address, payloadBytesMax }: InputOptions,
): Generator<InputMessage> {
  const isDocument = !columns.includes('payload')
  for (const { line, cells } of rows) {
    const origin = `${name}:${line}`
    if (cells.length !== columns.length) {
      throw new ToolError(`${origin}: ${cells.length} cells, but ${columns.length} columns: give each row a cell for each column`)
    }
    const cellOf = (column: string): string => cells[columns.indexOf(column)] ?? ''
    const fields = columns.flatMap((column, at) =>
      addressColumns.includes(column) || cells[at] === '' ? [] : [`${JSON.stringify(column)}:${jsonOf(cells[at]!)}`],
    )
    const own = {
      channel: cellOf('channel') || address.channel,
      subtopic: cellOf('subtopic') || address.subtopic,
      publisher: cellOf('publisher') || address.publisher,
      contentType: cellOf('content_type') || address.contentType || (isDocument ? json : defaultType),
    }
    const payload = isDocument ? `{${fields.join(',')}}` : cellOf('payload')
    yield messageOf(Buffer.from(payload), own, origin, payloadBytesMax)
  }
}

/** A number stays as it is written, so that none of its digits is lost; any other text is a string: also `007`, and a number beyond all doubles. */
function jsonOf(cell: string): string {
  const isNumber = /^-?(0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?$/.test(cell) && Number.isFinite(Number(cell))
  return isNumber ? cell : JSON.stringify(cell)
}

function messageOf(payload: Uint8Array, address: Address, origin: string, bytesMax: number): InputMessage {
  checkSize(payload.length, bytesMax, origin)
  if (payload.length === 0) throw new ToolError(`${origin}: the payload is empty: nothing to send`)
  const { contentType } = address
  // In one form, so that all messages of a channel are in one partition.
  const channel = canonicalId(address.channel)
  const subtopic = subtopicAt(address.subtopic, origin)
  if (channel === '') throw new ToolError(`${origin}: no channel: give its id with --channel, or in a column channel of a CSV file`)
  if (contentType.split(';')[0]!.trim().toLowerCase() === json && (subtopic === '' || subtopic.split('.').at(-1) === senmlFormat)) {
    throw new ToolError(
      `${origin}: a JSON document needs a subtopic, whose last part is its format (not "${senmlFormat}"): give --subtopic, or --content-type ${defaultType} for a SenML pack`,
    )
  }
  return { ...address, channel, subtopic, payload }
}

function subtopicAt(text: string, origin: string): string {
  try {
    return subtopicOf(text)
  } catch (error) {
    throw error instanceof SubtopicError ? new ToolError(`${origin}: ${error.message}`, { cause: error }) : error
  }
}

function checkSize(bytes: number, bytesMax: number, origin: string): void {
  if (bytes <= bytesMax) return
  throw new ToolError(
    `${origin}: the payload is larger than the ${bytesMax} bytes that are accepted: send smaller messages, or raise message.payload_bytes of the writer`,
  )
}

function textOf(bytes: Buffer, origin: string): string {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(bytes)
  } catch (cause) {
    throw new ToolError(`${origin}: this row or one of the next is not UTF-8: convert the file`, { cause })
  }
}
