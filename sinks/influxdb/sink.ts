// The InfluxDB sink: lines of text in compressed requests, some at once; what the server refuses is found, rejected, and taken away.

import type { RecordBatch } from '../../transformers/record-batch.ts'
import { countMessages } from '../counts.ts'
import type { LogIdentity } from '../log-registry.ts'
import { type MessageCounts, positionHigh, positionLow, type Reject, type Rejection, type Sink } from '../sink.ts'
import { bodyOf, cutBodies, eachAtOnce, type Selection } from './bodies.ts'
import { type KnownConflicts, openConflicts } from './conflicts.ts'
import type { Connection } from './connection.ts'
import { encode } from './encode.ts'
import type { EncodedBatch, EncodedLines } from './encoded-batch.ts'
import { classify, type ResponseError } from './errors.ts'
import { type Formats, openFormats } from './formats.ts'
import { type Culprit, writeIsolating } from './isolation.ts'
import { registerLog } from './logs.ts'
import type { SinkOptions } from './options.ts'
import { removeMessage } from './removal.ts'
import { noteReplays } from './replays.ts'
import { beyondRetention, rejectBeyond } from './retention.ts'
import { prepareSchema, type Schema } from './schema.ts'

export { classify } from './errors.ts'

export interface InfluxSinkOptions extends LogIdentity {
  /** Opened by the caller, who closes it after the sink. */
  readonly connection: Connection
  readonly options: SinkOptions
  /** Told what is another than the options say. */
  readonly onNotice?: (sentence: string) => void
}

/**
 * Opens a sink: makes the buckets that are missing, and registers the log.
 *
 * @throws SinkError, ResponseError; `classify` says what they mean
 */
export async function openSink({ connection, options, onNotice, ...identity }: InfluxSinkOptions): Promise<Sink<EncodedBatch>> {
  const schema = await prepareSchema(connection, options, onNotice)
  const logNumber = await registerLog(connection, identity)
  const formats = openFormats(connection, options)
  const conflicts = openConflicts()
  let underWay: Promise<unknown> = Promise.resolve()
  let closed = false

  async function write(encoded: EncodedBatch, reject: Reject, signal: AbortSignal): Promise<MessageCounts[]> {
    await rejectKnown(encoded, { formats, schema, signal })
    await acknowledge(encoded, reject)
    // What was refused before comes first, so that nothing of its message is sent if it is refused again.
    const suspects = conflicts.suspects(encoded, line => textOf(encoded.lines, line))
    rejectCulprits(encoded, await writeBodies(encoded, [suspects], { connection, options, signal }), { schema, conflicts })
    const bodies = cutBodies(encoded.lines, message => encoded.rejected.has(message), options)
    rejectCulprits(encoded, await writeBodies(encoded, bodies, { connection, options, signal }), { schema, conflicts })
    await acknowledge(encoded, reject)
    await removePartly(encoded, connection, { logNumber, atOnce: options.requestsInFlight, signal })
    await noteReplays(connection, encoded, signal)
    return countMessages(encoded.messages, encoded.ranges, encoded.rejected)
  }

  return {
    logNumber,
    encode: (batch: RecordBatch) => encode(batch, logNumber),
    async write(encoded, reject, signal) {
      if (closed) throw new Error('the sink is closed')
      const writing = write(encoded, reject, signal)
      underWay = writing.catch(() => undefined)
      return await writing
    },
    classify,
    async close() {
      closed = true
      await underWay
    },
  }
}

/** What is known to be refused before anything is sent. */
async function rejectKnown(
  encoded: EncodedBatch,
  { formats, schema, signal }: { formats: Formats; schema: Schema; signal: AbortSignal },
): Promise<void> {
  const { rejected } = encoded
  rejectBeyond(encoded, schema.keptSeconds, Date.now())
  const wanted = encoded.formats.filter(({ messages }) => messages.some(message => !rejected.has(message)))
  const refused = wanted.length === 0 ? undefined : await formats.admit(wanted, signal)
  if (refused === undefined || refused.size === 0) return
  for (const { format, messages } of wanted) {
    const refusal = refused.get(format)
    if (refusal === undefined) continue
    for (const message of messages) if (!rejected.has(message)) rejected.set(message, { message, ...refusal })
  }
}

