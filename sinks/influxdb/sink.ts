// The InfluxDB sink: writes line protocol in compressed requests, several at once, and rejects the messages that the server refuses.

import { promisify } from 'node:util'
import { constants, gzip, gzipSync } from 'node:zlib'
import { eachAtOnce } from '../../config/each-at-once.ts'
import { openFormats } from '../formats.ts'
import { openKeyedReplay } from '../keyed-replay.ts'
import { type KeyedStore, openKeyedSink } from '../keyed-sink.ts'
import { openLogRegistry, openLogs, type SinkLogs } from '../logs.ts'
import { resolveFormats } from '../rejections.ts'
import type { ReplaySink } from '../replay.ts'
import type { LogNumbers, Sink } from '../sink.ts'
import { SinkError } from '../sink-error.ts'
import type { Connection } from './connection.ts'
import { type EncodedBatch, encode } from './encode.ts'
import { classify, type Fault, isAboutData, isBeyondRetention, namesReason, type ResponseError } from './errors.ts'
import { type Culprit, type Selection, writeIsolating } from './isolation.ts'
import type { SinkOptions } from './options.ts'
import { type EncodedLines, nsOfLine, rejectStored, textOf } from './points.ts'
import { formatAdder, openLogTable, openReplays, writeProof } from './registry.ts'
import { agedLines, beyondRetention, openSchema, prepareSchema, type Schema } from './schema.ts'

export { classify } from './errors.ts'

interface InfluxSinkOptions extends SinkLogs {
  /** The caller opens it, and closes it after the sink. */
  readonly connection: Connection
  readonly options: SinkOptions
  /** Called with a sentence if the bucket's retention differs from the options; the sink works all the same. */
  readonly onNotice?: (sentence: string) => void
}

type InfluxReplayOptions = Pick<InfluxSinkOptions, 'connection' | 'options'> & { readonly logNumber: number }

/** Buffers of written batches that are kept: one batch is written while the next is encoded. Buffers of rare, much larger batches are not kept. */
const buffersMax = 2
const bufferBytesMax = 16 * 1024 * 1024

/**
 * Opens a sink: creates the missing buckets, and checks the logs.
 *
 * @throws SinkError, ResponseError; `classify` says what they mean
 */
export async function openSink({ connection, options, onNotice, logs }: InfluxSinkOptions): Promise<Sink<EncodedBatch>> {
  const schema = await prepareSchema(connection, options, onNotice)
  const registry = openLogRegistry(openLogTable(connection))
  const opened = await openLogs(
    logs.map(log => ({ ...log, number: log.number ?? 1 })),
    registry,
  )
  return openKeyedSink(openStore(connection, options, schema, opened.logNumbers), opened)
}

/**
 * Opens a sink for replays, which creates and registers nothing.
 *
 * @throws SinkError (systemic) if a bucket is missing; ResponseError
 */
export async function openReplaySink({ connection, options, logNumber }: InfluxReplayOptions): Promise<ReplaySink> {
  const store = openStore(connection, options, await openSchema(connection), [logNumber])
  const careful: KeyedStore<EncodedBatch> = {
    ...store,
    async prepare(encoded, signal) {
      await rejectStored(encoded, logNumber, connection, signal)
      await store.prepare(encoded, signal)
    },
  }
  return openKeyedReplay(careful, openReplays(connection), logNumber)
}

function openStore(connection: Connection, options: SinkOptions, schema: Schema, logNumbers: LogNumbers): KeyedStore<EncodedBatch> {
  const formats = openFormats(formatAdder(connection, options))
  // Buffers are reused: allocating memory outside the heap for each batch would make the garbage collector scan the whole heap again and again.
  const buffers: Buffer[] = []
  return {
    encode: batch => encode(batch, logNumbers, buffers.pop()),
    release({ lines: { bytes } }) {
      if (buffers.length < buffersMax && bytes.buffer.byteLength <= bufferBytesMax) buffers.push(Buffer.from(bytes.buffer))
    },
    async prepare(encoded, signal) {
      await rejectBeyond(encoded, { schema, signal })
      await resolveFormats(formats, encoded, encoded.formats, signal)
    },
    async insert(encoded, _prepared, signal) {
      const refused = await writeLines(encoded, linesToWrite(encoded), { connection, sizes: options, signal })
      await rejectCulprits(encoded, refused, { connection, schema, signal })
      return undefined
    },
    async failed(error) {
      throw error
    },
    classify,
  }
}