async function acknowledge({ rejected, acknowledged }: EncodedBatch, reject: Reject): Promise<void> {
  if (rejected.size === acknowledged.size) return
  const fresh: Rejection[] = [...rejected.values()].filter(({ message }) => !acknowledged.has(message))
  fresh.sort((one, other) => one.message - other.message)
  await reject(fresh)
  for (const { message } of fresh) acknowledged.add(message)
}

/** @returns what the server refuses; all other lines of the bodies are durable */
async function writeBodies(
  { lines }: EncodedBatch,
  bodies: readonly Selection[],
  { connection, options, signal }: { connection: Connection; options: SinkOptions; signal: AbortSignal },
): Promise<Culprit[]> {
  const culprits: Culprit[] = []
  await eachAtOnce(bodies, options.requestsInFlight, async body => {
    const post = async (selection: Selection): Promise<void> => {
      signal.throwIfAborted()
      await connection.write(connection.bucket, await bodyOf(lines, selection), signal)
    }
    culprits.push(...(await writeIsolating(body, post, line => textOf(lines, line))))
  })
  return culprits.sort((one, other) => one.line - other.line)
}

function rejectCulprits(
  { lines, rejected, partly }: EncodedBatch,
  culprits: readonly Culprit[],
  { schema, conflicts }: { schema: Schema; conflicts: KnownConflicts },
): void {
  const refusedLines = new Set(culprits.map(({ line }) => line))
  for (const { line, error } of culprits) {
    conflicts.remember(error)
    const message = lines.message[line]!
    if (rejected.has(message)) continue
    const [first, end] = linesOf(lines, message)
    for (let other = first; other < end; other++) if (!refusedLines.has(other)) partly.add(message)
    const fault = error.said.includes('retention policy') ? beyondRetention(schema.keptSeconds) : refusedBy(error)
    rejected.set(message, { message, record: lines.record[line]!, ...fault })
  }
}

function refusedBy({ status, said }: ResponseError): Pick<Rejection, 'rule' | 'reason' | 'hint'> {
  return {
    rule: 'store-refused',
    reason: `InfluxDB refuses it (${status}): ${said.slice(0, 1000)}`,
    hint: 'a field keeps the type that it had first, in each shard of its measurement: send the same type always, or use another key',
  }
}

/** Deletes the other rows of messages that were refused while they were written. */
async function removePartly(
  { lines, messages, originals, partly }: EncodedBatch,
  connection: Connection,
  { logNumber, atOnce, signal }: { logNumber: number; atOnce: number; signal: AbortSignal },
): Promise<void> {
  await eachAtOnce([...partly], atOnce, async message => {
    const [first, end] = linesOf(lines, message)
    const texts = Array.from({ length: end - first }, (_, nth) => textOf(lines, first + nth))
    const original = originals?.get(message)
    const [log, partition, offset] =
      original === undefined
        ? [logNumber, messages.partition[message]!, messages.offset[message]!]
        : [original.log, original.partition, original.offset]
    const position = (BigInt(positionHigh(log, partition, offset)) << 32n) | BigInt(positionLow(offset))
    await removeMessage(connection, texts, position, signal)
    partly.delete(message)
  })
}

/** The lines of a message: the first, and behind the last. */
function linesOf(lines: EncodedLines, message: number): [first: number, end: number] {
  const first = lines.message.subarray(0, lines.length).indexOf(message)
  let end = first
  while (end < lines.length && lines.message[end] === message) end++
  return [first, end]
}

/** Without its line end. */
function textOf({ bytes, start }: EncodedLines, line: number): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset + start[line]!, start[line + 1]! - start[line]! - 1).toString('utf8')
}