function linesToWrite({ lines, rejected }: EncodedBatch): number[] {
  const wanted: number[] = []
  for (let line = 0; line < lines.length; line++) if (!rejected.has(lines.message[line]!)) wanted.push(line)
  return wanted
}

interface Sending {
  readonly connection: Connection
  readonly sizes: BodySizes
  readonly signal: AbortSignal
}

/** @returns the lines that the server refuses; all other lines of the selection are durable */
async function writeLines({ lines }: EncodedBatch, selection: Selection, sending: Sending): Promise<Culprit[]> {
  const { connection, sizes, signal } = sending
  const culprits: Culprit[] = []
  let begun = 0
  await eachAtOnce(splitBodies(lines, selection, sizes), sizes.requestsInFlight, async body => {
    const post = async (selection: Selection): Promise<void> => {
      signal.throwIfAborted()
      // The first ones are compressed synchronously, so that the server is busy while the caller encodes the next batch and blocks this thread.
      const text = begun++ < sizes.requestsInFlight ? bodyAtOnce(lines, selection) : await bodyOf(lines, selection)
      await connection.write(connection.bucket, text, signal)
    }
    culprits.push(...(await writeIsolating(body, post, line => nsOfLine(textOf(lines, line)))))
  })
  return culprits.sort((one, other) => one.line - other.line)
}

const compress = promisify(gzip)

interface BodySizes {
  /** Most bytes of the text of one body. */
  readonly bodyBytes: number
  readonly requestsInFlight: number
}

/**
 * Divides the lines into bodies of about the same size: at most `bodyBytes`, and as many as can be in flight, or a multiple of that, so that none is
 * sent alone at the end. They are divided between messages, after the message that fills a body's share: so the last body has the rest, and no
 * further one with a line or two follows it. Only a message that is larger than a body is itself divided.
 */
export function splitBodies(lines: EncodedLines, selection: Selection, sizes: BodySizes): Selection[] {
  const share = evenBytes(lines, selection, sizes)
  const bodies: number[][] = []
  let body: number[] = []
  let bytes = 0
  const finishBody = (): void => {
    if (body.length > 0) bodies.push(body)
    body = []
    bytes = 0
  }
  const isFull = (more: number): boolean => bytes >= share || bytes + more > sizes.bodyBytes
  for (let at = 0; at < selection.length; ) {
    const end = endOfMessage(lines, selection, at)
    const messageBytes = bytesOf(lines, selection, at, end)
    if (isFull(messageBytes)) finishBody()
    for (; at < end; at++) {
      const lineBytes = bytesOf(lines, selection, at, at + 1)
      if (messageBytes > sizes.bodyBytes && isFull(lineBytes)) finishBody()
      body.push(selection[at]!)
      bytes += lineBytes
    }
  }
  finishBody()
  return bodies
}

function evenBytes(lines: EncodedLines, selection: Selection, { bodyBytes, requestsInFlight }: BodySizes): number {
  const total = bytesOf(lines, selection, 0, selection.length)
  if (total <= bodyBytes) return bodyBytes
  return Math.ceil(total / (Math.ceil(total / bodyBytes / requestsInFlight) * requestsInFlight))
}

/** The index in the selection after the last line of the first line's message. */
function endOfMessage({ message }: EncodedLines, selection: Selection, first: number): number {
  let end = first + 1
  while (end < selection.length && message[selection[end]!] === message[selection[first]!]) end++
  return end
}

/** The bytes of the lines at these indexes of the selection. */
function bytesOf({ start }: EncodedLines, selection: Selection, first: number, end: number): number {
  let bytes = 0
  for (let at = first; at < end; at++) bytes += start[selection[at]! + 1]! - start[selection[at]!]!
  return bytes
}

/** The fastest level: a higher one would cost this process more than it saves in the network. */
const compression = { level: constants.Z_BEST_SPEED }

/** Compresses the text of these lines on another thread. */
async function bodyOf(lines: EncodedLines, selection: Selection): Promise<Uint8Array> {
  return await compress(textsOf(lines, selection), compression)
}

/** The same synchronously, for the first bodies. */
function bodyAtOnce(lines: EncodedLines, selection: Selection): Uint8Array {
  return gzipSync(textsOf(lines, selection), compression)
}

function textsOf(lines: EncodedLines, selection: Selection): Uint8Array {
  const pieces: Uint8Array[] = []
  for (let at = 0; at < selection.length; ) {
    const first = at
    while (at + 1 < selection.length && selection[at + 1] === selection[at]! + 1) at++
    pieces.push(lines.bytes.subarray(lines.start[selection[first]!], lines.start[selection[at]! + 1]))
    at++
  }
  return pieces.length === 1 ? pieces[0]! : Buffer.concat(pieces)
}

interface Writing {
  readonly connection: Connection
  readonly schema: Schema
  readonly signal: AbortSignal
}

/** Rejects the messages that are older than the bucket's present retention. */
export async function rejectBeyond(encoded: EncodedBatch, { schema, signal }: Pick<Writing, 'schema' | 'signal'>): Promise<void> {
  if (agedLines(encoded, schema.keptSeconds(), Date.now()).length === 0) return
  await schema.readAgain(signal)
  const aged = agedLines(encoded, schema.keptSeconds(), Date.now())
  rejectLines(
    encoded,
    aged.map(line => ({ line, fault: beyondRetention(schema.keptSeconds()) })),
  )
}

/**
 * Rejects the messages of lines that the server refuses.
 *
 * @throws SinkError if the server also refuses a point that is surely valid
 */
async function rejectCulprits(encoded: EncodedBatch, culprits: readonly Culprit[], { connection, schema, signal }: Writing): Promise<void> {
  if (culprits.length === 0) return
  await believe(connection, culprits, signal)
  // By the retention as last read, these lines are not too old.
  if (culprits.some(({ error }) => isBeyondRetention(error))) await schema.readAgain(signal)
  const faultOf = ({ error }: Culprit): Fault => (isBeyondRetention(error) ? beyondRetention(schema.keptSeconds()) : refusedBy(error))
  rejectLines(
    encoded,
    culprits.map(culprit => ({ line: culprit.line, fault: faultOf(culprit) })),
  )
}

/**
 * Rejects the message of each line, naming the first of its refused lines. A message that has other lines may have points in the bucket: from this
 * attempt, from an earlier one whose answer never came, or from another process that wrote it before.
 *
 * @param refused in the order of the lines
 */
function rejectLines({ lines, rejected }: EncodedBatch, refused: readonly { readonly line: number; readonly fault: Fault }[]): void {
  const refusedOf = Map.groupBy(refused, ({ line }) => lines.message[line]!)
  for (const [message, refusedLines] of refusedOf) {
    if (rejected.has(message)) continue
    const { line, fault } = refusedLines[0]!
    const isPartial = countLines(lines, line) > refusedLines.length
    rejected.set(message, { message, record: lines.record[line]!, ...fault, ...(isPartial ? { partial: true } : {}) })
  }
}

/** The number of lines of a line's message, which are consecutive. */
function countLines({ length, message }: EncodedBatch['lines'], line: number): number {
  let first = line
  let end = line
  while (first > 0 && message[first - 1] === message[line]) first--
  while (end < length && message[end] === message[line]) end++
  return end - first
}

/** If a refusal gives no reason, writes a valid point in the same way. If the server refuses that too, the line is not the reason. */
async function believe(connection: Connection, culprits: readonly Culprit[], signal: AbortSignal): Promise<void> {
  const refusal = culprits.find(({ error }) => !namesReason(error))?.error
  if (refusal === undefined) return
  try {
    await writeProof(connection, signal)
  } catch (error) {
    if (!isAboutData(error) && classify(error) === 'transient') throw error
    throw new SinkError(classify(refusal), `${refusal.message}; a valid point is refused as well`, { cause: refusal })
  }
}

function refusedBy(error: ResponseError): Fault {
  return { rule: 'store-refused', reason: `InfluxDB refused it (${error.status}): ${error.said.slice(0, 1000)}` }
}
